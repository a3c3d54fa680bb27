"""Build a producer from a factory, or the successor of a dead producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer

from kafkaguard.errors import ClientClosedError
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Entries of ``config`` that each producer finds out itself.
_NOT_SETTINGS = frozenset({"api_version"})


class Builder:
    """Builds the same producer again.

    Args:
        factory: Builds the producer: the client's class, or a function of the user.
            Default: the class of the predecessor.
        settings: The keyword arguments. Default: read from the predecessor.
    """

    def __init__(
        self,
        factory: Callable[..., Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.was_given = factory is not None
        self._factory = factory
        self._settings = None if settings is None else dict(settings)

    def build(self, predecessor: Any = None) -> Any:
        """Build a producer.

        Args:
            predecessor: The producer that the new one replaces.

        Raises:
            KafkaGuardError: The predecessor's class has its own ``__init__``, so its
                settings are not enough to build it.
        """
        factory = self._factory or _factory_of(predecessor)
        settings = self._settings
        if settings is None:
            settings = {} if self.was_given else settings_of(predecessor)
        return factory(**settings)


def settings_of(producer: Any) -> dict[str, Any]:
    """Read the settings that a producer was built with."""
    known = KafkaProducer.DEFAULT_CONFIG.keys() - _NOT_SETTINGS
    return {name: producer.config[name] for name in known if name in producer.config}


def _factory_of(producer: Any) -> Callable[..., Any]:
    cls = type(producer)
    if cls.__init__ is not KafkaProducer.__init__:
        raise errors.make(
            ClientClosedError,
            f"the producer is dead and {cls.__qualname__} has its own __init__, so the "
            "guard cannot build it again from its settings: use "
            "guard(factory=..., config={...})",
        )
    return cls
