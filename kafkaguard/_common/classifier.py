"""The slot for ``classify``, which stands above the errors whose verdicts it gives.

``kafkaguard/__init__.py`` fills it. Python runs that file before any other module of
the package, so the slot is full in each process, also where an error is unpickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: Returns the verdict of an error.
classify: Callable[[Any], Any]
