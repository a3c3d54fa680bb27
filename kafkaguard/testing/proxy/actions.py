"""Actions of faults: each changes the plan for one request and its answer."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from kafkaguard.testing.proxy.journal import code_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard.testing.proxy.items import Item, Keys
    from kafkaguard.testing.proxy.journal import Exchange
    from kafkaguard.testing.proxy.matching import DecodedRequest, Match
    from kafkaguard.testing.proxy.places import Layout

Breakage = Literal["drop", "close", "reset", "cut", "garble"]


@dataclass(frozen=True, slots=True)
class InsertedError:
    """An error to insert into an answer.

    Attributes:
        kind: The level of the error in the answer.
        error: The fields to set.
        match: Selects the items.
    """

    kind: str
    error: Mapping[str, Any]
    match: Match


@dataclass(slots=True)
class Plan:
    """What the proxy does with one request and its answer.

    Attributes:
        request: The request.
        exchange: Its entry in the journal.
        layout: The places of items and errors in its answer; None if unknown.
        withheld: Items that the broker does not receive.
        answered: The client expects an answer.
        made_here: The proxy makes the answer, without the broker.
        waits: The request was sent to the broker, which will answer.
        breakage: How the exchange is broken off.
        written: The exchange is broken off after the broker has answered.
        down: Seconds for which the broker cannot be reached.
    """

    request: DecodedRequest
    exchange: Exchange
    layout: Layout | None
    answered: bool = True
    delay_before: float = 0.0
    delay_after: float = 0.0
    throttle: float | None = None
    refusals: list[InsertedError] = field(default_factory=list)
    withheld: dict[Keys, Item] = field(default_factory=dict)
    made_here: bool = False
    waits: bool = False
    empty: bool = False
    edits: list[Callable[[Any], None]] = field(default_factory=list)
    breakage: Breakage | None = None
    written: bool = True
    down: float | None = None
    damage: Callable[[bytes], bytes] | None = None

    @property
    def shapes_answer(self) -> bool:
        """Whether the answer differs from the broker's."""
        shaped = self.refusals or self.edits or self.empty
        return bool(shaped) or self.throttle is not None


class Action(Protocol):
    """The effect of a fault."""

    @property
    def exclusive(self) -> bool:
        """Whether no other exclusive action may be applied to the same items."""
        ...

    def apply(self, plan: Plan, items: list[Item], match: Match) -> bool:
        """Change the plan; False if it cannot be applied to this request."""
        ...


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with an error code."""

    code: int
    written: bool = False
    at: str | None = None
    message: str | None = None
    records: tuple[int, ...] = ()
    exclusive: ClassVar[bool] = True

    def apply(self, plan: Plan, items: list[Item], match: Match) -> bool:
        """Set the error where a broker sets it, or at the place ``at``."""
        layout = plan.layout
        if layout is None:
            return False
        kind = layout.default_kind(self.code, item_wanted=match.wants_item)
        if self.at in layout.kinds:
            kind = self.at
        if kind is None:
            return False
        plan.refusals.append(InsertedError(kind, self._fields(), match))
        if not self.written:
            self._withhold(plan, layout, kind, items)
        return True

    def _withhold(
        self, plan: Plan, layout: Layout, kind: str, items: list[Item]
    ) -> None:
        if layout.needs_broker(kind):
            return
        if kind == "top":
            plan.made_here = True
        elif not any(item.everything for item in items):
            plan.withheld.update((item.keys, item) for item in items)

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"error_code": self.code}
        if self.message is not None:
            fields["error_message"] = self.message
        if self.records:
            fields["record_errors"] = self.records
        return fields

    def __str__(self) -> str:
        """Describe the action in words."""
        after = " after the broker did the work" if self.written else ""
        return f"fail with {code_name(self.code)}({self.code}){after}"


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay a request or its answer."""

    seconds: float
    before: bool = False
    exclusive: ClassVar[bool] = False

    def apply(self, plan: Plan, items: list[Item], match: Match) -> bool:  # noqa: ARG002 - part of the protocol
        """Add to the delay."""
        if self.before:
            plan.delay_before += self.seconds
        else:
            plan.delay_after += self.seconds
        return True

    def __str__(self) -> str:
        """Describe the action in words."""
        what = "request" if self.before else "answer"
        return f"delay the {what} by {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Throttle:
    """Tell the client that it is over its quota."""

    seconds: float
    exclusive: ClassVar[bool] = False

    def apply(self, plan: Plan, items: list[Item], match: Match) -> bool:  # noqa: ARG002 - part of the protocol
        """Set ``throttle_time_ms``."""
        plan.throttle = self.seconds
        return plan.layout is not None

    def __str__(self) -> str:
        """Describe the action in words."""
        return f"throttle by {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Break:
    """Break an exchange off."""

    how: Breakage
    written: bool
    damage: Callable[[bytes], bytes] | None = None
    exclusive: ClassVar[bool] = True

    def apply(self, plan: Plan, items: list[Item], match: Match) -> bool:  # noqa: ARG002 - part of the protocol
        """Record how; the first breakage counts."""
        if plan.breakage is not None:
            return False
        plan.breakage, plan.written, plan.damage = self.how, self.written, self.damage
        return True

    def __str__(self) -> str:
        """Describe the action in words."""
        when = "after" if self.written else "before"
        return f"{self.how} {when} the broker did the work"


