"""Error classes made at run time: for unknown codes, and with two parents.

Both are cached and can be pickled.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from kafkaguard._errors import base, generated, special
from kafkaguard._errors.base import (
    KafkaGuardError,
    MadeAtRunTime,
    UnrecognisedCodeError,
)
from kafkaguard._errors.generated import BY_CODE
from kafkaguard._errors.librdkafka import LOCAL_CODES
from kafkaguard._errors.special import NoError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Names of the classes that Kafka's codes and clients' conditions have.
CLASS_NAMES = frozenset((*base.__all__, *generated.__all__, *special.__all__))
_BY_NAME = {cls.name: cls for cls in BY_CODE.values()}
# The name of confluent-kafka's C module cannot be imported.
_REAL_MODULES = {"cimpl": "confluent_kafka.cimpl"}


def for_code(code: int) -> type[KafkaGuardError]:
    """Return the class of an error code; never fails for a number.

    Args:
        code: A code of the broker (-1 and up) or a local one of librdkafka (-137 and
            down). An unknown number has its own fatal class, which keeps the number.

    Raises:
        TypeError: ``code`` is not an int.
    """
    if type(code) is not int:
        raise TypeError(f"an error code is an int, not {code!r}; see for_name()")
    return BY_CODE.get(code) or _numbered(code)


def for_name(name: str) -> type[KafkaGuardError]:
    """Return the class of an error by Kafka's name, as ``"NOT_COORDINATOR"``.

    Raises:
        KeyError: Kafka has no such name; the message has the nearest one.
    """
    try:
        return _BY_NAME[name.upper()]
    except KeyError:
        from kafkaguard._common.closest import did_you_mean

        hint = did_you_mean(name, _BY_NAME)
        raise KeyError(f"Kafka has no error named {name!r}{hint}") from None


@cache
def _numbered(code: int) -> type[KafkaGuardError]:
    if code == NoError.code:
        return NoError
    name, base = LOCAL_CODES.get(code, (f"UNRECOGNISED_{code}", UnrecognisedCodeError))
    return _make(
        base.__name__, (base,), {"code": code, "name": name}, (for_code, (code,))
    )


def dual(
    ours: type[KafkaGuardError], theirs: type[BaseException]
) -> type[KafkaGuardError]:
    """Return a class that is both ``ours`` and a client's ``theirs``.

    ``except`` blocks written for either catch it. Attributes of ours win.
    """
    if issubclass(ours, theirs):
        return ours
    key = (ours, theirs)
    if key not in _DUALS:
        path = f"{module_of(theirs)}:{theirs.__qualname__}"
        namespace = {"__doc__": ours.__doc__}
        recipe = (_dual_again, (ours, path))
        _DUALS[key] = _make(ours.__name__, (ours, theirs), namespace, recipe)
    return _DUALS[key]


_DUALS: dict[tuple[type, type], type[KafkaGuardError]] = {}


def module_of(cls: type) -> str:
    """Return the module that another process can import a client's class from."""
    return _REAL_MODULES.get(cls.__module__, cls.__module__)


def _dual_again(ours: type[KafkaGuardError], path: str) -> type[KafkaGuardError]:
    """Make a dual class in another process, or only ours if theirs is missing."""
    module, _, name = path.partition(":")
    try:
        theirs = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return ours
    return dual(ours, theirs)


def _make(
    name: str,
    bases: tuple[type, ...],
    namespace: dict[str, Any],
    recipe: tuple[Callable[..., type], tuple[Any, ...]],
) -> type[KafkaGuardError]:
    cls = MadeAtRunTime(name, bases, {**namespace, "__module__": "kafkaguard.errors"})
    cls.recipe = recipe
    return cast("type[KafkaGuardError]", cls)
