"""Build a producer: the first one of a factory, or the successor of a dead one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer

from kafkaguard.errors import ClientClosedError
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Found out by each producer itself.
_NOT_SETTINGS = frozenset({"api_version"})


class Builder:
    """Knows how to build the same producer again.

    Args:
        factory: What builds it: the client's class, or a function of your own. Default:
            the class of the producer at hand.
        settings: The keyword arguments. Default: read from the producer at hand.
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
            predecessor: The producer that it takes the place of.

        Raises:
            KafkaGuardError: The predecessor's settings do not tell how to build it.
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