@dataclass(frozen=True, slots=True)
class Empty:
    """Answer without items and without an error."""

    written: bool = True
    exclusive: ClassVar[bool] = True

    def apply(self, plan: Plan, items: list[Item], match: Match) -> bool:  # noqa: ARG002 - part of the protocol
        """Empty the answer."""
        plan.empty = True
        plan.made_here = plan.made_here or not self.written
        return plan.layout is not None

    def __str__(self) -> str:
        """Describe the action in words."""
        return "answer empty"


@dataclass(frozen=True, slots=True)
class Edit:
    """Let a function change the decoded answer."""

    function: Callable[[Any], None]
    exclusive: ClassVar[bool] = False

    def apply(self, plan: Plan, items: list[Item], match: Match) -> bool:  # noqa: ARG002 - part of the protocol
        """Record the function."""
        plan.edits.append(self.function)
        return plan.layout is not None

    def __str__(self) -> str:
        """Describe the action in words."""
        return f"edit by {getattr(self.function, '__name__', 'a function')}"


@dataclass(frozen=True, slots=True)
class Down:
    """Make the request's broker unreachable for some time."""

    seconds: float
    exclusive: ClassVar[bool] = True

    def apply(self, plan: Plan, items: list[Item], match: Match) -> bool:  # noqa: ARG002 - part of the protocol
        """Record for how long."""
        plan.down = self.seconds
        return True

    def __str__(self) -> str:
        """Describe the action in words."""
        return f"take the broker away for {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class Versions:
    """Offer only these versions of an API; takes effect without requests too.

    Args:
        low: The lowest version.
        high: The highest version; below ``low`` the API is hidden.
    """

    low: int
    high: int
    exclusive: ClassVar[bool] = False

    def apply(self, plan: Plan, items: list[Item], match: Match) -> bool:  # noqa: ARG002 - part of the protocol
        """Close the connection of a request in another version, as a broker does."""
        if self.low <= plan.request.version <= self.high:
            return False
        plan.breakage, plan.written = "close", False
        return True

    def __str__(self) -> str:
        """Describe the action in words."""
        if self.high < self.low:
            return "hide the API"
        return f"offer versions {self.low} to {self.high}"


def cut(keep: int | None) -> Callable[[bytes], bytes]:
    """Return a function that cuts a frame after ``keep`` bytes; default: its half."""

    def damage(frame: bytes) -> bytes:
        return frame[: len(frame) // 2 if keep is None else keep]

    return damage


def garble(seed: int | None) -> Callable[[bytes], bytes]:
    """Return a function that overwrites a frame's body with noise of equal length."""
    dice = random.Random(seed)  # noqa: S311 - chaos is no secret
    kept = 8  # the length and the correlation id

    def damage(frame: bytes) -> bytes:
        return frame[:kept] + dice.randbytes(len(frame) - kept)

    return damage
