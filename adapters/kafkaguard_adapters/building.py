"""The arguments of ``guard()``, and how to build the client again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard._errors import ClientClosedError
from kafkaguard._verdicts.topic_facts import TopicFactsCache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._cluster.reports import Make
    from kafkaguard._retries.events import Event
    from kafkaguard_policies.retry_policy import RetryPolicy


@dataclass(frozen=True, slots=True)
class Wish:
    """The arguments of ``guard()``; each ``wrap`` gets them.

    Attributes:
        policy: The policy.
        factory: Builds the client; None: the caller gave the client itself.
        config: The client's settings; None: not given.
        cache: Facts about topics: those that the caller has declared, and later those
            that were looked up.
        on_event: The hook for events, or None.
        settings: The settings of the client that a policy may change, by Kafka's names;
            None: they are not known.
    """

    policy: RetryPolicy
    factory: Callable[..., Any] | None = None
    config: Mapping[str, Any] | None = None
    cache: TopicFactsCache = field(default_factory=TopicFactsCache)
    on_event: Callable[[Event], object] | None = None
    settings: Mapping[str, Any] | None = None


def build(factory: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    """Build a client; names with dots (librdkafka) are passed as one dict."""
    has_dots = any("." in each for each in config)
    return factory(dict(config)) if has_dots else factory(**config)


class Builder:
    """Builds the same client again.

    Args:
        wish: The arguments of ``guard()``.
        client: The first client.
        settings: The settings to build its class with, as read from the client; None:
            they are not known, or not enough.
        make: Makes the client's errors.

    Attributes:
        was_given: Whether the caller gave a factory.
        can_build: Whether ``build`` can build a client.
    """

    def __init__(
        self,
        wish: Wish,
        client: Any,
        settings: Mapping[str, Any] | None,
        make: Make,
    ) -> None:
        self.was_given = wish.factory is not None
        self.can_build = self.was_given or settings is not None
        self._factory = wish.factory or type(client)
        self._settings = dict((wish.config if self.was_given else settings) or {})
        self._make = make

    def build(self) -> Any:
        """Build a client, without starting it.

        Raises:
            ClientClosedError: The guard cannot build it.
        """
        if not self.can_build:
            raise self._make(
                ClientClosedError,
                f"the producer is dead and {self._factory.__qualname__} has its own "
                "__init__, so the guard cannot build it again from its settings: use "
                "guard(factory=..., config={...})",
            )
        return build(self._factory, self._settings)
