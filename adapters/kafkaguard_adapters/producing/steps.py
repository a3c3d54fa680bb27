"""Run code that waits in two ways: by blocking, or by awaiting.

The code is a generator, so what it decides is written once. It yields what to wait for,
and gets the result or the error.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

T = TypeVar("T")


def do(step: Any) -> Any:
    """Do what a step often is: call something, or sleep for some seconds."""
    return time.sleep(step) if isinstance(step, float) else step()


async def ado(step: Any) -> Any:
    """Do the same with a coroutine function."""
    return await (asyncio.sleep(step) if isinstance(step, float) else step())


def run(steps: Generator[Any, Any, T], do: Callable[[Any], Any] = do) -> T:
    """Run a generator to its end, and return its value.

    Args:
        steps: The generator.
        do: Does what the generator yields. Default: :func:`do`.
    """
    resume, result = steps.send, None
    while True:
        try:
            request = resume(result)
        except StopIteration as end:
            value: T = end.value
            return value
        try:
            resume, result = steps.send, do(request)
        except BaseException as error:  # noqa: BLE001 - the generator decides about it
            resume, result = steps.throw, error


async def arun(
    steps: Generator[Any, Any, T], do: Callable[[Any], Awaitable[Any]] = ado
) -> T:
    """Do the same with a coroutine function; a cancellation ends the generator."""
    with closing(steps):
        resume, result = steps.send, None
        while True:
            try:
                request = resume(result)
            except StopIteration as end:
                value: T = end.value
                return value
            try:
                resume, result = steps.send, await do(request)
            except Exception as error:  # noqa: BLE001 - the generator decides about it
                resume, result = steps.throw, error
