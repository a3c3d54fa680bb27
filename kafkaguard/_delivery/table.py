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
        found = self.transitions.get((state, event))
        if found is None:
            raise ImpossibleError(f"{self.name}: no {event} in state {state}")
        return found


_R, _RE = RecordState, RecordEvent
RECORDS: Table[RecordState, RecordEvent] = Table(
    "record",
    {
        (_R.JUDGED, _RE.QUEUE): _R.QUEUED,
        (_R.JUDGED, _RE.ASK_SIZE): _R.SIZING,
        (_R.JUDGED, _RE.AWAIT_ANSWER): _R.UNANSWERED,
        (_R.JUDGED, _RE.SET_ASIDE): _R.SET_ASIDE,
        (_R.JUDGED, _RE.SETTLE): _R.SETTLED,
        (_R.SIZING, _RE.QUEUE): _R.QUEUED,
        (_R.SIZING, _RE.SET_ASIDE): _R.SET_ASIDE,
        (_R.SIZING, _RE.SETTLE): _R.SETTLED,
        (_R.UNANSWERED, _RE.FAILED): _R.JUDGED,
        (_R.UNANSWERED, _RE.SETTLE): _R.SETTLED,
        (_R.QUEUED, _RE.SEND): _R.SENDING,
        (_R.QUEUED, _RE.SET_ASIDE): _R.SET_ASIDE,
        (_R.QUEUED, _RE.SETTLE): _R.SETTLED,
        (_R.SENDING, _RE.HANDED_OVER): _R.AGAIN,
        (_R.SENDING, _RE.NOT_HANDED_OVER): _R.JUDGED,
        # The producer was closed during the hand-over.
        (_R.SENDING, _RE.SETTLE): _R.SETTLED,
        (_R.AGAIN, _RE.FAILED): _R.JUDGED,
        (_R.AGAIN, _RE.SETTLE): _R.SETTLED,
        (_R.SET_ASIDE, _RE.SETTLE): _R.SETTLED,
    },
)

_T, _TE = TopicState, TopicEvent
TOPICS: Table[TopicState, TopicEvent] = Table(
    "topic",
    {
        (_T.OPEN, _TE.TROUBLE): _T.HOLDING,
        # Dead letters at their first attempt need no hold: nothing can overtake them.
        (_T.OPEN, _TE.LETTERS): _T.SENDING,
        (_T.HOLDING, _TE.HELD): _T.DRAINING,
        (_T.DRAINING, _TE.PAUSE): _T.PAUSED,
        (_T.DRAINING, _TE.SEND): _T.SENDING,
        (_T.DRAINING, _TE.NOTHING_LEFT): _T.OPEN,
        (_T.SENDING, _TE.HANDED_OVER): _T.WAITING,
        (_T.WAITING, _TE.PAUSE): _T.PAUSED,
        (_T.WAITING, _TE.SEND): _T.SENDING,
        (_T.WAITING, _TE.NOTHING_LEFT): _T.OPEN,
        (_T.PAUSED, _TE.SEND): _T.SENDING,
        (_T.PAUSED, _TE.NOTHING_LEFT): _T.OPEN,
        # Only dead letters were sent, without a hold. A record that fails needs one.
        (_T.WAITING, _TE.TROUBLE): _T.HOLDING,
        (_T.HOLDING, _TE.DIED): _T.STALLED,
        (_T.DRAINING, _TE.DIED): _T.STALLED,
        (_T.PAUSED, _TE.DIED): _T.STALLED,
        (_T.WAITING, _TE.DIED): _T.STALLED,
        (_T.OPEN, _TE.DIED): _T.STALLED,
        (_T.STALLED, _TE.REPLACED): _T.DRAINING,
        (_T.STALLED, _TE.NOTHING_LEFT): _T.OPEN,
    },
)

_C, _CE = ClientState, ClientEvent
CLIENTS: Table[ClientState, ClientEvent] = Table(
    "client",
    {
        (_C.ALIVE, _CE.DIED): _C.HEARING,
        (_C.HEARING, _CE.HEARD_OUT): _C.STOPPING,
        (_C.STOPPING, _CE.STOPPED): _C.BUILDING,
        (_C.STOPPING, _CE.ANSWERS_MISSING): _C.ANSWERING,
        (_C.ANSWERING, _CE.ANSWERED): _C.BUILDING,
        (_C.BUILDING, _CE.REPLACED): _C.ALIVE,
        (_C.BUILDING, _CE.NOT_YET): _C.PAUSED,
        (_C.BUILDING, _CE.NEVER): _C.LOST,
        (_C.PAUSED, _CE.PAUSE_OVER): _C.BUILDING,
        # The producer is closed.
        (_C.PAUSED, _CE.NEVER): _C.LOST,
        # The next attempt waits for its pause.
        (_C.LOST, _CE.WANTED): _C.PAUSED,
    },
)

_X, _XE = TransactionState, TransactionEvent
TRANSACTIONS: Table[TransactionState, TransactionEvent] = Table(
    "transaction",
    {
        (_X.NEW, _XE.TOOK_OVER): _X.NONE,
        (_X.NONE, _XE.BEGAN): _X.OPEN,
        (_X.OPEN, _XE.FAILED): _X.FAILED,
        (_X.OPEN, _XE.COMMIT): _X.COMMITTING,
        (_X.OPEN, _XE.ABORT): _X.ABORTING,
        (_X.FAILED, _XE.ABORT): _X.ABORTING,
        (_X.COMMITTING, _XE.ENDED): _X.NONE,
        # The coordinator refuses to abort what it has committed.
        (_X.COMMITTING, _XE.FAILED): _X.FAILED,
        (_X.COMMITTING, _XE.LOST): _X.UNKNOWN_END,
        (_X.COMMITTING, _XE.DIED): _X.STUCK,
        (_X.ABORTING, _XE.ENDED): _X.NONE,
        # An earlier commit has no answer, so the refused abort proves nothing.
        (_X.ABORTING, _XE.LOST): _X.UNKNOWN_END,
        (_X.ABORTING, _XE.DIED): _X.STUCK,
        **{
            (state, _XE.TOOK_OVER): _X.NONE
            for state in (_X.NONE, _X.ABORTING, _X.UNKNOWN_END, _X.STUCK)
        },
        **{(s, _XE.FENCED): _X.FENCED for s in _X if s is not _X.FENCED},
    },
)
