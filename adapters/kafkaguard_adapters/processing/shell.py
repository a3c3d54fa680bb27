"""The shells that each client implements: they execute, and decide nothing.

All methods but ``decode`` are called in the thread or task that polls, unless they say
something else. Those of :class:`AwaitedShell` that wait are coroutines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._delivery.dialects import LetterFacts
    from kafkaguard._delivery.facts import Raw
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard._errors import KafkaGuardError

    #: Records of one partition, in the order of their offsets.
    Fetched = tuple[TopicPartition, Sequence[Any]]
    Refused = Mapping[TopicPartition, KafkaGuardError]
    #: Called once with the refused partitions; on any thread.
    Report = Callable[[Refused], None]


class Listener(Protocol):
    """What a shell tells of rebalances."""

    def assigned(
        self, places: Iterable[TopicPartition], *, keeps_round: bool = False
    ) -> None:
        """Partitions are assigned; the open round goes on, or is aborted."""

    def lost(self, places: Iterable[TopicPartition]) -> None:
        """Partitions are lost: another member may own them by now."""

    def begin_revocation(self, places: Iterable[TopicPartition]) -> object:
        """Partitions are revoked; return what ``is_given_up`` takes."""

    def is_given_up(self, revocation: Any) -> bool:
        """Do what is due; return whether the listener may return."""


class AwaitedListener(Protocol):
    """What a shell of awaited calls tells of rebalances."""

    def assigned(self, places: Iterable[TopicPartition]) -> None:
        """Partitions are assigned."""

    async def revoke(self, places: Iterable[TopicPartition]) -> None:
        """Let what runs of revoked partitions end, and commit it."""


class Shell(Protocol):
    """A client's consumer, as any driver sees it."""

    @property
    def errors(self) -> ClientErrors:
        """Makes the client's errors."""

    @property
    def group(self) -> str | None:
        """The consumer's group; None: it has none, so nothing is committed."""

    @property
    def decode(self) -> Callable[[Any], Any] | None:
        """Calls the application's deserialisers, in a worker; None: there are none."""

    @property
    def offset_of(self) -> Callable[[Any], int]:
        """Returns a record's offset."""

    @property
    def key_of(self) -> Callable[[Any], bytes | None]:
        """Returns a record's key as it was read."""

    def raw(self, record: Any) -> Raw:
        """Return a record's bytes, also after ``decode``."""

    def restore(self, record: Any, facts: LetterFacts, raw: Raw) -> Any:
        """Return a dead letter as the record that was first read.

        Args:
            record: The dead letter, as it was read.
            facts: Where the record was.
            raw: Its own key, value, headers and time.
        """

    def revocation_limit(self) -> float:
        """Return how many seconds a listener may take from now on."""

    def unlisten(self) -> None:
        """Undo :meth:`listen`."""

    def pause(self, places: Iterable[TopicPartition]) -> None:
        """Pause partitions."""

    def resume(self, places: Iterable[TopicPartition]) -> None:
        """Resume what :meth:`pause` has paused, and the application has not."""

    def seek(self, place: TopicPartition, offset: int) -> None:
        """Set the position of a partition, if it is still assigned."""

    def topics(self) -> Collection[str]:
        """Return the topics that are read, as far as they are known."""

    def check_once(self, producer: Any) -> float:
        """Return how many seconds a round may take at most.

        Raises:
            ClientConfigurationError: Consumer or producer cannot do exactly once.
        """

    def client_offsets(self, offsets: Mapping[TopicPartition, int]) -> Any:
        """Return offsets as the producer takes them."""

    def group_metadata(self) -> Any:
        """Return the group's metadata now; None: it is no member."""

    def send_raw(self, send: Callable[..., Any], topic: str, raw: Raw) -> Any:
        """Send bytes by a producer's method; return what it returns."""


class ThreadShell(Shell, Protocol):
    """A client whose calls block."""

    def listen(self, listener: Listener) -> Collection[TopicPartition]:
        """Tell a listener of rebalances from now on; take out the deserialisers.

        Returns:
            The partitions that are assigned already.
        """

    def poll(self, most: int, seconds: float) -> Iterable[Fetched]:
        """Return records, or nothing after seconds."""

    def positions(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return known positions, without a request to a broker."""

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Look up the ends of logs."""

    def commit(self, offsets: Mapping[TopicPartition, int], report: Report) -> None:
        """Commit without waiting; also called in the thread of a listener."""

    def missing_topics(self, topics: Iterable[str]) -> Collection[str]:
        """Return those of some topics that do not exist."""

    #: The name of the producer's method that sends a record.
    send_name: str

    def send_letters(
        self, letters: Sequence[tuple[str, Raw]], seconds: float
    ) -> Sequence[KafkaGuardError | None]:
        """Send dead letters, in the thread of letters; return the error of each."""

    def close_letters(self) -> None:
        """Close the producer of dead letters, if it was built here."""


class AwaitedShell(Shell, Protocol):
    """A client whose calls are awaited."""

    def listen(self, listener: AwaitedListener) -> Collection[TopicPartition]:
        """As for the other clients."""

    async def poll(self, most: int, seconds: float) -> Iterable[Fetched]:
        """Return records, or nothing after seconds."""

    async def positions(
        self, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return known positions."""

    async def ends(
        self, places: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Look up the ends of logs."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> Refused:
        """Commit once; return the refused partitions."""

    async def missing_topics(self, topics: Iterable[str]) -> Collection[str]:
        """Return those of some topics that do not exist."""

    async def send_letters(
        self, letters: Sequence[tuple[str, Raw]], seconds: float
    ) -> Sequence[KafkaGuardError | None]:
        """Send dead letters; return the error of each."""

    async def close_letters(self) -> None:
        """Close the producer of dead letters, if it was built here."""
