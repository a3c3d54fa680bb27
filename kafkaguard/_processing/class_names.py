"""Exception classes that a policy names: those that are loaded, and those that are not.

Whether a name is right cannot be known when a policy is read, since the class may be in
a module that is loaded later. When a run begins, most of them are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafkaguard._common.closest import did_you_mean
from kafkaguard._common.logs import Log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._processing.policy import HandlerSettings

_log = Log("processing")


def path_of(cls: type) -> str:
    """Return the name of a class with its module."""
    return f"{cls.__module__}.{cls.__qualname__}"


def named_class(name: str) -> type | None:
    """Return the class that has a name with its module where it is imported; or None.

    A package often lists a class that one of its modules defines: the name
    ``psycopg.OperationalError`` is of the class ``psycopg.errors.OperationalError``.
    """
    module, _, attribute = name.rpartition(".")
    value = getattr(sys.modules.get(module), "__dict__", {}).get(attribute)
    return value if isinstance(value, type) else None


def warn_of_unknown(settings: HandlerSettings) -> None:
    """Warn of names in a policy that no loaded exception class has."""
    names = [
        (setting, name)
        for setting in ("retry_on", "reject_on", "wait_on")
        for name in getattr(settings, setting)
    ]
    if not names:
        return
    loaded = set(_loaded(BaseException))
    short, paths = {cls.__name__ for cls in loaded}, set(map(path_of, loaded))
    unknown = [
        f"{setting}: {name}{did_you_mean(name, paths if '.' in name else short)}"
        for setting, name in names
        if name not in short and name not in paths and named_class(name) not in loaded
    ]
    if unknown:
        _log.warning(
            "class_names_unknown",
            "process(): no loaded exception class has a name that is in the policy's "
            "block handler: %s. A class that is loaded later counts from then on",
            ", ".join(unknown),
        )


def _loaded(cls: type[BaseException]) -> Iterator[type[BaseException]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _loaded(child)
