"""The decisions about transactional calls, for all clients. No I/O.

Each call of the application is a generator of steps. A driver makes each step with the
client and sends the answer back; between two steps it holds the machine's lock::

    commit()   "await_records"   a commit that is not requested yet can be aborted
               "commit"          asked again by the next call if it has no answer
    abort()    "abort"           once; a new producer aborts for a client that cannot
    begin()    "renew"           if the client cannot go on after the last transaction
               "begin"

The coordinator executes a commit or an abort once, so a call whose answer was lost is
repeated. If the result of a commit is unknown, the transaction is not aborted.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from copy import copy
from functools import partial
from random import random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from kafkaguard._delivery.judging import ends_all
from kafkaguard._delivery.table import TransactionEvent, TransactionState
from kafkaguard._delivery.transaction_errors import (
    ABORT,
    BEGIN,
    COMMIT,
    INIT,
    OFFSETS,
    OUT_OF_ORDER_CALL,
    SEND,
    Call,
    Fence,
    TransactionErrors,
    TransactionTraits,
    say_aborted,
)
from kafkaguard._errors import ClientClosedError, KafkaGuardError
from kafkaguard._errors.base import Action
from kafkaguard._retries.machine import CallContext, Machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._delivery.counters import TransactionEnding
    from kafkaguard._delivery.shell import ClientErrors, Policy
    from kafkaguard._delivery.time_limit import TimeLimit
    from kafkaguard._delivery.transaction import Transaction

_State, _Event = TransactionState, TransactionEvent


class Step(NamedTuple):
    """What a client does next.

    Attributes:
        do: ``await_records``: wait until each record has its outcome. ``look``: say why
            the client cannot go on, if so. ``renew``: let a new producer take over the
            ``transactional.id``. ``sleep``: wait until the time. Otherwise the client's
            call.
        until: The time by which it ends, in the machine's clock.
        offsets: Offsets and group, for ``offsets``.
    """

    do: Literal[
        "init",
        "begin",
        "offsets",
        "await_records",
        "look",
        "commit",
        "abort",
        "renew",
        "sleep",
    ]
    until: float
    offsets: Any = None


class Answer(NamedTuple):
    """How a step ended.

    Attributes:
        kind: ``done``. ``late``: there is no answer in time; the same call again waits
            for it. ``failed``. ``dead``: it failed, and this client can do nothing more
            in this transaction; an abort was not requested. ``order``: the client says
            that the calls came in a wrong order.
        cause: The client's exception, if the call failed.
        api: The request that failed; default: that of the call.
        may_be_done: Whether a commit may have been carried out all the same.
    """

    kind: Literal["done", "late", "failed", "dead", "order"] = "done"
    cause: Any = None
    api: str | None = None
    may_be_done: bool = False


DONE = Answer()
T = TypeVar("T")
Flow = Generator[Step, Answer, T]


def proceed(flow: Flow[Any], result: Answer | BaseException | None) -> Step:
    """Return the next step of a flow.

    Args:
        flow: The flow.
        result: The answer to its last step, or what this has raised; None: it begins.

    Raises:
        StopIteration: The flow has ended.
        KafkaGuardError: Its call has failed.
    """
    if isinstance(result, BaseException):
        return flow.throw(result)
    return next(flow) if result is None else flow.send(result)


class LeftOpen(NamedTuple):
    """A transaction that was open when its producer was closed.

    Attributes:
        why: The error of the abort, or of the repeated commit whose answer was lost;
            None if the transaction was aborted.
    """

    why: KafkaGuardError | None = None


_BROKEN = frozenset({_State.UNKNOWN_END, _State.STUCK})
_CAN_ABORT = frozenset({_State.OPEN, _State.FAILED})
#: The states in which a call is made.
_ALLOWED = {
    BEGIN: frozenset({_State.NEW, _State.NONE, _State.ABORTING, *_BROKEN}),
    OFFSETS: frozenset({_State.OPEN}),
    COMMIT: frozenset({_State.OPEN, _State.COMMITTING}),
    ABORT: frozenset({_State.ABORTING, *_CAN_ABORT}),
}
#: The states in which a failed call of a block is made again, if the policy says so.
_AGAIN = {
    BEGIN: frozenset({_State.NEW, _State.NONE, *_BROKEN}),
    COMMIT: frozenset({_State.OPEN, _State.COMMITTING}),
    ABORT: frozenset({_State.ABORTING}),
}
#: Verdicts after which neither this client nor a new one can go on.
_STOPS = frozenset({Action.FENCED, Action.CONFIGURE})
_FOREVER = float("inf")


class TransactionCalls:
    """Decides about the transactional calls of one producer.

    Args:
        transaction: The state.
        errors: Makes the client's errors.
        traits: What the client's transactions are like.
        policy: How often a call of a ``transaction()`` block is made.
        clock: Returns the time in seconds.
        random: Returns random numbers from 0 to below 1.
    """

    def __init__(
        self,
        transaction: Transaction,
        errors: ClientErrors,
        traits: TransactionTraits,
        policy: Policy,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random,
    ) -> None:
        self.transaction = transaction
        self.errors = TransactionErrors(errors, traits)
        self._traits = traits
        self._policy = policy
        self._clock = clock
        self._random = random
        self._needs_new_producer = False
        self._fence: Fence | None = None
        #: Why the client could not end the last transaction.
        self._broken: Any = None
        self._forget()

    def _forget(self) -> None:
        """Forget the last transaction."""
        self._began = _FOREVER
        #: Whether a request to commit may have been carried out.
        self._may_be_committed = False
        #: Why offsets were not sent, by partition, until they were sent again.
        self._unsent: dict[tuple[str, int], KafkaGuardError] = {}
        #: The offsets and group of a request without an answer.
        self._open_offsets: Any = None

    @property
    def state(self) -> TransactionState:
        """The state of the producer's transactions."""
        return self.transaction.state

    # --- calls ------------------------------------------------------------------------

    def init(self, limit: TimeLimit) -> Flow[None]:
        """Take over the ``transactional.id``."""
        answer = yield self._step("init", limit)
        if answer.kind != "done":
            raise self._error(INIT, answer)
        if self.state is _State.NEW:
            self.transaction.happens(_Event.TOOK_OVER)

    def begin(self, limit: TimeLimit) -> Flow[None]:
        """Begin a transaction, with a new producer if the client cannot go on."""
        yield from self._admit(BEGIN)
        is_unfit = self._needs_new_producer or self.state is _State.ABORTING
        if self.state in _BROKEN or (is_unfit and self._traits.can_build):
            yield from self._renew(limit)
        elif self.state is _State.ABORTING:
            raise self.errors.make_out_of_order(BEGIN, self.state)
        answer = yield self._step("begin", limit)
        if self._may_renew(answer):
            yield from self._renew(limit)
            answer = yield self._step("begin", limit)
        if answer.kind != "done":
            raise self._error(BEGIN, answer)
        if self.state is _State.NEW:
            self.transaction.happens(_Event.TOOK_OVER)
        self.transaction.happens(_Event.BEGAN)
        self._forget()
        self._began = self._clock()

    def add_offsets(
        self,
        offsets: Any,
        group: Any,
        limit: TimeLimit,
        longest: TimeLimit | None = None,
    ) -> Flow[None]:
        """Add a consumer's offsets; without them, the transaction cannot commit.

        Args:
            offsets: The offsets.
            group: The group's name or metadata.
            limit: How long the call may take.
            longest: How long the client tries, whatever the call may take.
        """
        yield from self._admit(OFFSETS)
        request = copy(offsets), group
        if self._traits.offsets_in_turn and self._open_offsets not in (None, request):
            raise self.errors.make_abort_first(
                next(iter(self._unsent.values())), OFFSETS
            )
        missing = partial(self.errors.make_unconfirmed, *request, longest or limit)
        try:
            answer = yield self._step("offsets", limit, request)
        except BaseException as error:
            if not isinstance(error, Exception):  # the call was interrupted
                self._unsent |= dict.fromkeys(_places(offsets), missing(None))
                self._open_offsets = request
            raise
        self._open_offsets = None
        if answer.kind == "done":
            for place in _places(offsets):
                self._unsent.pop(place, None)
            return
        if answer.kind == "late":
            failed = missing(answer.cause)
            self._open_offsets = request
        else:
            failed = self._error(OFFSETS, answer)
        is_closed = isinstance(failed, ClientClosedError)
        if not (is_closed or failed.verdict is OUT_OF_ORDER_CALL):
            self._unsent |= dict.fromkeys(_places(offsets), failed)
        raise failed

    def commit(self, limit: TimeLimit) -> Flow[None]:
        """Commit, once each record has its outcome."""
        until = self._clock() + limit.seconds
        if self.state is _State.FAILED and self.transaction.follows:
            yield Step("await_records", until)  # one of them is to blame
        yield from self._admit(COMMIT)
        number = self.transaction.number
        if self.state is not _State.COMMITTING:
            answer = yield Step("await_records", until)
            if number != self.transaction.number:
                raise self.errors.make_out_of_order(COMMIT, self.state)
            self._raise_failure(answer, limit)
            self.transaction.happens(_Event.COMMIT)
        try:
            answer = yield Step("commit", until)
        except BaseException:  # the call was interrupted
            self._may_be_committed = True
            raise
        if answer.kind == "late":
            raise self.errors.make_unanswered(COMMIT, limit, answer.cause)
        is_open = number == self.transaction.number  # else another thread has ended it
        if answer.kind != "done":
            raise self._not_committed(answer, is_open=is_open)
        if is_open:
            self._ends(_Event.ENDED, "delivered")

    def _raise_failure(self, answer: Answer, limit: TimeLimit) -> None:
        """Refuse to commit without each record and each offset."""
        self._check(COMMIT)
        if answer.kind == "late":
            raise self.errors.make_pending(limit)
        if answer.kind != "done":
            failed = self._error(COMMIT, answer)
            self.transaction.fail(failed)
            self._check(COMMIT)
            raise failed
        for failed in self._unsent.values():
            raise self.errors.make_abort_first(failed, COMMIT)

    def _not_committed(self, answer: Answer, *, is_open: bool) -> KafkaGuardError:
        """Return the error of a commit that was answered with a failure."""
        if not is_open:
            return self.errors.make_judged(answer.cause, COMMIT, in_doubt=True)
        self._may_be_committed = self._may_be_committed or answer.may_be_done
        error = self._error(COMMIT, answer)
        if self.state is _State.FENCED or error.verdict is OUT_OF_ORDER_CALL:
            return error
        needs_new = error.verdict.action is Action.RECREATE
        is_in_doubt = error.verdict.written == "maybe"
        if is_in_doubt and (needs_new or answer.kind == "dead"):
            self._may_be_committed = True
            self._breaks(_Event.LOST, answer)
            return self.errors.make_commit_in_doubt(answer.cause)
        if needs_new:
            self._breaks(_Event.DIED, answer)
            return error
        self.transaction.happens(_Event.FAILED)
        self.transaction.fail(error)
        return error

    def abort(self, limit: TimeLimit) -> Flow[None]:
        """Abort; a new producer does it for a client that cannot."""
        self._check(ABORT)
        until = self._clock() + limit.seconds
        number = self.transaction.number
        if self.state is not _State.ABORTING:
            self.transaction.happens(_Event.ABORT)
        answer = yield Step("abort", until)
        if answer.kind == "late":
            in_doubt = self._may_be_committed
            raise self.errors.make_unanswered(
                ABORT, limit, answer.cause, in_doubt=in_doubt
            )
        # A successor would not hear whether the transaction was committed before.
        can_renew = self._traits.can_build and not self._may_be_committed
        if number != self.transaction.number:
            return  # another thread has ended it
        if can_renew and self._may_renew(answer):
            yield from self._renew(limit)
            return
        if answer.kind != "done":
            raise self._not_aborted(answer)
        yield Step("await_records", until)
        if number == self.transaction.number:
            self._ends(_Event.ENDED, "aborted")

    def _not_aborted(self, answer: Answer) -> KafkaGuardError:
        error = self._error(ABORT, answer)
        if self.state is _State.FENCED:
            return error
        if self._may_be_committed:  # so the refused abort proves nothing
            self._breaks(_Event.LOST, answer)
            return self.errors.make_commit_in_doubt(answer.cause)
        self._breaks(_Event.DIED, answer)
        is_final = error.verdict.action in _STOPS
        return error if is_final else self.errors.make_not_aborted(answer.cause)

    def _renew(self, limit: TimeLimit) -> Flow[None]:
        """Let a new producer take over the id, which ends what is open."""
        if not self._traits.can_build:
            raise self.errors.make_no_successor()
        answer = yield self._step("renew", limit)
        if answer.kind != "done":
            error = self._error(INIT, answer)
            if self.state is _State.ABORTING:
                is_in_doubt = self._may_be_committed
                self._breaks(_Event.LOST if is_in_doubt else _Event.DIED, answer)
            if error.verdict.action is Action.ABORT:  # that is what has just failed
                error = self.errors.make_not_aborted(answer.cause)
            raise error
        self._ends(_Event.TOOK_OVER, self._presumed)

    def close(self, limit: TimeLimit) -> Flow[LeftOpen | None]:
        """End an open transaction when the producer is closed, as Java's client does.

        While a transaction is open, consumers with ``read_committed`` get no later
        records. A commit whose answer was lost is repeated; others are aborted.

        Returns:
            The result; None: no transaction was open, the application was told its end,
            or it had already failed and is aborted now.
        """
        was_sound = self.state is _State.OPEN
        try:
            if self.state is _State.COMMITTING:
                yield from self.commit(limit)
            elif self.state in _BROKEN or self.state in _ALLOWED[ABORT]:
                yield from self.abort(limit)
                return LeftOpen() if was_sound else None
        except KafkaGuardError as error:
            is_asked = self.state is _State.COMMITTING
            self.transaction.count("in_doubt" if is_asked else self._presumed)
            return LeftOpen(error)
        return None

    # --- blocks -----------------------------------------------------------------------

    def begin_block(self, limit: TimeLimit) -> Flow[None]:
        """Begin a transaction, as often as the policy says."""
        return self._repeated(BEGIN, self.begin, limit)

    def commit_block(self, limit: TimeLimit) -> Flow[None]:
        """Commit after the body; abort if that fails, unless it may be committed.

        Raises:
            KafkaGuardError: The error of the commit, or of the abort.
        """
        try:
            yield from self._repeated(COMMIT, self.commit, limit)
        except BaseException as error:
            if self.state in _CAN_ABORT:
                yield from self._repeated(ABORT, self.abort, limit)
                say_aborted(error)
            raise

    def abort_block(self, limit: TimeLimit, error: BaseException) -> Flow[None]:
        """Abort after the body has raised, unless it has ended the transaction.

        Args:
            limit: How long one call may take.
            error: What the body has raised; it gets a note if the abort fails.
        """
        try:
            if self.state in _CAN_ABORT:
                yield from self._repeated(ABORT, self.abort, limit)
                say_aborted(error)
        except KafkaGuardError as failure:
            error.add_note(f"besides, its transaction was not aborted: {failure}")

    def _repeated(
        self, call: Call, make: Callable[[TimeLimit], Flow[None]], limit: TimeLimit
    ) -> Flow[None]:
        """Make a call as often as the policy says."""
        context = CallContext(
            api=call.api or INIT.api,
            transactional=True,
            phase=call.phase,
            repeatable=call is not BEGIN,
        )
        attempts = Machine(self._clock(), self._random, repeatable=context.repeatable)
        while True:
            try:
                return (yield from make(limit))
            except KafkaGuardError as error:
                if self.state not in _AGAIN[call]:
                    raise
                ruling = self._policy.ruling(error.verdict, context, error)
                step = attempts.failed(error.verdict, ruling, self._clock())
                if step.kind != "again":
                    raise
            yield Step("sleep", self._clock() + step.wait)

    # --- errors -----------------------------------------------------------------------

    def send_error(
        self, original: BaseException, topic: str, answer: Answer = DONE
    ) -> KafkaGuardError | None:
        """Return the error of a record that the client refused for its transaction.

        Args:
            original: What the client has raised.
            topic: The record's topic.
            answer: Why the client cannot go on with the transaction, if so.

        Returns:
            The error; None: the transaction is open and sound.
        """
        failed = None if answer.kind == "done" else self._error(SEND, answer)
        if self.state is not _State.OPEN:  # or it has just been found to be fenced
            error = self._refusal(SEND, original)
        elif failed is None:
            return None
        else:
            error = self.errors.make_abort_first(failed, SEND, original)
        error.topic = error.topic or topic
        return error

    def _admit(self, call: Call) -> Flow[None]:
        """Raise an error if the state does not allow a call.

        A record of a fenced producer may have failed with a code that does not say so.
        """
        if self.state is _State.FAILED:
            answer = yield Step("look", self._clock())
            if answer.kind != "done":
                self._error(call, answer)
        self._check(call)

    def _check(self, call: Call) -> None:
        """Raise an error if the state does not allow a call."""
        failure = self.transaction.failure
        if failure is not None and failure.verdict.action is Action.FENCED:
            self._is_fenced(failure.__cause__ or failure)
        if self.state not in _ALLOWED[call]:
            raise self._refusal(call)

    def _refusal(self, call: Call, original: Any = None) -> KafkaGuardError:
        failure = self.transaction.failure
        if self._fence is not None:
            return self.errors.make_fenced(self._fence, call)
        if self.state is _State.UNKNOWN_END:
            return self.errors.make_commit_in_doubt(self._broken)
        if self.state is _State.STUCK:
            return self.errors.make_not_aborted(self._broken)
        if self.state is _State.FAILED and failure is not None:
            return self.errors.make_abort_first(
                failure, call, original, in_doubt=self._may_be_committed
            )
        return self.errors.make_out_of_order(call, self.state, original)

    def _error(self, call: Call, answer: Answer) -> KafkaGuardError:
        """Make the error of a call that the client has answered with a failure."""
        if answer.kind == "order":
            state = _State.NEW if self.state is _State.NONE else self.state
            return self.errors.make_out_of_order(call, state, answer.cause)
        request = call if answer.api is None else call._replace(api=answer.api)
        error = self.errors.make_judged(
            answer.cause, request, in_doubt=self._may_be_committed
        )
        if error.verdict.action is not Action.FENCED:
            return error
        self._is_fenced(answer.cause)
        assert self._fence is not None
        return self.errors.make_fenced(self._fence, call)

    def _may_renew(self, answer: Answer) -> bool:
        """Return whether a dead client's successor helps, and does no harm."""
        is_dead = answer.kind == "dead" and self._fence is None
        return is_dead and not ends_all(answer.cause)

    def _is_fenced(self, cause: Any) -> None:
        if self._fence is not None:
            return
        lasted = max(0.0, self._clock() - self._began)
        self._fence = Fence(cause, lasted, self._may_be_committed)
        self._ends(_Event.FENCED, self._presumed)

    @property
    def _presumed(self) -> TransactionEnding:
        """How a transaction ended whose end this client will not hear."""
        return "in_doubt" if self._may_be_committed else "aborted"

    # --- ends -------------------------------------------------------------------------

    def _ends(self, event: TransactionEvent, ending: TransactionEnding) -> None:
        has_gap = self.transaction.has_gap and self._traits.has_gaps
        self._needs_new_producer = has_gap and event is not _Event.TOOK_OVER
        self.transaction.happens(event)
        self.transaction.ends(ending)
        self._forget()

    def _breaks(self, event: TransactionEvent, answer: Answer) -> None:
        self._broken = answer.cause
        self.transaction.happens(event)

    def _step(self, do: Any, limit: TimeLimit, offsets: Any = None) -> Step:
        return Step(do, self._clock() + limit.seconds, offsets)


def _places(offsets: Any) -> set[tuple[str, int]]:
    return {(each.topic, each.partition) for each in offsets}
