"""States and transitions of the delivery machine, as data.

There are four machines: one for each record that has failed, one for each topic, one
for the client, one for its transactions. An event that a state's table does not name
raises an error.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


class RecordState(StrEnum):
    """Where a record stands that has failed at least once, or a dead letter."""

    JUDGED = "JUDGED"
    """It has failed, or is a new dead letter; its next step is being decided."""
    SIZING = "SIZING"
    """It waits until the topic's size limit is known."""
    UNANSWERED = "UNANSWERED"
    """A dying client gave it up after sending it; the answer may still arrive."""
    QUEUED = "QUEUED"
    """It waits to be sent again."""
    SENDING = "SENDING"
    """The driver is giving it to the client."""
    AGAIN = "AGAIN"
    """The client has it again."""
    SET_ASIDE = "SET_ASIDE"
    """It waits for the outcome of its dead letter."""
    SETTLED = "SETTLED"
    """It has its final outcome."""


class RecordEvent(StrEnum):
    """What happens to a record."""

    QUEUE = "QUEUE"
    ASK_SIZE = "ASK_SIZE"
    AWAIT_ANSWER = "AWAIT_ANSWER"
    SET_ASIDE = "SET_ASIDE"
    SEND = "SEND"
    HANDED_OVER = "HANDED_OVER"
    NOT_HANDED_OVER = "NOT_HANDED_OVER"
    FAILED = "FAILED"
    SETTLE = "SETTLE"


class TopicState(StrEnum):
    """What a topic's sends and queued records wait for."""

    OPEN = "OPEN"
    """Nothing: sends are not held."""
    HOLDING = "HOLDING"
    """Calls of send that have begun; new ones wait from here to OPEN."""
    DRAINING = "DRAINING"
    """Batches without an answer."""
    PAUSED = "PAUSED"
    """The wait of the policy, or the circuit breaker."""
    SENDING = "SENDING"
    """The driver, which gives the records to the client."""
    WAITING = "WAITING"
    """The outcome of the records that were sent again."""
    STALLED = "STALLED"
    """A new client: the one in use is dead."""


class TopicEvent(StrEnum):
    """What happens to a topic."""

    TROUBLE = "TROUBLE"
    LETTERS = "LETTERS"
    HELD = "HELD"
    PAUSE = "PAUSE"
    SEND = "SEND"
    HANDED_OVER = "HANDED_OVER"
    NOTHING_LEFT = "NOTHING_LEFT"
    DIED = "DIED"
    REPLACED = "REPLACED"


class ClientState(StrEnum):
    """How the client in use is."""

    ALIVE = "ALIVE"
    HEARING = "HEARING"
    """It is dead; the machine waits for answers to what it has sent."""
    STOPPING = "STOPPING"
    """It is being stopped."""
    ANSWERING = "ANSWERING"
    """The machine asks for the last answers that it received."""
    BUILDING = "BUILDING"
    """A successor is being built."""
    PAUSED = "PAUSED"
    """Building failed; it is tried again after a pause."""
    LOST = "LOST"
    """There is no successor; the next send requests one."""


class ClientEvent(StrEnum):
    """What happens to the client."""

    DIED = "DIED"
    HEARD_OUT = "HEARD_OUT"
    STOPPED = "STOPPED"
    ANSWERS_MISSING = "ANSWERS_MISSING"
    ANSWERED = "ANSWERED"
    REPLACED = "REPLACED"
    NOT_YET = "NOT_YET"
    NEVER = "NEVER"
    PAUSE_OVER = "PAUSE_OVER"
    WANTED = "WANTED"


class TransactionState(StrEnum):
    """Where the transactions of a producer stand."""

    NEW = "NEW"
    """The producer has not taken over its ``transactional.id`` yet."""
    NONE = "NONE"
    """No transaction is open."""
    OPEN = "OPEN"
    FAILED = "FAILED"
    """It lacks a record, or its commit was refused: it can only be aborted."""
    COMMITTING = "COMMITTING"
    """The commit was requested, and has no answer yet."""
    ABORTING = "ABORTING"
    """The abort was requested, and has no answer yet."""
    UNKNOWN_END = "UNKNOWN_END"
    """The client gave up a commit that may have been carried out."""
    STUCK = "STUCK"
    """The client can do nothing more; a new producer aborts what is open."""
    FENCED = "FENCED"
    """The coordinator accepts nothing more from this producer."""


