"""Records in flight, and the batches of model clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._delivery.facts import Batch, Place, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaguard._delivery.facts import Raw
    from tests.delivery.world.clients import ModelClient


class Item:
    """One hand-over of a record to a client; the client's token of the record.

    Attributes:
        number: The record's number, with which its value begins. That of a dead letter,
            whose value may be cut, is the number of the refused record.
        raw: Its bytes.
        is_bad: The broker refuses it whatever its key is.
        is_new: The application sent it; the machine did not hand it over.
    """

    __slots__ = ("is_bad", "is_new", "number", "raw", "window")

    def __init__(self, raw: Raw, *, is_new: bool, origin: Item | None = None) -> None:
        assert raw.value is not None
        head = raw.value.split(b":", 2)
        self.number = int(head[0]) if origin is None else origin.number
        self.is_bad = origin is None and head[1] == b"bad"
        self.raw = raw
        self.is_new = is_new
        self.window: Window | None = None

    def __repr__(self) -> str:
        """Show the record's number, with a plus if the machine sent it."""
        return f"#{self.number}{'' if self.is_new else '+'}"


class Items(Batch):
    """A batch of items."""

    __slots__ = ("items",)

    def __init__(
        self,
        place: Place,
        position: tuple[int, ...],
        due: float,
        parent: Batch | None = None,
    ) -> None:
        super().__init__(place, position, due, parent)
        self.items: list[Item] = []

    @property
    def count(self) -> int:
        """See :class:`Batch`."""
        return len(self.items)

    def tokens(self) -> Sequence[Item]:
        """See :class:`Batch`."""
        return self.items

    def keys(self) -> Sequence[bytes | None] | None:
        """See :class:`Batch`."""
        return [item.raw.key for item in self.items]

    def raws(self) -> Sequence[Raw] | None:
        """See :class:`Batch`."""
        return [item.raw for item in self.items]

    def __repr__(self) -> str:
        """Show partition, position and records."""
        where = f"{self.place.topic}/{self.place.partition}"
        return f"{where}@{'.'.join(map(str, self.position))}{self.items}"


class ModelBatch(Items):
    """A batch as a client sends it.

    Attributes:
        at: Its topic and partition; also ``place``, if the machine sees the batch.
        state: ``open``, ``queued``, ``sent``, or ``done``.
        tries: How often it was sent.
        was_unanswered: Whether one of these attempts got no answer.
        created: When it was created.
    """

    __slots__ = ("at", "client", "created", "state", "tries", "was_unanswered")

    def __init__(
        self,
        client: ModelClient,
        place: Place,
        position: tuple[int, ...],
        created: float,
        due: float,
        parent: Batch | None = None,
    ) -> None:
        super().__init__(place, position, due, parent)
        self.client = client
        self.at = place
        self.created = created
        self.state = "open"
        self.tries = 0
        self.was_unanswered = False

    def keys(self) -> Sequence[bytes | None] | None:
        """Return the keys; as in kafka-python, None while the batch is open."""
        return None if self.state == "open" else super().keys()

    def raws(self) -> Sequence[Raw] | None:
        """Return the bytes; as in kafka-python, None while the batch is open."""
        return None if self.state == "open" else super().raws()


class Window(Items):
    """All records of a topic between two polls, for a client that shows no batches."""

    __slots__ = ("missing", "refusals")

    def __init__(self, topic: str, position: tuple[int, ...], due: float) -> None:
        super().__init__(Place(topic), position, due)
        self.missing = 0
        self.refusals: list[Refusal] = []
