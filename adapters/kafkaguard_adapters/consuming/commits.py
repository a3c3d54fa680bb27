"""Commits: whether the member owns the partitions, the attempts, the errors."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.reports import TopicPartition, as_partition
from kafkaguard._consuming.commits import OFFSET_COMMIT
from kafkaguard._errors import ClientStateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from kafkaguard._consuming.commits import CommitRun
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.client_errors import ClientErrors

    Refusals = Mapping[TopicPartition, KafkaGuardError]
    Refused = dict[TopicPartition, KafkaGuardError]
    Owned = Callable[[], Collection[Any] | None]


def commit(
    run: CommitRun,
    once: Callable[[Collection[Any]], Refusals],
    find_owned: Owned,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Commit until nothing is left to try; ``run.errors`` is the outcome.

    Args:
        run: The commit run, which decides about further attempts.
        once: Commits partitions once; returns the errors of the first answer.
        find_owned: Returns the assigned partitions; None: the consumer has no
            assignment from its group.
        clock: Returns monotonic seconds.
        sleep: Sleeps for a number of seconds.
    """
    errors = once(run.places)
    while (again := run.answered(errors, find_owned(), clock())) is not None:
        sleep(again.wait)
        if again.is_alone:
            errors = {p: e for each in again.places for p, e in once([each]).items()}
        else:
            errors = once(again.places)


async def commit_awaited(
    run: CommitRun,
    once: Callable[[Collection[Any]], Awaitable[Refusals]],
    find_owned: Owned,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Commit as :func:`commit` does, with awaited calls.

    There are no separate attempts for each partition, because the client's errors name
    their partitions.
    """
    errors = await once(run.places)
    while (again := run.answered(errors, find_owned(), clock())) is not None:
        await asyncio.sleep(again.wait)
        errors = await once(again.places)


def check_owned(
    errors: ClientErrors,
    places: Iterable[Any],
    owned: Collection[TopicPartition] | None,
    hint: str = "or commit with allow_unassigned=True",
    **theirs: Any,
) -> None:
    """Refuse a commit for partitions that this member of the group does not own.

    The broker would accept it, and move back the offset of the member that owns them.

    Args:
        errors: Makes the client's errors.
        places: The partitions of the commit.
        owned: What the member owns; None: it takes no part in a group's assignment, so
            it may commit what it likes.
        hint: What else the caller may do.
        theirs: The client's class, as for ``errors.make``.

    Raises:
        ClientStateError: The verdict's action is REJOIN. Nothing was committed.
    """
    if owned is None:
        return
    others = sorted({as_partition(each) for each in places}.difference(owned))
    if not others:
        return
    names = ", ".join(f"{topic}-{partition}" for topic, partition in others[:3])
    more = f" and {len(others) - 3} more" if others[3:] else ""
    raise errors.make(
        ClientStateError,
        f"this member does not own {names}{more}, and a commit would move the offset "
        "of the member that owns it; nothing was committed: commit only for assigned "
        f"partitions, {hint}",
        api=OFFSET_COMMIT,
        topic=others[0].topic,
        partition=others[0].partition,
        **theirs,
    )


def read_refusals(errors: ClientErrors, response: Any) -> Refused:
    """Return the errors in the answer to a commit."""
    return {
        TopicPartition(topic, partition): errors.make(
            code, api=OFFSET_COMMIT, topic=topic, partition=partition
        )
        for topic, partitions in response.topics
        for partition, code in partitions
        if code
    }


def spread_error(
    errors: ClientErrors, places: Iterable[Any], error: BaseException
) -> Refused:
    """Return the same error for each partition of a commit without an answer."""
    return {
        TopicPartition(topic, partition): errors.translate(
            error, api=OFFSET_COMMIT, topic=topic, partition=partition
        )
        for topic, partition in places
    }
