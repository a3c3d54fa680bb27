"""One fault: which requests it meets, how often, and what it does to them."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard.testing.proxy.actions import Action
    from kafkaguard.testing.proxy.frames import Header
    from kafkaguard.testing.proxy.items import Item

_log = logging.getLogger("kafkaguard.testing")


@dataclass(frozen=True, slots=True)
class Request:
    """A request on its way to a broker, as predicates see it.

    Attributes:
        header: Its API, version, correlation id and client id.
        broker: The id of the broker that it is sent to, None if not known.
        items: What it names: topics with their partitions, groups, resources.
        body: The decoded body, with the fields of Kafka's schema in snake case; None
            where the API or its version is not known.
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
        """What the client calls itself."""
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
    """Which requests a fault meets; None meets every one."""

    api_keys: frozenset[int] | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    client_id: str | None = None
    when: Callable[[Request], bool] | None = None

    @property
    def wants_item(self) -> bool:
        """Whether it is about certain topics or partitions."""
        return self.topic is not None or self.partition is not None

    def meets(self, request: Request) -> bool:
        """Tell whether a request is met, whatever items it names."""
        return self.offered_to(request.header.api_key, request) and (
            self.when is None or self._holds(request)
        )

    def offered_to(self, api_key: int, request: Request) -> bool:
        """Tell whether an API, as offered to the sender of a request, is meant."""
        return (
            (self.api_keys is None or api_key in self.api_keys)
            and (self.broker is None or self.broker == request.broker)
            and _fits(self.client_id, request.client_id)
        )

    def meets_item(self, item: Item) -> bool:
        """Tell whether an item of a request that is met is meant."""
        if item.everything:
            return True
        topic_fits = item.topic is None or _fits(self.topic, item.topic)
        return topic_fits and (
            self.partition is None or item.partition in (None, self.partition)
        )

    def _holds(self, request: Request) -> bool:
        assert self.when is not None
        try:
            return bool(self.when(request))
        except Exception:  # noqa: BLE001 - a user's hook never breaks the proxy
            _log.exception("the predicate of a fault failed; taken as no match")
            return False


def _fits(pattern: str | None, value: str | None) -> bool:
    return pattern is None or (value is not None and fnmatchcase(value, pattern))


@dataclass
class Fault:
    """A fault that was set; counts how often it was applied.

    Args:
        match: Which requests it meets.
        action: What it does.
        times: How often at most; None for ever.
        skip: How many matching requests it lets pass first.
        rate: The share of matching requests that it is applied to, 0 to 1.
        seed: Makes the choice of that share repeatable.
        owner: Removes it.
    """

    match: Match
    action: Action
    times: int | None = None
    skip: int = 0
    rate: float = 1.0
    seed: int | None = None
    owner: Callable[[Fault], None] | None = None
    fired: int = field(default=0, init=False)
    """How often it was applied."""

    def __post_init__(self) -> None:
        """Seed the dice."""
        self._dice = random.Random(self.seed)  # noqa: S311 - chaos is no secret
        self._seen = 0

    @property
    def spent(self) -> bool:
        """Whether it was applied as often as it may be."""
        return self.times is not None and self.fired >= self.times

    def meant(self, request: Request) -> list[Item] | None:
        """Return the items of a request that are meant; None if it is not meant now.

        Every matching request counts, also one that another fault decides about.
        """
        if self.spent or not self.match.meets(request):
            return None
        items = [item for item in request.items if self.match.meets_item(item)]
        if not items and (request.items or self.match.wants_item):
            return None
        return items if self._is_due() else None

    def remove(self) -> None:
        """Take the fault away."""
        if self.owner is not None:
            self.owner(self)

    def __enter__(self) -> Self:
        """Return itself; it is taken away at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Take the fault away."""
        self.remove()

    def __str__(self) -> str:
        """Return what it does, in words."""
        return str(self.action)

    def _is_due(self) -> bool:
        self._seen += 1
        if self._seen <= self.skip:
            return False
        return self.rate >= 1.0 or self._dice.random() < self.rate
