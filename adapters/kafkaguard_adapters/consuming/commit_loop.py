"""Commits that the caller waits for; the commit run decides about each attempt."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._consuming.commits import CommitRun
    from kafkaguard.errors import KafkaGuardError

    Refused = Mapping[TopicPartition, KafkaGuardError]
    Owned = Callable[[], Collection[Any] | None]


def commit(
    run: CommitRun,
    once: Callable[[Collection[Any]], Refused],
    owned: Owned,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Commit until nothing is left to try; ``run.errors`` is the outcome.

    Args:
        run: The commit run, which decides about further attempts.
        once: Commits partitions once; returns the errors of the first answer.
        owned: Returns the assigned partitions; None: the consumer has no assignment
            from its group.
        clock: Returns monotonic seconds.
        sleep: Sleeps for a number of seconds.
    """
    refused = once(run.places)
    while (again := run.answered(refused, owned(), clock())) is not None:
        sleep(again.wait)
        if again.is_alone:
            refused = {p: e for each in again.places for p, e in once([each]).items()}
        else:
            refused = once(again.places)


async def commit_awaited(
    run: CommitRun,
    once: Callable[[Collection[Any]], Awaitable[Refused]],
    owned: Owned,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Commit as :func:`commit` does, with awaited calls.

    There are no separate attempts for each partition, because the client's errors name
    their partitions.
    """
    refused = await once(run.places)
    while (again := run.answered(refused, owned(), clock())) is not None:
        await asyncio.sleep(again.wait)
        refused = await once(again.places)
