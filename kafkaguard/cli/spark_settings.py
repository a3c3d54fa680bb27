"""The Spark setting of a pipeline file that made Spark fail to start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Shorter values may be in a text by chance.
_TELLING: Final = 3


def setting_in(text: str, settings: Mapping[str, str]) -> str | None:
    """Find the setting that Spark complains about, by its name or its value."""
    for name in settings:
        if name in text:
            return name
    for name, value in settings.items():
        if len(value) >= _TELLING and value in text:
            return name
    return None
