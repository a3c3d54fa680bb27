"""Build a producer: the first one with a factory, or the replacement of a dead one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer
from kafkaguard_adapters.aiokafka._private.producing import reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Builder:
    """Knows how to build the same producer again.

    Args:
        producer: The first producer.
        factory: Builds a producer: the client's class, or your own function. Default:
            the class of the producer.
        settings: The keyword arguments. Default: read from the producer.
    """

    def __init__(
        self,
        producer: Any,
        factory: Callable[..., Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        cls = type(producer)
        is_known = cls.__init__ is AIOKafkaProducer.__init__
        #: Whether the user has given a factory.
        self.was_given = factory is not None
        #: Whether the guard can build the producer again.
        self.can_build = factory is not None or is_known
        self._factory = factory or cls
        if settings is None and factory is None and is_known:
            settings = reading.settings_of(producer)
        self._settings = dict(settings or {})

    def build(self) -> Any:
        """Build a producer, without starting it."""
        return self._factory(**self._settings)