class TransactionEvent(StrEnum):
    """What happens to the transactions of a producer."""

    TOOK_OVER = "TOOK_OVER"
    """It, or its successor, has the ``transactional.id``: nothing is open."""
    BEGAN = "BEGAN"
    FAILED = "FAILED"
    COMMIT = "COMMIT"
    ABORT = "ABORT"
    ENDED = "ENDED"
    LOST = "LOST"
    DIED = "DIED"
    FENCED = "FENCED"


class ImpossibleError(AssertionError):
    """An event came in a state that does not allow it: a bug of kafkaguard."""


class Table(Generic[S, E]):
    """Transitions of one machine.

    Args:
        name: What the machine is about.
        transitions: The next state, by state and event.
    """

    def __init__(self, name: str, transitions: dict[tuple[S, E], S]) -> None:
        self.name = name
        self.transitions = transitions

    def after(self, state: S, event: E) -> S:
        """Return the next state.

        Raises:
            ImpossibleError: The table has no such event in this state.
        """
        next_state = self.transitions.get((state, event))
        if next_state is None:
            raise ImpossibleError(f"{self.name}: no {event} in state {state}")
        return next_state


_Record, _RecordE = RecordState, RecordEvent
RECORDS: Table[RecordState, RecordEvent] = Table(
    "record",
    {
        (_Record.JUDGED, _RecordE.QUEUE): _Record.QUEUED,
        (_Record.JUDGED, _RecordE.ASK_SIZE): _Record.SIZING,
        (_Record.JUDGED, _RecordE.AWAIT_ANSWER): _Record.UNANSWERED,
        (_Record.JUDGED, _RecordE.SET_ASIDE): _Record.SET_ASIDE,
        (_Record.JUDGED, _RecordE.SETTLE): _Record.SETTLED,
        (_Record.SIZING, _RecordE.QUEUE): _Record.QUEUED,
        (_Record.SIZING, _RecordE.SET_ASIDE): _Record.SET_ASIDE,
        (_Record.SIZING, _RecordE.SETTLE): _Record.SETTLED,
        (_Record.UNANSWERED, _RecordE.FAILED): _Record.JUDGED,
        (_Record.UNANSWERED, _RecordE.SETTLE): _Record.SETTLED,
        (_Record.QUEUED, _RecordE.SEND): _Record.SENDING,
        (_Record.QUEUED, _RecordE.SET_ASIDE): _Record.SET_ASIDE,
        (_Record.QUEUED, _RecordE.SETTLE): _Record.SETTLED,
        (_Record.SENDING, _RecordE.HANDED_OVER): _Record.AGAIN,
        (_Record.SENDING, _RecordE.NOT_HANDED_OVER): _Record.JUDGED,
        # The producer was closed during the hand-over.
        (_Record.SENDING, _RecordE.SETTLE): _Record.SETTLED,
        (_Record.AGAIN, _RecordE.FAILED): _Record.JUDGED,
        (_Record.AGAIN, _RecordE.SETTLE): _Record.SETTLED,
        (_Record.SET_ASIDE, _RecordE.SETTLE): _Record.SETTLED,
    },
)

