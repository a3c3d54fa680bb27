"""The places of error codes in an API's answer, and how to set them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from kafkaguard.testing.proxy import frames
from kafkaguard.testing.proxy import items as item_fields
from kafkaguard.testing.proxy.items import Item
from kafkaguard.testing.proxy.journal import code_name
from kafkaguard.testing.proxy.levels import Level, error_field, levels, until_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from uuid import UUID

    from kafkaguard.testing.proxy.items import Keys

# Codes that a broker sets at another place than the API's other codes.
_TOP_CODES: Final = {
    "Fetch": {
        "FETCH_SESSION_ID_NOT_FOUND",
        "FETCH_SESSION_TOPIC_ID_ERROR",
        "INVALID_FETCH_SESSION_EPOCH",
    },
    "Metadata": {"REBOOTSTRAP_REQUIRED"},
}
_INNERMOST_CODES: Final = {
    "OffsetFetch": {
        "TOPIC_AUTHORIZATION_FAILED",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNSTABLE_OFFSET_COMMIT",
    },
}
_DEFAULT_KIND: Final = {
    "DescribeLogDirs": "top",
    "LeaveGroup": "top",
    "Metadata": "topic",
    "DescribeTopicPartitions": "topic",
    "OffsetFetch": "group",
}
#: Answers with more than the request names, so that only a broker can make them.
_BROKER_MADE: Final = {"Metadata", "DescribeTopicPartitions"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The levels of an API in one version, from the outermost to the innermost."""

    api: str
    version: int
    answer: Any
    levels: tuple[Level, ...]
    top_error: str | None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The places for an error, from the outermost to the innermost."""
        top = ("top",) if self.top_error else ()
        return top + tuple(level.kind for level in self.levels if level.error)

    def default_kind(self, code: int, *, item_wanted: bool) -> str | None:
        """Return the place where a broker sets a code; None if the API has no codes.

        Args:
            code: The error code.
            item_wanted: Whether the fault selects a certain topic or partition.
        """
        kinds = self.kinds
        if not kinds:
            return None
        name = code_name(code)
        if name in _TOP_CODES.get(self.api, ()) and "top" in kinds:
            return "top"
        if item_wanted and self.api not in _BROKER_MADE:
            return kinds[-1]
        if name in _INNERMOST_CODES.get(self.api, ()):
            return kinds[-1]
        wanted = _DEFAULT_KIND.get(self.api, kinds[-1])
        return wanted if wanted in kinds else kinds[0]

    def needs_broker(self, kind: str) -> bool:
        """Return whether only a broker's own answer has this place."""
        if kind == "top":
            return False
        depth = self._depth(kind)
        unknown = any(level.asked is None for level in self.levels[:depth])
        return unknown or self.api in _BROKER_MADE

    def asked_items(self, body: Any, names: Mapping[UUID, str]) -> list[Item]:
        """List the items of a request; one item means all if the request names none."""
        known = until_unknown(self.levels)
        if not known:
            return [Item((), everything=True)] if self.levels else []
        return list(
            item_fields.walk(body, known, item_fields.asked_entries, names, Item(()))
        )

    def blank(self) -> Any:
        """Make an answer without items and without errors."""
        return item_fields.blank(self.answer, self.answer, self.version, {})

    def without(self, body: Any, withheld: set[Keys]) -> None:
        """Remove items from a request."""
        item_fields.remove(body, until_unknown(self.levels), withheld, ())

    def add(self, answer: Any, items: Iterable[Item]) -> None:
        """Add missing items without errors to an answer."""
        for item in items:
            item_fields.add(answer, self.levels, item.keys, self.version)

    def refuse(
        self,
        answer: Any,
        kind: str,
        error: Mapping[str, Any],
        chosen: Callable[[Item], bool],
        names: Mapping[UUID, str],
    ) -> None:
        """Replace each chosen item of an answer by a broker's refusal.

        Args:
            answer: The decoded answer.
            kind: The level of the error.
            error: The fields to set if the level has them; ``error_code`` is the code.
            chosen: Selects the items to refuse.
            names: The topic names by id.
        """
        levels = self.levels[: self._depth(kind)]
        item_fields.refuse(answer, levels, error, chosen, names, Item(()))

    def refused(self, error: Mapping[str, Any]) -> Any:
        """Make an answer that refuses a request as a whole."""
        answer = self.blank()
        item_fields.set_error(
            answer, frames.struct_of(self.answer), self.version, self.top_error, error
        )
        return answer

    def clear(self, answer: Any) -> None:
        """Remove the items from an answer, or all lists if it has no items."""
        arrays = [self.levels[0].answered] if self.levels else _arrays(answer)
        for name in arrays:
            setattr(answer, name, [])

    def _depth(self, kind: str) -> int:
        return 1 + [level.kind for level in self.levels].index(kind)


@cache
def layout(api_key: int, version: int) -> Layout | None:
    """Return the layout of an API's answer; None if its schema is unknown."""
    answer = frames.answer_schema(api_key, version)
    if answer is None:
        return None
    top = error_field(frames.struct_of(answer), version)
    api = answer.__name__.removesuffix("Response")
    return Layout(api, version, answer, levels(api_key, version), top)


@cache
def kinds(api_key: int) -> tuple[str, ...]:
    """Return all places where some version of an API can have an error."""
    highest = frames.max_version(api_key)
    if highest is None:
        return ()
    found: dict[str, None] = {}
    for version in range(highest + 1):
        place = layout(api_key, version)
        found.update(dict.fromkeys(place.kinds if place else ()))
    return tuple(found)


def _arrays(answer: Any) -> list[str]:
    return [
        field.name
        for field in frames.struct_of(answer).fields.values()
        if field.is_array() and field.for_version_q(answer.version)
    ]
