"""A call in tenacity's hands: it loops and sleeps as the engine's steps say.

Attempts return steps and raise nothing of their own, so tenacity never decides what a
failure means.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kafkaguard._engine import DONE
from kafkaguard_policies import _testing
from kafkaguard_policies._refusals import LAZY, name_of, refuse_lazy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tenacity import RetryCallState

    from kafkaguard_policies._retrier import Retrier
    from kafkaguard_policies._session import Session


T = TypeVar("T")


class _RepairError(Exception):
    """Carries what a repair raised through tenacity."""

    def __init__(self, reason: Exception) -> None:
        super().__init__()
        self.reason = reason


class _Trial(Generic[T]):
    """What the sync and the async run have in common.

    Args:
        retrier: The settings.
        fn: What is called.
        args: Its arguments.
        kwargs: Its keyword arguments.
        session: The call's progress.
        failure: The failure of a first attempt that was made already.
    """

    def __init__(
        self,
        retrier: Retrier,
        fn: Callable[..., T | Awaitable[T]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        session: Session,
        failure: Exception | None = None,
    ) -> None:
        self._retrier = retrier
        self._fn = fn
        self._args = args
        self._kwargs = kwargs
        self._session = session
        session.calls = True
        self._result: T | None = None
        self._step = DONE if failure is None else session.failed(failure)
        self._began = failure is not None

    def _again(self, _state: RetryCallState) -> bool:
        return self._step.kind == "again"

    def _wait(self, _state: RetryCallState) -> float:
        return self._step.wait

    def _ended(self) -> T:
        """Return the result, or raise the last failure."""
        if self._step.kind != "stop":
            return cast("T", self._result)
        error = self._session.error
        assert error is not None
        try:
            raise error
        finally:
            del error

    @property
    def _due_repair(self) -> Callable[[], Any] | None:
        repair = self._step.repair
        return None if repair is None else self._retrier.repairs[repair]


def _check_repair(answer: Any) -> None:
    if answer is False:
        raise RuntimeError("the repair returned False")


class Run(_Trial[T]):
    """Tries a plain function."""

    def run(self) -> T:
        """Run until it succeeds or is given up."""
        from tenacity import Retrying

        sleep = _testing.active.sleep if _testing.active else self._retrier.sleep
        try:
            if not self._began:
                self._attempt()
            if self._step.kind == "again":
                self._repair()
                sleep(self._step.wait)
                Retrying(
                    retry=self._again,
                    wait=self._wait,
                    before_sleep=self._repair,
                    sleep=sleep,
                )(self._attempt)
            self._repair()
        except _RepairError as error:
            self._step = self._session.repair_failed(error.reason)
        return self._ended()

    def _attempt(self) -> None:
        held, self._step = self._session.begin(), DONE
        if held is not None:
            self._step = held
            return
        try:
            self._result = self._called()
        except Exception as error:  # noqa: BLE001 - judged, and raised if it ends
            self._step = self._session.failed(error)
        except BaseException:
            self._session.abandoned()
            raise
        else:
            self._session.succeeded()

    def _called(self) -> Any:
        if _testing.active and (forced := _testing.active.next_forced()):
            raise forced
        result = self._fn(*self._args, **self._kwargs)
        if result.__class__ in LAZY:
            refuse_lazy(result, self._fn)
        return result

    def _repair(self, _state: RetryCallState | None = None) -> None:
        if (repair := self._due_repair) is not None:
            try:
                _check_repair(repair())
            except Exception as error:
                raise _RepairError(error) from error


class AsyncRun(_Trial[T]):
    """Tries a coroutine function."""

    async def run(self) -> T:
        """Run until it succeeds or is given up."""
        from tenacity import AsyncRetrying

        sleep = _testing.active.asleep if _testing.active else self._retrier.asleep
        try:
            if not self._began:
                await self._attempt()
            if self._step.kind == "again":
                await self._repair()
                await sleep(self._step.wait)
                await AsyncRetrying(
                    retry=self._again,
                    wait=self._wait,
                    before_sleep=self._repair,
                    sleep=sleep,
                )(self._attempt)
            await self._repair()
        except _RepairError as error:
            self._step = self._session.repair_failed(error.reason)
        return self._ended()

    async def _attempt(self) -> None:
        held, self._step = self._session.begin(), DONE
        if held is not None:
            self._step = held
            return
        try:
            self._result = await self._called()
        except Exception as error:  # noqa: BLE001 - judged, and raised if it ends
            self._step = self._session.failed(error)
        except BaseException:
            self._session.abandoned()
            raise
        else:
            self._session.succeeded()

    async def _called(self) -> Any:
        if _testing.active and (forced := _testing.active.next_forced()):
            raise forced
        async with asyncio.timeout(self._session.limit):
            result = self._fn(*self._args, **self._kwargs)
            if not inspect.isawaitable(result):
                raise TypeError(
                    f"{name_of(self._fn)} returned nothing to await: use policy.call()"
                )
            return await result

    async def _repair(self, _state: RetryCallState | None = None) -> None:
        if (repair := self._due_repair) is not None:
            try:
                answer = repair()
                if inspect.isawaitable(answer):
                    async with asyncio.timeout(self._session.limit):
                        answer = await answer
                _check_repair(answer)
            except Exception as error:
                raise _RepairError(error) from error
