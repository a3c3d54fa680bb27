"""A fault: the requests that it matches, how often, and its action."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard.testing.proxy.actions import Action
    from kafkaguard.testing.proxy.items import Item
    from kafkaguard.testing.proxy.matching import Match, Request

_log = logging.getLogger("kafkaguard.testing")


@dataclass
class Fault:
    """A fault that was set; counts how often it was applied.

    Args:
        match: Which requests it meets.
        action: What it does.
        times: How often at most; None forever.
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
