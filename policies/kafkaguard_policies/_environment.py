"""A policy from environment variables, read by pydantic-settings."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from kafkaguard_policies._documents import Document
from kafkaguard_policies._models import RetryPolicy
from kafkaguard_policies._problems import PolicyError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

BASE = "KAFKAGUARD_POLICY"
PREFIX = f"{BASE}_"


class _Variables(RetryPolicy, BaseSettings):
    """The policy's fields as environment variables."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__")


def environment_document() -> Document:
    """Read ``KAFKAGUARD_POLICY`` and the settings of ``KAFKAGUARD_POLICY_...``.

    ``KAFKAGUARD_POLICY`` names the preset or file to start from (default:
    ``default``). ``KAFKAGUARD_POLICY_MAX_ATTEMPTS=3`` and
    ``KAFKAGUARD_POLICY_BACKOFF__BASE=0.5`` change single settings; lists are JSON.

    Raises:
        PolicyError: A variable names no setting, or is no JSON where it must be.
    """
    unknown = list(_unknown(os.environ))
    if unknown:
        raise PolicyError("environment", unknown)
    try:
        settings = EnvSettingsSource(_Variables)()
    except SettingsError as error:
        message = f"{error}: write it as JSON, such as [] or {{}}"
        raise PolicyError("environment", [Problem(message)]) from None
    return Document(
        "environment", {"extends": os.environ.get(BASE, "default"), **settings}
    )


def _unknown(names: Iterable[str]) -> Iterable[Problem]:
    known = [f"{PREFIX}{field.upper()}" for field in RetryPolicy.model_fields]
    for name in names:
        if name.upper().startswith(PREFIX) and name.upper().split("__")[0] not in known:
            near = get_close_matches(name.upper(), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Problem(f"{name} names no setting of a policy{hint}")
