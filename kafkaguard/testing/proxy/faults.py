"""A fault: the requests that it matches, how often, and its action."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard.testing.proxy.actions import Action
    from kafkaguard.testing.proxy.items import Item
    from kafkaguard.testing.proxy.matching import DecodedRequest, Match

_log = logging.getLogger("kafkaguard.testing")


class Fault(Protocol):
    """A fault of a proxy; ``with`` removes it at the end of the block."""

    fired: int
    """How often it was applied."""

    def remove(self) -> None:
        """Remove the fault."""

    def __enter__(self) -> Self:
        """Return the fault."""

    def __exit__(self, *_: object) -> None:
        """Remove the fault."""


@dataclass
class CountedFault:
    """A fault, which counts how often it was applied.

    Args:
        match: Selects the requests.
        action: The effect.
        times: How often it is applied at most; None: no limit.
        skip: How many matching requests pass before the first one.
        rate: The share of matching requests to which it is applied, 0 to 1.
        seed: Makes the choice of that share repeatable.
        owner: The owner, which removes it.
    """

    match: Match
    action: Action
    times: int | None = None
    skip: int = 0
    rate: float = 1.0
    seed: int | None = None
    owner: Callable[[CountedFault], None] | None = None
    fired: int = field(default=0, init=False)
    """How often it was applied."""

    def __post_init__(self) -> None:
        """Seed the random numbers."""
        self._dice = random.Random(self.seed)  # noqa: S311 - chaos is no secret
        self._seen = 0

    @property
    def spent(self) -> bool:
        """Whether it was applied as often as ``times`` allows."""
        return self.times is not None and self.fired >= self.times

    def meant(self, request: DecodedRequest) -> list[Item] | None:
        """Return the selected items of a request; None if it is not selected now.

        All matching requests count, also those that another fault decides about.
        """
        if self.spent or not self.match.meets(request):
            return None
        items = [item for item in request.items if self.match.meets_item(item)]
        if not items and (request.items or self.match.wants_item):
            return None
        return items if self._is_due() else None

    def remove(self) -> None:
        """Remove the fault."""
        if self.owner is not None:
            self.owner(self)

    def __enter__(self) -> Self:
        """Return the fault, which is removed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the fault."""
        self.remove()

    def __str__(self) -> str:
        """Describe the fault in words."""
        return str(self.action)

    def _is_due(self) -> bool:
        self._seen += 1
        if self._seen <= self.skip:
            return False
        return self.rate >= 1.0 or self._dice.random() < self.rate
