"""Sync and async drivers of a call: they loop, wait and call; the machine decides."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kafkaguard._retries.machine import DONE
from kafkaguard._verdicts.bare_errors import current_error
from kafkaguard_policies.running import testing
from kafkaguard_policies.running.not_repeatable import LAZY, name_of, raise_lazy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kafkaguard_policies.running.caller import Caller
    from kafkaguard_policies.running.retried_call import RetriedCall


T = TypeVar("T")


class _Driver(Generic[T]):
    """Shared parts of the sync and the async driver.

    Args:
        retrier: The settings.
        fn: What is called.
        args: Its arguments.
        kwargs: Its keyword arguments.
        call: The call's progress.
        failure: The failure of the first attempt.
    """

    def __init__(
        self,
        retrier: Caller,
        fn: Callable[..., T | Awaitable[T]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        call: RetriedCall,
        failure: Exception | None = None,
    ) -> None:
        self._retrier = retrier
        self._fn = fn
        self._args = args
        self._kwargs = kwargs
        self._call = call
        call.calls = True
        self._result: T | None = None
        self.step = DONE if failure is None else call.failed(failure)
        self._began = failure is not None

    def __enter__(self) -> None:
        """Begin an attempt."""

    def __exit__(self, kind: object, error: object, traceback: object) -> bool:
        """Judge how the attempt has ended; a failure is raised if the call ends."""
        if kind is None:
            self._call.succeeded()
        elif isinstance(error, Exception):
            self.step = self._call.failed(error)
        elif isinstance(error, BaseException):
            self._call.abandoned()
            return False
        else:  # a raised KafkaError is no exception
            self.step = self._call.failed(current_error())
        return True

    def _is_stopped(self) -> bool:
        """Request an attempt; return True if it may not be made, with the step set."""
        stop = self._call.begin()
        # If the attempt ends with KeyboardInterrupt, there must be no other one.
        self.step = stop or DONE
        return stop is not None

    def _ended(self) -> T:
        """Return the result, or raise the last failure."""
        if self.step.kind != "stop":
            return cast("T", self._result)
        error = self._call.error
        assert error is not None
        try:
            raise error
        finally:
            del error

    def _due_repair(self) -> Any:
        assert self.step.repair is not None
        return self._retrier.repairs[self.step.repair]()


def _check_repair(answer: Any) -> None:
    if answer is False:
        raise RuntimeError("the repair returned False")


class Driver(_Driver[T]):
    """Runs a plain function."""

    def run(self) -> T:
        """Make attempts until one succeeds or the call ends."""
        if not self._began:
            self.attempt()
        while self.step.kind == "again":
            self._retrier.pause(self.step.wait)
            self.attempt()
        if self.step.repair is not None:
            self._repaired()
        return self._ended()

    def attempt(self) -> None:
        """Run the pending repair, and then an attempt, if both are allowed."""
        repairs = self.step.repair is not None
        if (repairs and not self._repaired()) or self._is_stopped():
            return
        with self:
            self._result = self._called()

    def _called(self) -> Any:
        if testing.active and (forced := testing.active.next_forced()):
            raise forced
        result = self._fn(*self._args, **self._kwargs)
        if result.__class__ in LAZY:
            raise_lazy(result, self._fn)
        return result

    def _repaired(self) -> bool:
        try:
            _check_repair(self._due_repair())
        except Exception as error:  # noqa: BLE001 - reported with the last failure
            self.step = self._call.repair_failed(error)
            return False
        return True


class AsyncDriver(_Driver[T]):
    """Runs a coroutine function."""

    async def run(self) -> T:
        """Make attempts until one succeeds or the call ends."""
        if not self._began:
            await self.attempt()
        while self.step.kind == "again":
            await self._retrier.apause(self.step.wait)
            await self.attempt()
        if self.step.repair is not None:
            await self._repaired()
        return self._ended()

    async def attempt(self) -> None:
        """Run the pending repair, and then an attempt, if both are allowed."""
        repairs = self.step.repair is not None
        if (repairs and not await self._repaired()) or self._is_stopped():
            return
        with self:
            self._result = await self._called()

    async def _called(self) -> Any:
        if testing.active and (forced := testing.active.next_forced()):
            raise forced
        async with asyncio.timeout(self._call.attempt_timeout):
            result = self._fn(*self._args, **self._kwargs)
            if not inspect.isawaitable(result):
                raise TypeError(
                    f"{name_of(self._fn)} returned nothing to await: use policy.call()"
                )
            return await result

    async def _repaired(self) -> bool:
        try:
            answer = self._due_repair()
            if inspect.isawaitable(answer):
                async with asyncio.timeout(self._call.attempt_timeout):
                    answer = await answer
            _check_repair(answer)
        except Exception as error:  # noqa: BLE001 - reported with the last failure
            self.step = self._call.repair_failed(error)
            return False
        return True
