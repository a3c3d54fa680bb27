"""Conditions that select requests for a fault.

A user's predicate gets a :class:`Request`. If it raises, the request does not match.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

from kafkaguard._common.logs import Log

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard.testing.proxy.frames import Header
    from kafkaguard.testing.proxy.places import Item


_log = Log("testing")


class Request(Protocol):
    """A request to a broker, as predicates get it."""

    @property
    def api(self) -> str:
        """Kafka's name of the API."""

    @property
    def version(self) -> int:
        """The version of the API."""

    @property
    def client_id(self) -> str | None:
        """The client id."""

    @property
    def broker(self) -> int | None:
        """The id of the request's broker, or None if unknown."""

    @property
    def partitions(self) -> tuple[tuple[str, int | None], ...]:
        """The topics and partitions that it names."""

    @property
    def body(self) -> Any:
        """The decoded body, with the fields of Kafka's schema in snake case.

        None if the API or its version is unknown.
        """


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """A request as the proxy has decoded it; see :class:`Request`.

    Attributes:
        header: Its API, version, correlation id and client id.
        broker: The id of the request's broker, or None if unknown.
        items: The items that it names: topics with their partitions, groups, resources.
        body: The decoded body.
    """

    header: Header
    broker: int | None
    items: tuple[Item, ...]
    body: Any

    @property
    def api(self) -> str:
        """Kafka's name of the API."""
        return self.header.api

    @property
    def version(self) -> int:
        """The version of the API."""
        return self.header.version

    @property
    def client_id(self) -> str | None:
        """The client id."""
        return self.header.client_id

    @property
    def partitions(self) -> tuple[tuple[str, int | None], ...]:
        """The topics and partitions that it names."""
        return tuple(
            (item.topic, item.partition)
            for item in self.items
            if item.topic is not None
        )


@dataclass(frozen=True, slots=True)
class Match:
    """The conditions of a fault; None matches all requests."""

    api_keys: frozenset[int] | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    client_id: str | None = None
    when: Callable[[Request], bool] | None = None

    @property
    def selects_items(self) -> bool:
        """Whether it selects certain topics or partitions."""
        return self.topic is not None or self.partition is not None

    def matches(self, request: DecodedRequest) -> bool:
        """Return whether a request matches, without regard to its items."""
        return self.matches_offer(request.header.api_key, request) and (
            self.when is None or self._evaluate(request)
        )

    def matches_offer(self, api_key: int, request: DecodedRequest) -> bool:
        """Return whether an API that a request's sender is offered matches."""
        return (
            (self.api_keys is None or api_key in self.api_keys)
            and (self.broker is None or self.broker == request.broker)
            and _matches_pattern(self.client_id, request.client_id)
        )

    def matches_item(self, item: Item) -> bool:
        """Return whether an item of a matching request matches."""
        if item.everything:
            return True
        is_topic_matched = item.topic is None or _matches_pattern(
            self.topic, item.topic
        )
        return is_topic_matched and (
            self.partition is None or item.partition in (None, self.partition)
        )

    def _evaluate(self, request: DecodedRequest) -> bool:
        assert self.when is not None
        try:
            return bool(self.when(request))
        except Exception:  # noqa: BLE001 - a user's hook never breaks the proxy
            _log.exception(
                "predicate_raised", "the predicate of a fault failed; taken as no match"
            )
            return False


def _matches_pattern(pattern: str | None, value: str | None) -> bool:
    return pattern is None or (value is not None and fnmatchcase(value, pattern))
