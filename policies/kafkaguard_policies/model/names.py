"""Kafka's names in policies."""

from __future__ import annotations

from kafkaguard import errors
from kafkaguard._common.closest import did_you_mean


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
    classes = {known for known in dir(errors) if known.endswith("Error")}
    raise ValueError(
        f"kafkaguard.errors has no class {name!r}{did_you_mean(name, classes)}"
    )
