"""Sync and async drivers of a call: they loop, wait and call; the machine decides."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kafkaguard._retries.machine import DONE
from kafkaguard._verdicts.bare_errors import current_error
from kafkaguard_policies.running import testing
from kafkaguard_policies.running.not_repeatable import LAZY, name_of, raise_lazy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kafkaguard_policies.running.caller import Caller
    from kafkaguard_policies.running.retried_call import RetriedCall


T = TypeVar("T")


class _Driver(ABC, Generic[T]):
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
        """Judge how the attempt has ended; ``_end`` raises the last failure."""
        if kind is None:
            self._call.succeeded()
        elif isinstance(error, Exception):
            self.step = self._call.failed(error)
        elif isinstance(error, BaseException):
            self._call.abandoned()
            return False
        else:  # a raised KafkaError is not an exception
            self.step = self._call.failed(current_error())
        return True

    def _is_stopped(self) -> bool:
        """Request an attempt; return True if it may not be made, with the step set."""
        stop = self._call.begin()
        # If the attempt ends with KeyboardInterrupt, there must be no other one.
        self.step = stop or DONE
        return stop is not None

    def _steps(self) -> Iterator[Callable[[], Any]]:
        """Yield the attempts, waits and repairs to make until the call ends."""
        if not self._began and not self._is_stopped():
            yield self._attempt
        while self.step.kind == "again":
            yield self._pause
            if self.step.repair is not None:
                yield self._repair
            # A repair that failed has ended the call.
            if self.step.kind == "again" and not self._is_stopped():
                yield self._attempt
        if self.step.repair is not None:
            yield self._repair

    @abstractmethod
    def _pause(self) -> Any:
        """Wait until the next attempt."""

    @abstractmethod
    def _attempt(self) -> Any:
        """Make an attempt."""

    @abstractmethod
    def _repair(self) -> Any:
        """Run the repair before the next attempt, or before the end."""

    def _end(self) -> T:
        """Return the result, or raise the last failure."""
        if self.step.kind != "stop":
            return cast("T", self._result)
        error = self._call.error
        assert error is not None
        try:
            raise error
        finally:
            del error

    @staticmethod
    def _raise_forced() -> None:
        """Raise the outcome that a test forces, if any."""
        if testing.active and (outcome := testing.active.next_forced()):
            raise outcome

    def _begin_repair(self) -> Any:
        assert self.step.repair is not None
        return self._retrier.repairs[self.step.repair]()


def _check_repair(answer: Any) -> None:
    if answer is False:
        raise RuntimeError("the repair returned False")


class Driver(_Driver[T]):
    """Runs a plain function."""

    def run(self) -> T:
        """Make attempts until one succeeds or the call ends."""
        for step in self._steps():
            step()
        return self._end()

    def _pause(self) -> None:
        self._retrier.pause(self.step.wait)

    def _attempt(self) -> None:
        with self:
            self._raise_forced()
            result: Any = self._fn(*self._args, **self._kwargs)
            if result.__class__ in LAZY:
                raise_lazy(result, self._fn)
            self._result = result

    def _repair(self) -> None:
        try:
            _check_repair(self._begin_repair())
        except Exception as error:  # noqa: BLE001 - reported with the last failure
            self.step = self._call.repair_failed(error)


class AsyncDriver(_Driver[T]):
    """Runs a coroutine function."""

    async def run(self) -> T:
        """Make attempts until one succeeds or the call ends."""
        for step in self._steps():
            await step()
        return self._end()

    async def _pause(self) -> None:
        await self._retrier.apause(self.step.wait)

    async def _attempt(self) -> None:
        with self:
            self._raise_forced()
            async with asyncio.timeout(self._call.attempt_timeout):
                result = self._fn(*self._args, **self._kwargs)
                if not inspect.isawaitable(result):
                    raise TypeError(
                        f"{name_of(self._fn)} returned nothing to await: use "
                        "policy.call()"
                    )
                self._result = await result

    async def _repair(self) -> None:
        try:
            answer = self._begin_repair()
            if inspect.isawaitable(answer):
                async with asyncio.timeout(self._call.attempt_timeout):
                    answer = await answer
            _check_repair(answer)
        except Exception as error:  # noqa: BLE001 - reported with the last failure
            self.step = self._call.repair_failed(error)
