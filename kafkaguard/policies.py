"""Retry policies: the public names."""

from __future__ import annotations

import kafkaguard_policies
from kafkaguard_policies import *  # noqa: F403 - the list is kept in one place

__all__ = list(kafkaguard_policies.__all__)