_Topic, _TopicE = TopicState, TopicEvent
TOPICS: Table[TopicState, TopicEvent] = Table(
    "topic",
    {
        (_Topic.OPEN, _TopicE.TROUBLE): _Topic.HOLDING,
        # Dead letters at their first attempt need no hold: nothing can overtake them.
        (_Topic.OPEN, _TopicE.LETTERS): _Topic.SENDING,
        (_Topic.HOLDING, _TopicE.HELD): _Topic.DRAINING,
        (_Topic.DRAINING, _TopicE.PAUSE): _Topic.PAUSED,
        (_Topic.DRAINING, _TopicE.SEND): _Topic.SENDING,
        (_Topic.DRAINING, _TopicE.NOTHING_LEFT): _Topic.OPEN,
        (_Topic.SENDING, _TopicE.HANDED_OVER): _Topic.WAITING,
        (_Topic.WAITING, _TopicE.PAUSE): _Topic.PAUSED,
        (_Topic.WAITING, _TopicE.SEND): _Topic.SENDING,
        (_Topic.WAITING, _TopicE.NOTHING_LEFT): _Topic.OPEN,
        (_Topic.PAUSED, _TopicE.SEND): _Topic.SENDING,
        (_Topic.PAUSED, _TopicE.NOTHING_LEFT): _Topic.OPEN,
        # Only dead letters were sent, without a hold. A record that fails needs one.
        (_Topic.WAITING, _TopicE.TROUBLE): _Topic.HOLDING,
        (_Topic.HOLDING, _TopicE.DIED): _Topic.STALLED,
        (_Topic.DRAINING, _TopicE.DIED): _Topic.STALLED,
        (_Topic.PAUSED, _TopicE.DIED): _Topic.STALLED,
        (_Topic.WAITING, _TopicE.DIED): _Topic.STALLED,
        (_Topic.OPEN, _TopicE.DIED): _Topic.STALLED,
        (_Topic.STALLED, _TopicE.REPLACED): _Topic.DRAINING,
        (_Topic.STALLED, _TopicE.NOTHING_LEFT): _Topic.OPEN,
    },
)

_Client, _ClientE = ClientState, ClientEvent
CLIENTS: Table[ClientState, ClientEvent] = Table(
    "client",
    {
        (_Client.ALIVE, _ClientE.DIED): _Client.HEARING,
        (_Client.HEARING, _ClientE.HEARD_OUT): _Client.STOPPING,
        (_Client.STOPPING, _ClientE.STOPPED): _Client.BUILDING,
        (_Client.STOPPING, _ClientE.ANSWERS_MISSING): _Client.ANSWERING,
        (_Client.ANSWERING, _ClientE.ANSWERED): _Client.BUILDING,
        (_Client.BUILDING, _ClientE.REPLACED): _Client.ALIVE,
        (_Client.BUILDING, _ClientE.NOT_YET): _Client.PAUSED,
        (_Client.BUILDING, _ClientE.NEVER): _Client.LOST,
        (_Client.PAUSED, _ClientE.PAUSE_OVER): _Client.BUILDING,
        # The producer is closed.
        (_Client.PAUSED, _ClientE.NEVER): _Client.LOST,
        # The next attempt waits for its pause.
        (_Client.LOST, _ClientE.WANTED): _Client.PAUSED,
    },
)

_Transaction, _TransactionE = TransactionState, TransactionEvent
TRANSACTIONS: Table[TransactionState, TransactionEvent] = Table(
    "transaction",
    {
        (_Transaction.NEW, _TransactionE.TOOK_OVER): _Transaction.NONE,
        (_Transaction.NONE, _TransactionE.BEGAN): _Transaction.OPEN,
        (_Transaction.OPEN, _TransactionE.FAILED): _Transaction.FAILED,
        (_Transaction.OPEN, _TransactionE.COMMIT): _Transaction.COMMITTING,
        (_Transaction.OPEN, _TransactionE.ABORT): _Transaction.ABORTING,
        (_Transaction.FAILED, _TransactionE.ABORT): _Transaction.ABORTING,
        (_Transaction.COMMITTING, _TransactionE.ENDED): _Transaction.NONE,
        # The coordinator refuses to abort what it has committed.
        (_Transaction.COMMITTING, _TransactionE.FAILED): _Transaction.FAILED,
        (_Transaction.COMMITTING, _TransactionE.LOST): _Transaction.UNKNOWN_END,
        (_Transaction.COMMITTING, _TransactionE.DIED): _Transaction.STUCK,
        (_Transaction.ABORTING, _TransactionE.ENDED): _Transaction.NONE,
        # An earlier commit has no answer, so the refused abort proves nothing.
        (_Transaction.ABORTING, _TransactionE.LOST): _Transaction.UNKNOWN_END,
        (_Transaction.ABORTING, _TransactionE.DIED): _Transaction.STUCK,
        **{
            (state, _TransactionE.TOOK_OVER): _Transaction.NONE
            for state in (
                _Transaction.NONE,
                _Transaction.ABORTING,
                _Transaction.UNKNOWN_END,
                _Transaction.STUCK,
            )
        },
        **{
            (s, _TransactionE.FENCED): _Transaction.FENCED
            for s in _Transaction
            if s is not _Transaction.FENCED
        },
    },
)
