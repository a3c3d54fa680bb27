"""What ``guard()`` was told about a client, and how to build the client again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard._verdicts.topic_facts import TopicFactsCache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._retries.events import Event
    from kafkaguard_policies import RetryPolicy


@dataclass(frozen=True, slots=True)
class Wish:
    """What ``guard()`` was told about a client; each ``wrap`` gets it.

    Attributes:
        policy: The policy.
        factory: Builds the client; None: the caller has given the client itself.
        config: The client's settings; None: not given.
        cache: Facts about topics: those that the caller has declared, and later those
            that were looked up.
        on_event: The hook for events, or None.
    """

    policy: RetryPolicy
    factory: Callable[..., Any] | None = None
    config: Mapping[str, Any] | None = None
    cache: TopicFactsCache = field(default_factory=TopicFactsCache)
    on_event: Callable[[Event], object] | None = None


def build(factory: Callable[..., Any], config: Mapping[str, Any]) -> Any:
    """Build a client; names with dots (librdkafka) are passed as one dict."""
    has_dots = any("." in each for each in config)
    return factory(dict(config)) if has_dots else factory(**config)
