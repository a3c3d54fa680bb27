"""Repeat a request for the items that failed, within a deadline."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkaguard._errors import (
    ClientTimeoutError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaGuardError,
    RemoteStorageNotReadyError,
    UnstableOffsetCommitError,
)
from kafkaguard._retries.backoff import doubled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

ItemT = TypeVar("ItemT")

#: Seconds: the first wait, which is also the shortest, and the longest wait.
BACKOFF_FLOOR_S: Final = 0.1
BACKOFF_CEILING_S: Final = 1.0
_JITTER: Final = 0.5
_UNKNOWN_SERVER_ERROR: Final = -1
#: The most tries if the retriable error is UNKNOWN_SERVER_ERROR, or does not come from
#: a broker.
_MAX_TRIES: Final = 4
#: Seconds for which a retriable error is retried: electing a leader takes no longer.
PATIENCE_S: Final = 5.0
#: Errors that end by themselves but may last long. They are retried until the deadline.
_LONG_LASTING: Final = (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    RemoteStorageNotReadyError,
    UnstableOffsetCommitError,
)


def backoff(
    tries: int, uniform: Callable[[float, float], float] = random.uniform
) -> float:
    """Return the seconds to wait after a number of tries.

    The wait doubles from 0.1 s to 1 s. Jitter only adds to it (up to half), so no wait
    is shorter than 0.1 s.

    Args:
        tries: How many tries have failed, 1 or more.
        uniform: Returns a random number between two numbers.
    """
    base = doubled(BACKOFF_FLOOR_S, tries - 1, BACKOFF_CEILING_S)
    return base * uniform(1.0, 1.0 + _JITTER)


def halve(deadline: float) -> float:
    """Return the deadline for a step that may use half of the time that is left.

    If a broker does not answer or is not ready, the other half is left for the next
    requests.

    Args:
        deadline: The deadline of all steps, in seconds on the event loop's clock.
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
    """Request items until each has an answer, or an error that is not retriable.

    Args:
        items: The items to request.
        ask: Gets an answer or an error for each item. Its second argument is the number
            of earlier tries.
        deadline: The deadline, in seconds on the event loop's clock; no wait goes
            beyond it. Most errors are retried for 5 s only.
        error_of: Returns the error in an answer, or None. Default: an answer that is an
            error itself.

    Returns:
        The last answer or error of each item.
    """
    get_error = error_of or _as_error
    loop = asyncio.get_running_loop()
    soon = loop.time() + PATIENCE_S
    pending = list(items)
    results: dict[ItemT, Any] = dict.fromkeys(pending)  # in the order of the items
    tries = 0
    while pending:
        answers = await ask(pending, tries)
        if tries:  # keep a broker's last answer: it says more than "timed out"
            answers = {
                item: answer
                for item, answer in answers.items()
                if not isinstance(get_error(answer), ClientTimeoutError)
            }
        results.update(answers)
        tries += 1
        delay = backoff(tries)
        is_soon = loop.time() + delay < soon
        pending = [
            each
            for each in pending
            if _is_retried(get_error(results[each]), tries, is_soon=is_soon)
        ]
        if not pending or loop.time() + delay >= deadline:
            break
        await asyncio.sleep(delay)
    return results


def _as_error(answer: Any) -> KafkaGuardError | None:
    return answer if isinstance(answer, KafkaGuardError) else None


def _is_retried(error: KafkaGuardError | None, tries: int, *, is_soon: bool) -> bool:
    if error is None or not error.verdict.retriable:
        return False
    if isinstance(error, _LONG_LASTING):
        return True
    is_plain = error.origin == "broker" and error.code != _UNKNOWN_SERVER_ERROR
    return is_soon and (is_plain or tries < _MAX_TRIES)
