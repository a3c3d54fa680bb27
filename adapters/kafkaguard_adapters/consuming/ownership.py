"""Commits of explicit offsets: only for partitions that the member owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.reports import as_partition
from kafkaguard._consuming.commits import OFFSET_COMMIT
from kafkaguard.errors import ClientStateError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard_adapters.client_errors import ClientErrors


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
    others = sorted({as_partition(each) for each in places} - set(owned))
    if not others:
        return
    named = ", ".join(f"{topic}-{partition}" for topic, partition in others[:3])
    more = f" and {len(others) - 3} more" if others[3:] else ""
    raise errors.make(
        ClientStateError,
        f"this member does not own {named}{more}, and a commit would move the offset "
        "of the member that owns it; nothing was committed: commit only for assigned "
        f"partitions, {hint}",
        api=OFFSET_COMMIT,
        topic=others[0].topic,
        partition=others[0].partition,
        **theirs,
    )
