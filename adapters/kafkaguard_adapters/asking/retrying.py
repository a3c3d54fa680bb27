"""Repeat a request for the items that failed, within a deadline."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkaguard.errors import (
    ClientTimeoutError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaGuardError,
    RemoteStorageNotReadyError,
    UnstableOffsetCommitError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

ItemT = TypeVar("ItemT")

#: Seconds: what a wait begins with (and never falls below), and where it ends.
BACKOFF_FLOOR_S: Final = 0.1
BACKOFF_CEILING_S: Final = 1.0
_JITTER: Final = 0.5
_UNKNOWN_SERVER_ERROR: Final = -1
#: How often what is not a broker's plain "not now" is tried.
_FEW: Final = 4
#: For how many seconds a plain "not now" is asked again: a new leader takes no longer.
PATIENCE_S: Final = 5.0
#: What passes by itself however long it takes, so that only the deadline ends it.
_LONG: Final = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    RemoteStorageNotReadyError,
    UnstableOffsetCommitError,
)


def backoff(
    tries: int, uniform: Callable[[float, float], float] = random.uniform
) -> float:
    """Return how long to wait after so many tries, in seconds.

    It doubles from 0.1 to 1 and jitters upwards only, so 0.1 is the floor.
    """
    base = min(BACKOFF_FLOOR_S * 2 ** (tries - 1), BACKOFF_CEILING_S)
    delay: float = base * uniform(1.0, 1.0 + _JITTER)
    return delay


def half(deadline: float) -> float:
    """Give a step half of the time that is left until a deadline, on the loop's clock.

    A broker that is silent or not ready then leaves some for what is asked next.
    """
    now = asyncio.get_running_loop().time()
    return now + (deadline - now) / 2


async def ask_until_answered(
    items: Iterable[ItemT],
    ask: Callable[[Collection[ItemT], int], Awaitable[Mapping[ItemT, Any]]],
    deadline: float,
    *,
    error_of: Callable[[Any], KafkaGuardError | None] | None = None,
) -> dict[ItemT, Any]:
    """Ask for items until each has an answer, or an error that waiting does not mend.

    Args:
        items: What to ask for.
        ask: Gets an answer or an error for each item; told how often it was tried.
        deadline: By when, on the loop's clock; no wait goes beyond it. Most errors
            are asked again for 5 s only.
        error_of: Finds the error in an answer. Default: an answer that is one.

    Returns:
        The last answer, or error, for each item.
    """
    find = error_of or _itself
    loop = asyncio.get_running_loop()
    soon = loop.time() + PATIENCE_S
    pending = list(items)
    found: dict[ItemT, Any] = dict.fromkeys(pending)  # in the order of the question
    tries = 0
    while pending:
        answers = await ask(pending, tries)
        if tries:  # what a broker said last says more than that time has run out
            answers = {
                item: answer
                for item, answer in answers.items()
                if not isinstance(find(answer), ClientTimeoutError)
            }
        found.update(answers)
        tries += 1
        delay = backoff(tries)
        is_soon = loop.time() + delay < soon
        pending = [
            each
            for each in pending
            if _again(find(found[each]), tries, is_soon=is_soon)
        ]
        if not pending or loop.time() + delay >= deadline:
            break
        await asyncio.sleep(delay)
    return found


def _itself(answer: Any) -> KafkaGuardError | None:
    return answer if isinstance(answer, KafkaGuardError) else None


def _again(error: KafkaGuardError | None, tries: int, *, is_soon: bool) -> bool:
    if error is None or not error.verdict.retriable:
        return False
    if isinstance(error, _LONG):
        return True
    is_plain = error.origin == "broker" and error.code != _UNKNOWN_SERVER_ERROR
    return is_soon and (is_plain or tries < _FEW)
