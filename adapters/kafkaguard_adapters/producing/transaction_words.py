"""Errors of transactional calls with the next step, for all clients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaguard._delivery.judging import ABORTED
from kafkaguard._delivery.transaction import NOT_ABORTED
from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import (
    ClientStateError,
    ClientTimeoutError,
    KafkaGuardError,
    UnrelatedError,
)
from kafkaguard.errors._base import Action, RuleInfo, Verdict

if TYPE_CHECKING:
    from kafkaguard._delivery.shell import ClientErrors
    from kafkaguard._verdicts.context import Phase
    from kafkaguard_adapters.producing.time_limit import TimeLimit


class Call(NamedTuple):
    """A call in a transaction: the method, its request, and the phase."""

    method: str
    api: str | None
    phase: Phase | None = None


BEGIN = Call("begin_transaction", "InitProducerId")
COMMIT = Call("commit_transaction", "EndTxn", "commit")
ABORT = Call("abort_transaction", "EndTxn", "abort")
OFFSETS = Call("send_offsets_to_transaction", "TxnOffsetCommit")
SEND = Call("send", "Produce", "enqueue")

#: The verdict for calls in a wrong order; the client is not dead.
OUT_OF_ORDER_CALL = classify(ClientStateError("in a wrong order"))
_ABORT_FIRST = "call abort_transaction(), then begin again"
_WAIT_OR_ABORT = "call the same method again to wait for longer, or abort_transaction()"
_COMMIT_IN_DOUBT = classify(ClientTimeoutError(), api="EndTxn", phase="commit")
_NOT_ABORTED_YET = classify(ClientTimeoutError(), api="EndTxn", phase="abort")
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
#: The verdict after an abort: only the block as a whole can be repeated.
_ABORTED_BY_BLOCK = "the transaction was aborted: begin another one"
#: The missing step, by the client's name of its transaction state.
_NEXT_STEPS = {
    "INITIALIZING": "init_transactions() has not ended: call it again",
    "READY": "no transaction has begun: call begin_transaction() first",
    "IN_TRANSACTION": (
        "a transaction is open: call commit_transaction() or abort_transaction() first"
    ),
    "COMMITTING_TRANSACTION": "the commit has not ended: call commit_transaction() "
    "again",
    "ABORTING_TRANSACTION": "the abort has not ended: call abort_transaction() again",
    "ABORTABLE_ERROR": "the transaction has failed: call abort_transaction() first",
}


class TransactionWords:
    """Makes the errors of transactional calls.

    Args:
        errors: Makes the client's errors.
        successor: A text: how a new producer takes over an open transaction.
        first: A text: the call that must come before any transaction.
        theirs: The client's class of an error about a call that does not fit; default:
            its most general class.
    """

    def __init__(
        self,
        errors: ClientErrors,
        successor: str,
        first: str,
        theirs: type[BaseException] | None = None,
    ) -> None:
        self._errors = errors
        self._theirs = theirs
        self._successor = successor
        self._next_steps = {"UNINITIALIZED": first, **_NEXT_STEPS}

    def not_transactional(self, call: Call) -> KafkaGuardError:
        """Make the error for a transactional call of another kind of producer."""
        return self._errors.make(
            ClientStateError,
            f"{call.method}() is for a producer with a transactional_id, and this one "
            "has none: build it with transactional_id=...",
            theirs=self._theirs,
        )

    def pending(self, call: Call, limit: TimeLimit) -> KafkaGuardError:
        """Make the error of a call that has waited for records in vain."""
        return self._errors.make(
            ClientTimeoutError,
            f"records had no outcome within {limit}: {_again(call)}",
            api=call.api,
            verdict=_NOT_REQUESTED if call is COMMIT else _NOT_ABORTED_YET,
        )

    def not_in_time(self, call: Call, happened: str) -> KafkaGuardError:
        """Make the error of a call that has reached its time limit."""
        verdict = classify(
            ClientTimeoutError(), api=call.api, transactional=True, phase=call.phase
        )
        return self._errors.make(
            ClientTimeoutError, happened, api=call.api, verdict=verdict
        )

    def unconfirmed(
        self, offsets: Any, limit: TimeLimit, original: BaseException
    ) -> KafkaGuardError:
        """Make the error of offsets that the client has given up to send.

        Args:
            offsets: The offsets.
            limit: How long the client has tried.
            original: The client's exception.
        """
        verdict = classify(ClientTimeoutError(), api=OFFSETS.api, transactional=True)
        return self._errors.translate(
            original,
            message=unconfirmed(offsets, None, limit),
            api=OFFSETS.api,
            verdict=verdict,
        )

    def next_step(self, state: str) -> str:
        """Return a text that names the missing step, for a transaction state."""
        return self._next_steps.get(state, f"the producer is in the state {state}")

    def out_of_order(
        self, call: Call, state: str, original: BaseException | None = None
    ) -> KafkaGuardError:
        """Make the error of a call in a wrong order; the client is not dead."""
        made = self._errors.make(
            ClientStateError,
            f"{call.method}() was called in a wrong order and did nothing: "
            f"{self.next_step(state)}",
            api=call.api,
            theirs=self._theirs,
            original=original,
            verdict=OUT_OF_ORDER_CALL,
        )
        made.__cause__ = original
        return made

    def abort_first(
        self, failed: KafkaGuardError, call: Call, original: BaseException | None = None
    ) -> KafkaGuardError:
        """Make the error of a call in a transaction that can only be aborted.

        Args:
            failed: The earlier failure in this transaction.
            call: The call.
            original: The client's exception for this call; None: the client was not
                called.
        """
        place: dict[str, Any] = {
            "api": call.api,
            "topic": failed.topic,
            "partition": failed.partition,
            "message": _how_failed(failed),
            "verdict": ABORTED,
        }
        if original is None:
            made = self._errors.make(ABORTED.error_class, **place)
        else:
            made = self._errors.translate(original, **place)
            made.code = ABORTED.error_class.code
            if hasattr(made, "errno"):
                made.__dict__["errno"] = made.code
        made.__cause__ = failed
        return made

    def not_aborted(self, error: BaseException) -> KafkaGuardError:
        """Make the error of an abort that has failed finally."""
        return self._errors.translate(
            error,
            message=(
                "the transaction could not be aborted, and a repeated call does not "
                "help: it stays open until begin_transaction() uses a new producer, "
                f"or {self._successor}"
            ),
            api=ABORT.api,
            verdict=NOT_ABORTED,
        )

    def commit_in_doubt(self, error: BaseException) -> KafkaGuardError:
        """Make the error for a commit whose answer was lost."""
        said = self._errors.translate(
            error,
            message=f"{self._errors.client} gave up before the commit was answered "
            f"({str(error) or type(error).__name__}): the transaction may have been "
            "committed. Look in the topic before you send its records again; "
            "begin_transaction(), or a new producer with the same transactional_id, "
            "makes sure that it is either committed or aborted",
            api=COMMIT.api,
            verdict=_COMMIT_IN_DOUBT,
        )
        said.original_text = None
        return said


def unconfirmed(offsets: Any, group: Any, limit: TimeLimit) -> str:
    """Return the text for offsets that were not confirmed.

    Args:
        offsets: The offsets, or the partitions that they are for.
        group: The group's name or metadata; None: not known.
        limit: How long the call has waited.
    """
    topics = ", ".join(sorted({place.topic for place in offsets})) or "no topic"
    whose = "" if group is None else f" of group {getattr(group, 'group_id', group)}"
    return (
        f"the offsets{whose} for {topics} were "
        f"not confirmed within {limit}: the group's coordinator does not answer, or "
        "the brokers do not know one of the topics or partitions; " + _WAIT_OR_ABORT
    )


def unanswered(call: Call, limit: TimeLimit) -> str:
    """Return the text for a transaction whose end was not confirmed."""
    text = f"the coordinator did not answer within {limit}: {_again(call)}"
    if call is ABORT:
        text += ", or begin_transaction(), which then uses a new producer"
    return text


def why_over(lasted: float, limit: float, setting: str) -> str | None:
    """Return the text for a transaction that was open for too long; None if it was not.

    Args:
        lasted: Seconds for which the transaction was open.
        limit: Seconds after which the coordinator aborts a transaction by itself.
        setting: The name of the setting with this limit.
    """
    if lasted < limit:
        return None
    return (
        f"the transaction was open for {lasted:.0f} s, and after {limit:g} s "
        f"({setting}) the coordinator aborts it and reports that another instance "
        "uses the transactional.id"
    )


def explain_fenced(
    error: KafkaGuardError, transactional_id: Any, why: str | None, *, in_doubt: bool
) -> None:
    """Add the meaning of the coordinator's code to an error.

    Args:
        error: The error, with the verdict FENCED.
        transactional_id: The producer's ``transactional.id``; None: unknown.
        why: Another reason for the code than a second instance, or None.
        in_doubt: Whether the answer to an earlier commit was lost.
    """
    used = "this transactional.id"
    if transactional_id is not None:
        used = f"the transactional.id {transactional_id}"
    error.summary = why or (
        f"another instance uses {used} now, so this one can send nothing more in a "
        "transaction: close it, and give each instance an id of its own"
    )
    if in_doubt:
        error.summary += (
            "; an earlier commit whose answer was lost may have succeeded: look in "
            "the topic"
        )
        error._verdict = replace(error.verdict, written="maybe")  # noqa: SLF001 - kafkaguard's own class


def stops(error: KafkaGuardError) -> bool:
    """Return whether an error ends more than the current transaction."""
    return error.verdict.action in (Action.FENCED, Action.CONFIGURE)


def say_aborted(error: BaseException) -> None:
    """Let an error say that its ``transaction()`` block has aborted the transaction.

    Args:
        error: The exception of the block, whose text may advise to abort.
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
    for advice in (_ABORT_FIRST, _WAIT_OR_ABORT, _again(COMMIT)):
        if error.summary is not None:
            error.summary = error.summary.replace(
                advice, "the block has aborted it: begin again"
            )


def _again(call: Call) -> str:
    return f"call the same method again ({call.method})"


def _how_failed(failed: KafkaGuardError) -> str:
    what = failed.name
    if isinstance(failed, UnrelatedError) and failed.original_type:
        what = failed.original_type.rpartition(".")[2]
    if failed.topic is None:
        return f"this transaction has failed ({what}): {_ABORT_FIRST}"
    return f"a record of this transaction failed ({what}): {_ABORT_FIRST} without it"
