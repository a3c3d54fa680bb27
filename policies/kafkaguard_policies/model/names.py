"""Names of Kafka's that policies may use, and the nearest right one for a wrong one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from kafkaguard import errors

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question that offers the nearest name, or nothing."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def error_class(name: str) -> type[errors.KafkaGuardError]:
    """Return the error class of a Kafka name or a class name.

    Raises:
        ValueError: There is neither; the message has the nearest one.
    """
    if name.isupper():
        try:
            return errors.for_name(name)
        except KeyError as error:
            raise ValueError(error.args[0]) from None
    found = getattr(errors, name, None)
    if isinstance(found, type) and issubclass(found, errors.KafkaGuardError):
        return found
    classes = {known for known in errors.__all__ if known.endswith("Error")}
    raise ValueError(f"kafkaguard.errors has no class {name!r}{nearest(name, classes)}")
