"""Transactional calls of a guarded producer: time limits and verdicts.

If the answer to a commit is lost, aiokafka itself repeats the request. Its background
task ends at any answer that it does not expect. Then a new producer takes over the same
``transactional_id``: after its first request, the coordinator aborts the open
transaction. aiokafka cannot send the epoch of the old producer to the coordinator. So a
fenced producer is never replaced.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.errors import KafkaError

from kafkaguard._delivery.judging import ends_all
from kafkaguard._delivery.transaction import TransactionRun
from kafkaguard.errors import KafkaGuardError
from kafkaguard.errors._base import Action
from kafkaguard_adapters.aiokafka._private.producing import reading
from kafkaguard_adapters.aiokafka._private.producing import transactions as inside
from kafkaguard_adapters.aiokafka.errors import IllegalCallError, errors
from kafkaguard_adapters.producing import transaction_words as words
from kafkaguard_adapters.producing.time_limit import TimeLimit
from kafkaguard_adapters.producing.transaction_block import LeftOpen
from kafkaguard_adapters.producing.transaction_words import (
    ABORT,
    BEGIN,
    COMMIT,
    OFFSETS,
    SEND,
    Call,
    TransactionWords,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kafkaguard._delivery.shell import Policy
    from kafkaguard._delivery.transaction import CallName
    from kafkaguard_adapters.aiokafka.shell import AIOKafkaShell
    from kafkaguard_adapters.producing.task_driver import TaskDriver

_words = TransactionWords(
    errors,
    "a new producer with the same transactional_id is started",
    "the producer has not been started",
    IllegalCallError,
)


class _Fenced(NamedTuple):
    """Why a producer is fenced, and when that was told, in monotonic seconds."""

    cause: BaseException
    told: float


class Transactions:
    """Begins and ends transactions.

    Args:
        shell: The shell of the client.
        driver: Tracks the client's records.
        policy: The retry policy of calls in a ``transaction()`` block.
    """

    def __init__(
        self, shell: AIOKafkaShell, driver: TaskDriver, policy: Policy
    ) -> None:
        self._shell = shell
        self._driver = driver
        self._policy = policy
        #: What the application was told when the producer was found to be fenced.
        self._fenced: _Fenced | None = None
        self._forget()

    def _forget(self) -> None:
        """Reset the state: no transaction is open."""
        self._driver.transaction_ended()
        self._is_stuck = False
        #: Whether a commit was requested; aiokafka itself repeats the request.
        self._is_committing = False
        self._lost_commit: BaseException | None = None
        self._offsets: tuple[Any, Any, asyncio.Task[None]] | None = None
        self._began = float("inf")

    @property
    def _failure(self) -> KafkaGuardError | None:
        return self._driver.machine.transaction_failure

    @property
    def _is_open(self) -> bool:
        return self._began != float("inf")

    # --- records ----------------------------------------------------------------------

    def spoil(self, error: KafkaGuardError) -> None:
        """Fail the transaction for a record that the client never got.

        Java's producer does the same: it then refuses the commit.
        """
        if self._shell.is_transactional and self._is_open:
            self._driver.spoil_transaction(error)

    def error_of(self, error: Exception, topic: str) -> KafkaGuardError:
        """Return the error for a record that the client did not accept."""
        producer = self._shell.producer
        cause = self._cause()
        if self._failure is not None or (cause is not None and self._is_open):
            return self._judged(error, SEND)
        if not inside.is_in_transaction(producer):
            made = _words.out_of_order(SEND, inside.state_of(producer))
            made.topic = topic
            return made
        return errors.translate(
            error, api=SEND.api, topic=topic, context={"transactional": True}
        )

    # --- calls ------------------------------------------------------------------------

    async def begin(self) -> None:
        """Begin a transaction, with a new producer if the old one cannot go on.

        Raises:
            KafkaGuardError: The transaction cannot begin.
        """
        self._check(BEGIN)
        is_unfit = (
            self._shell.has_gap
            or self._is_stuck
            or self._lost_commit is not None
            or self._cause() is not None
        )
        if is_unfit and not self._is_over_for_good():
            await self._renew()
        producer = self._shell.producer
        if self._is_over_for_good():
            raise self._judged(self._cause() or KafkaError(), BEGIN)
        if inside.state_of(producer) != "READY":
            raise _words.out_of_order(BEGIN, inside.state_of(producer))
        async with asyncio.timeout(self._limit.seconds):
            await producer.begin_transaction()
        self._forget()
        self._began = time.monotonic()

    async def commit(self) -> None:
        """Commit within ``request_timeout_ms``; call it again to wait for longer.

        Raises:
            KafkaGuardError: The verdict says whether to abort.
        """
        self._check(COMMIT)
        self._raise_doubt()
        if not self._is_committing:
            producer = self._shell.producer
            # First wait for all records: one that fails later would be missing.
            await self._await_records(COMMIT)
            self._raise_failure(COMMIT)
            if not inside.is_in_transaction(producer):
                raise _words.out_of_order(COMMIT, inside.state_of(producer))
            self._shell.forget_end()
            inside.end(producer, commit=True)
            self._is_committing = True
        await self._await_end(COMMIT)
        self._forget()

    async def abort(self) -> None:
        """Abort within ``request_timeout_ms``.

        Raises:
            KafkaGuardError: The transaction cannot be aborted.
        """
        self._check(ABORT)
        self._raise_doubt()
        await self._abort()
        await self._driver.wait(time.monotonic() + self._limit.seconds)
        self._forget()

    async def _abort(self) -> None:
        producer = self._shell.producer
        can_abort = self._fenced is None and inside.has_failed(producer)
        if self._cause() is not None and not can_abort:
            await self._abort_by_successor()
            return
        if self._is_committing:
            raise _words.out_of_order(ABORT, "COMMITTING_TRANSACTION")
        if not inside.is_open(producer):
            raise _words.out_of_order(ABORT, inside.state_of(producer))
        self._drop_offsets()
        inside.end(producer, commit=False)
        await self._await_end(ABORT)

    def _drop_offsets(self) -> None:
        """Stop asking for offsets that were not confirmed in time."""
        if self._offsets is not None:
            self._offsets[2].cancel()
            inside.drop_offsets(self._shell.producer)

    async def _abort_by_successor(self) -> None:
        """Let a new producer of the same id abort a dead producer's transaction."""
        cause = self._cause()
        assert cause is not None
        if not self._is_open or self._is_over_for_good():
            raise self._judged(cause, ABORT)
        if self._is_stuck:  # a new producer was tried already
            raise _words.not_aborted(cause)
        await self._renew()

    async def add_offsets(self, offsets: Any, group_id: Any) -> None:
        """Add a consumer's offsets within ``request_timeout_ms``.

        Raises:
            KafkaGuardError: The offsets were not added.
        """
        self._check(OFFSETS)
        self._raise_failure(OFFSETS)
        producer = self._shell.producer
        if not inside.is_in_transaction(producer):
            raise _words.out_of_order(OFFSETS, inside.state_of(producer))
        if self._offsets is None or self._offsets[:2] != (offsets, group_id):
            call = producer.send_offsets_to_transaction(offsets, group_id)
            self._offsets = (offsets, group_id, asyncio.ensure_future(call))
        task = self._offsets[2]
        done, _ = await asyncio.wait([task], timeout=self._limit.seconds)
        if not done:
            raise _words.not_in_time(OFFSETS, self._unconfirmed())
        self._offsets = None
        error = task.exception()
        if isinstance(error, KafkaError):
            raise self._judged(error, OFFSETS)
        if error is not None:
            raise error

    def can_ask_again(self) -> bool:
        """Return whether the call that has just failed can be made again."""
        return self._lost_commit is None and self._cause() is None

    async def end_open_transaction(self, seconds: float) -> LeftOpen | None:
        """End an open transaction when the producer is stopped, as in Java.

        Until then, a ``read_committed`` consumer gets no later record of the partition.
        A commit whose answer was lost is waited for; others are aborted.

        Args:
            seconds: Time limit.

        Returns:
            The result; None: no transaction was open, the application was told its end,
            or it had already failed and is aborted now.
        """
        is_fenced = self._fenced is not None
        if not self._shell.is_transactional or not self._is_open or is_fenced:
            return None
        was_sound = self._failure is None and self._cause() is None
        call = COMMIT if self._is_committing else ABORT
        try:
            self._raise_doubt()
            async with asyncio.timeout(seconds):
                if call is COMMIT:
                    await self._await_end(COMMIT)
                    return None
                await self._abort()
        except TimeoutError:
            happened = f"no answer within the {seconds:.1f} s that stop() had left"
            return LeftOpen(_words.not_in_time(call, happened))
        except KafkaGuardError as error:
            return LeftOpen(error)
        finally:
            if self._offsets is not None:
                self._offsets[2].cancel()
        return LeftOpen() if was_sound else None

    @asynccontextmanager
    async def block(self, producer: Any) -> AsyncIterator[Any]:
        """Begin a transaction, and commit it after the body, or abort it.

        Args:
            producer: The guarded producer, which the body gets.

        Raises:
            KafkaGuardError: The transaction was not committed; the verdict says what
                to do.
            BaseException: The exception of the body, after the abort.
        """
        run = TransactionRun(self._policy)
        await self._make(run, "begin")
        try:
            yield producer
        except BaseException as error:
            if run.aborts_after(error):
                try:
                    await self._make(run, "abort")
                except KafkaGuardError as failure:
                    error.add_note(
                        f"besides, its transaction was not aborted: {failure}"
                    )
                else:
                    words.say_aborted(error)
            raise
        await self._make(run, "commit")

    async def _make(self, run: TransactionRun, call: CallName) -> None:
        """Make a call; if it fails, retry it or abort, as the machine decides."""
        run.starts(call, time.monotonic())
        while True:
            try:
                await getattr(self, call)()
            except KafkaGuardError as error:
                again = self.can_ask_again()
                step = run.failed(error, time.monotonic(), can_ask_again=again)
                if step.do == "abort":
                    await self._make(run, "abort")
                    words.say_aborted(error)
                if step.do != "again":
                    raise
            else:
                return
            await asyncio.sleep(step.wait)

    # --- waiting ----------------------------------------------------------------------

    async def _await_end(self, call: Call) -> None:
        producer, limit = self._shell.producer, self._limit
        try:
            async with asyncio.timeout(limit.seconds):
                await inside.ended(producer)
        except TimeoutError:
            self._is_stuck = self._is_stuck or call is ABORT
            happened = words.unanswered(call, limit)
            raise _words.not_in_time(call, happened) from None
        except Exception as error:
            raise self._not_ended(error, call) from error

    def _not_ended(self, error: Exception, call: Call) -> KafkaGuardError:
        """Return the error of a transaction that has not ended."""
        cause = error.__cause__ or error
        judged = self._judged(error, call)
        if call is ABORT and not words.stops(judged):
            self._is_stuck = True
            return _words.not_aborted(cause)
        if call is COMMIT and judged.verdict.action is not Action.FENCED:
            was_refused = judged.verdict.written == "no"
            if self._shell.lost_end or not was_refused:
                self._lost_commit = cause
                return _words.commit_in_doubt(cause)
        return judged

    async def _await_records(self, call: Call) -> None:
        """Wait until each record has its outcome."""
        limit = self._limit
        if await self._driver.wait(time.monotonic() + limit.seconds):
            raise _words.pending(call, limit)

    @property
    def _limit(self) -> TimeLimit:
        traits = self._shell.traits
        return TimeLimit(traits.delivery_timeout, traits.timeout_setting)

    async def _renew(self) -> None:
        """Let a new producer take over the ``transactional_id``."""
        self._driver.recreated()
        try:
            await self._shell.renew(self._limit.seconds)
        except (KafkaError, OSError) as error:
            self._is_stuck = True
            context = {"transactional": True}
            made = errors.translate(error, api=BEGIN.api, context=context)
            if made.verdict.action is Action.ABORT:  # the abort itself has just failed
                made = _words.not_aborted(error)
            raise made from error
        self._driver.retire()

    # --- state and errors -------------------------------------------------------------

    def _cause(self) -> BaseException | None:
        """Return why the client cannot continue the transaction; None: it can."""
        if self._fenced is not None:
            return self._fenced.cause
        shell = self._shell
        return inside.why_failed(shell.producer) or shell.death

    def _is_over_for_good(self) -> bool:
        """Return whether a new producer would do harm or would not help."""
        cause = self._cause()
        return cause is not None and (
            self._fenced is not None
            or ends_all(cause)
            or not self._shell.traits.replaceable
        )

    def _check(self, call: Call) -> None:
        if not self._shell.is_transactional:
            raise _words.not_transactional(call)

    def _raise_doubt(self) -> None:
        """Raise again that a commit is in doubt: its transaction is over."""
        if self._lost_commit is not None and not self._is_over_for_good():
            raise _words.commit_in_doubt(self._lost_commit)

    def _raise_failure(self, call: Call) -> None:
        """Refuse to continue a transaction that lacks a record or offsets."""
        failed, cause = self._failure, self._cause()
        is_fenced = failed is not None and failed.verdict.action is Action.FENCED
        if failed is not None and not (is_fenced or self._is_over_for_good()):
            raise _words.abort_first(failed, call)
        if failed is not None or cause is not None:
            raise self._judged(cause or failed or KafkaError(), call)
        if self._offsets is not None and call is COMMIT:
            failed = _words.not_in_time(OFFSETS, self._unconfirmed())
            raise _words.abort_first(failed, COMMIT)

    def _unconfirmed(self) -> str:
        assert self._offsets is not None
        return words.unconfirmed(*self._offsets[:2], self._limit)

    def _judged(self, error: BaseException, call: Call) -> KafkaGuardError:
        """Return the error of a failed call, with its verdict."""
        cause = self._cause() or error.__cause__ or error
        context = {"transactional": True, "phase": call.phase}
        judged = errors.translate(cause, api=call.api, context=context)
        if judged.verdict.action is Action.FENCED:
            if self._fenced is None:
                self._fenced = _Fenced(cause, time.monotonic())
            lasted = self._fenced.told - self._began if self._is_open else 0.0
            limit = inside.time_limit(self._shell.producer)
            words.explain_fenced(
                judged,
                reading.transactional_id(self._shell.producer),
                words.why_over(lasted, limit, "transaction_timeout_ms"),
                in_doubt=self._lost_commit is not None or self._shell.lost_end,
            )
            self._driver.transaction_ended()
        if words.stops(judged):
            return judged
        is_end = call in (COMMIT, ABORT)
        if self._is_open and not is_end:
            return _words.abort_first(self._failure or judged, call)
        return judged
