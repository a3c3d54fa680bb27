"""Spark settings in a pipeline file: checks before and after Spark starts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkaguard_adapters.spark.pipeline.places import MistakeError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIX: Final = "spark."
_MEMORY: Final = "spark.driver.memory"
#: Spark's own limit (UnifiedMemoryManager): one and a half times its reserved memory.
_LEAST_MEMORY: Final = 450 * 2**20
_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE: Final = re.compile(r"([1-9]\d*)([kmgt]?)", re.IGNORECASE)
#: Shorter values may be in a text by chance.
_TELLING: Final = 3


def check_settings(settings: Mapping[str, str]) -> None:
    """Check for settings that Spark would ignore, or that would end it silently.

    Args:
        settings: The Spark settings of the pipeline file.

    Raises:
        MistakeError: A name does not begin with ``spark.``, Java cannot have that much
            memory, or Spark cannot run with so little.
    """
    for name in settings:
        if not name.startswith(_PREFIX):
            raise MistakeError(
                ("spark", name),
                "this is not a Spark setting: their names begin with 'spark.' "
                "(those of Hadoop with 'spark.hadoop.')",
            )
    if _MEMORY in settings and not _is_enough(settings[_MEMORY]):
        raise MistakeError(
            ("spark", _MEMORY),
            f"{settings[_MEMORY]!r} is too small, or not a size that Java accepts: "
            "write it as '512m' or '4g'; Spark needs at least 450m",
        )


def _is_enough(size: str) -> bool:
    found = _SIZE.fullmatch(size)
    if found is None:
        return False
    return int(found[1]) * _UNITS[found[2].lower()] >= _LEAST_MEMORY


def setting_in(text: str, settings: Mapping[str, str]) -> str | None:
    """Find the setting that Spark complains about, by its name or its value."""
    for name in settings:
        if name in text:
            return name
    for name, value in settings.items():
        if len(value) >= _TELLING and value in text:
            return name
    return None
