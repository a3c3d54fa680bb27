"""Errors of transactional calls, each with the next step. No I/O."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaguard._delivery.judging import ABORTED
from kafkaguard._delivery.table import TransactionState
from kafkaguard._errors import (
    ClientClosedError,
    ClientStateError,
    ClientTimeoutError,
    KafkaGuardError,
    TransactionAbortableError,
    UnrelatedError,
)
from kafkaguard._errors.base import Action, RuleInfo, Verdict
from kafkaguard._verdicts.classification import classify

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard._delivery.time_limit import TimeLimit
    from kafkaguard._verdicts.context import Phase


class Call(NamedTuple):
    """A call in a transaction: the method, its request, and the phase."""

    method: str
    api: str | None
    phase: Phase | None = None


INIT = Call("init_transactions", "InitProducerId")
#: Sends no request, unless a new producer takes over.
BEGIN = Call("begin_transaction", None)
COMMIT = Call("commit_transaction", "EndTxn", "commit")
ABORT = Call("abort_transaction", "EndTxn", "abort")
OFFSETS = Call("send_offsets_to_transaction", "TxnOffsetCommit")
SEND = Call("send", "Produce", "enqueue")

#: The verdict for calls in a wrong order; the client is not dead.
OUT_OF_ORDER_CALL = classify(ClientStateError("in a wrong order"))
#: The verdict for an abort that failed for good: the client is dead.
NOT_ABORTED = classify(TransactionAbortableError(), api="EndTxn", phase="abort")
_NO_ANSWER = {
    call: classify(
        ClientTimeoutError(), api=call.api, phase=call.phase, transactional=True
    )
    for call in (COMMIT, ABORT, OFFSETS)
}
_DOUBTED_ABORT = replace(
    _NO_ANSWER[ABORT],
    written="maybe",
    rule=replace(
        _NO_ANSWER[ABORT].rule,
        sentence="the abort has no answer yet, and a commit may have been carried out "
        "before: call the same abort again",
    ),
)
#: The verdict for a commit that was not requested yet, since records are pending.
_NOT_REQUESTED = Verdict(
    Action.RETRY,
    retriable=True,
    written="no",
    error_class=ClientTimeoutError,
    rule=RuleInfo(
        "commit-waits-for-records",
        "nothing was committed: call commit_transaction() again to wait for longer, or "
        "abort_transaction()",
        "guarded producers",
        "A broker is away for longer than a commit waits.",
    ),
)
#: The verdict for a transaction whose abort will show whether it was committed.
_MAYBE_ABORTED = replace(ABORTED, written="maybe")
_TIMED_OUT = RuleInfo(
    "transaction-timed-out",
    "the coordinator has aborted the transaction: if no other instance runs, build a "
    "new producer with the same transactional.id, and send the records again",
    "KIP-890; TransactionCoordinator",
    "A transaction was open for longer than transaction.timeout.ms.",
)
_ABORTED_BY_BLOCK = "the transaction was aborted: begin another one"
_NEXT_STEPS = {
    TransactionState.NONE: "no transaction has begun: call begin_transaction() first",
    TransactionState.OPEN: "a transaction is open: call commit_transaction() or "
    "abort_transaction() first",
    TransactionState.FAILED: "the transaction has failed: call abort_transaction() "
    "first",
    TransactionState.COMMITTING: "the commit has not ended: call commit_transaction() "
    "again",
    TransactionState.ABORTING: "the abort has not ended: call abort_transaction() "
    "again",
    TransactionState.UNKNOWN_END: "the last transaction may have been committed: call "
    "begin_transaction() first",
    TransactionState.STUCK: "the last transaction could not be aborted: call "
    "begin_transaction(), which uses a new producer",
}


class TransactionTraits(NamedTuple):
    """What a client's transactions are like.

    Attributes:
        transactional_id: The producer's, or None if unknown.
        timeout: Seconds after which the coordinator aborts a transaction by itself.
        timeout_setting: The name of that setting.
        send: The name of the method that sends a record.
        first: A text: what must come before any transaction.
        can_build: Whether the guard can build a new producer.
        has_gaps: Whether a record that failed in flight leaves a gap in the sequence.
        offsets_in_turn: Whether the client confuses two requests to add offsets, so
            that the second waits for the answer to the first.
        theirs: The client's class of an error about a call that does not fit; default:
            its most general class.
    """

    transactional_id: str | None
    timeout: float
    timeout_setting: str
    send: str = "send"
    first: str = "init_transactions() comes first"
    can_build: bool = True
    has_gaps: bool = True
    offsets_in_turn: bool = True
    theirs: type[BaseException] | None = None


class Fence(NamedTuple):
    """Why the coordinator accepts nothing more from a producer.

    Attributes:
        cause: What the client has said.
        lasted: Seconds for which the transaction was open; 0: none was open.
        in_doubt: Whether the transaction may have been committed before.
    """

    cause: Any
    lasted: float
    in_doubt: bool


class TransactionErrors:
    """Makes the errors of transactional calls.

    Args:
        errors: Makes the client's errors.
        traits: What the client's transactions are like.
    """

    def __init__(self, errors: ClientErrors, traits: TransactionTraits) -> None:
        self._errors = errors
        self._traits = traits

    def make_judged(
        self, cause: Any, call: Call, *, in_doubt: bool = False, **context: Any
    ) -> KafkaGuardError:
        """Make the error of a call that has failed."""
        context = {"transactional": True, "phase": call.phase, **context}
        error = self._errors.translate(cause, api=call.api, context=context)
        if in_doubt and error.verdict.written == "no":
            error = self._errors.translate(
                cause, api=call.api, verdict=replace(error.verdict, written="maybe")
            )
        return error

    def make_not_transactional(self, call: Call) -> KafkaGuardError:
        """Make the error for a transactional call of another kind of producer."""
        return self._errors.make(
            ClientStateError,
            f"{call.method}() is for a producer with a transactional_id, and this one "
            "has none: build it with transactional_id=...",
            theirs=self._traits.theirs,
        )

    def make_pending(self, limit: TimeLimit) -> KafkaGuardError:
        """Make the error of a commit that has waited for records in vain."""
        return self._make_advised(
            f"records had no outcome within {limit}", _again(COMMIT), _NOT_REQUESTED
        )

    def make_unanswered(
        self, call: Call, limit: TimeLimit, cause: Any, *, in_doubt: bool = False
    ) -> KafkaGuardError:
        """Make the error of a commit or an abort without an answer in time.

        Args:
            call: The call.
            limit: How long it may take.
            cause: The client's exception, or None.
            in_doubt: Whether a commit may have been carried out before the abort.
        """
        verdict = _DOUBTED_ABORT if in_doubt else _NO_ANSWER[call]
        advice = _again(call)
        if call is ABORT and self._traits.can_build:
            advice += ", or begin_transaction(), which then uses a new producer"
        whose = self._traits.transactional_id
        of_id = "" if whose is None else f" of transactional.id {whose}"
        text = f"the coordinator{of_id} did not answer within {limit}"
        return self._make_advised(text, advice, verdict, cause)

    def make_unconfirmed(
        self, offsets: Any, group: Any, limit: TimeLimit, cause: Any
    ) -> KafkaGuardError:
        """Make the error of offsets that were not confirmed in time.

        Args:
            offsets: The offsets, or the partitions that they are for.
            group: The group's name or metadata.
            limit: How long the client has tried.
            cause: The client's exception, or None.
        """
        topics = ", ".join(sorted({place.topic for place in offsets})) or "no topic"
        name = getattr(group, "group_id", group)
        whose = f" of group {name}" if isinstance(name, str) else ""
        return self._make_advised(
            f"the offsets{whose} for {topics} were not confirmed within {limit}, since "
            "the group's coordinator does not answer, or the brokers do not know one "
            "of the topics or partitions",
            f"call {OFFSETS.method}() again to wait for longer, or abort_transaction()",
            _NO_ANSWER[OFFSETS],
            cause,
            api=OFFSETS.api,
        )

    def _make_advised(
        self,
        text: str,
        advice: str,
        verdict: Verdict,
        cause: Any = None,
        api: str | None = "EndTxn",
    ) -> KafkaGuardError:
        if cause is None:
            error = self._errors.make(
                ClientTimeoutError, text, api=api, verdict=verdict
            )
        else:
            error = self._errors.translate(
                cause, message=text, api=api, verdict=verdict
            )
        error.advice = advice
        return error

    def make_out_of_order(
        self, call: Call, state: TransactionState, original: Any = None
    ) -> KafkaGuardError:
        """Make the error of a call in a wrong order; the client is not dead."""
        method = self._traits.send if call is SEND else call.method
        error = self._errors.make(
            ClientStateError,
            f"{method}() was called in a wrong order and did nothing: "
            f"{_NEXT_STEPS.get(state, self._traits.first)}",
            api=call.api,
            theirs=self._traits.theirs,
            original=original,
            verdict=OUT_OF_ORDER_CALL,
        )
        error.__cause__ = original
        return error

    def make_abort_first(
        self,
        failure: KafkaGuardError,
        call: Call,
        original: Any = None,
        *,
        in_doubt: bool = False,
    ) -> KafkaGuardError:
        """Make the error of a call in a transaction that can only be aborted.

        Args:
            failure: The earlier failure in this transaction.
            call: The call.
            original: The client's exception for this call; None: the client was not
                called.
            in_doubt: Whether a commit may have been carried out before.
        """
        if failure.given_verdict is ABORTED and isinstance(
            failure.__cause__, KafkaGuardError
        ):
            failure = failure.__cause__  # made here
        what, which = failure.name, "this transaction has failed"
        if isinstance(failure, UnrelatedError) and failure.original_type:
            what = failure.original_type.rpartition(".")[2]
        if failure.topic is not None:
            which = "a record of this transaction failed"
        place: dict[str, Any] = {
            "api": call.api,
            "topic": failure.topic,
            "partition": failure.partition,
            "message": f"{which} ({what})",
            "verdict": _MAYBE_ABORTED if in_doubt else ABORTED,
        }
        if original is None:
            error = self._errors.make(ABORTED.error_class, **place)
        else:
            error = self._errors.translate(original, **place)
            error.code = ABORTED.error_class.code
            if hasattr(error, "errno"):
                error.__dict__["errno"] = error.code
        error.advice = "call abort_transaction(), then begin again"
        error.advice += "" if failure.topic is None else " without it"
        error.__cause__ = failure
        return error

    def make_not_aborted(self, cause: Any) -> KafkaGuardError:
        """Make the error of an abort that has failed finally."""
        return self._errors.translate(
            cause,
            message=(
                "the transaction could not be aborted, and a repeated call does not "
                "help: it stays open until begin_transaction() uses a new producer, "
                "or another producer takes over the same transactional.id"
            ),
            api=ABORT.api,
            verdict=NOT_ABORTED,
        )

    def make_commit_in_doubt(self, cause: Any) -> KafkaGuardError:
        """Make the error for a commit whose answer was lost."""
        error = self._errors.translate(
            cause,
            message=f"{self._errors.client} gave up before the commit was answered "
            f"({str(cause) or type(cause).__name__}): the transaction may have been "
            "committed. Look in the topic before you send its records again; "
            "begin_transaction(), or a new producer with the same transactional.id, "
            "makes sure that it is either committed or aborted",
            api=COMMIT.api,
            verdict=_NO_ANSWER[COMMIT],
        )
        error.original_text = None
        return error

    def make_no_successor(self) -> KafkaGuardError:
        """Make the error of a producer that cannot go on, and that cannot be built."""
        return self._errors.make(
            ClientClosedError,
            "this producer could not end its last transaction and cannot begin "
            "another one: build a new producer with the same transactional.id, or use "
            "guard(factory=..., config={...}), which builds it",
            theirs=self._traits.theirs,
        )

    def make_fenced(self, fence: Fence, call: Call) -> KafkaGuardError:
        """Make the error of a producer from which the coordinator accepts nothing.

        Its codes do not show whether another instance runs, but the time may show that
        the transaction was open for too long.
        """
        traits = self._traits
        verdict = classify(fence.cause, api="EndTxn", transactional=True)
        if fence.lasted >= traits.timeout:
            text = (
                f"the transaction was open for {fence.lasted:.0f} s, and the "
                f"coordinator aborts it after {traits.timeout:g} s "
                f"({traits.timeout_setting})"
            )
            verdict = replace(verdict, action=Action.RECREATE, rule=_TIMED_OUT)
        else:
            used = "this transactional.id"
            if traits.transactional_id is not None:
                used = f"the transactional.id {traits.transactional_id}"
            text = (
                f"another instance uses {used} now, so this one can send nothing more "
                "in a transaction: close it, and give each instance an id of its own"
            )
        if fence.in_doubt:
            text += "; an earlier commit may have succeeded: look in the topic"
        written: Any = "maybe" if fence.in_doubt else "no"
        return self._errors.translate(
            fence.cause,
            message=text,
            api=call.api,
            verdict=replace(verdict, written=written),
        )


def say_aborted(error: BaseException) -> None:
    """Let an error say that its ``transaction()`` block has aborted the transaction.

    Args:
        error: The exception of the block, which may advise to abort.
    """
    if not isinstance(error, KafkaGuardError):
        return
    verdict = error.verdict
    is_in_doubt = verdict.action is Action.IN_DOUBT
    if verdict.action is Action.ABORT or (
        (verdict.retriable or is_in_doubt) and error.api in (COMMIT.api, OFFSETS.api)
    ):
        error._verdict = replace(  # noqa: SLF001 - kafkaguard's own class
            verdict,
            action=Action.ABORT if is_in_doubt else verdict.action,
            written="no",  # whatever was sent: an abort undoes it
            rule=replace(verdict.rule, sentence=_ABORTED_BY_BLOCK),
        )
    error.advice = None


def _again(call: Call) -> str:
    return f"call {call.method}() again"
