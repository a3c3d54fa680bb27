"""Where a new group begins at the end of the log: the offset that nobody has committed.

With ``latest`` a consumer without a committed offset begins at the end, and the next
owner of its partition does so too, as long as nothing is committed. What arrives in
between is read by none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.logs import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._cluster.reports import TopicPartition

_log = Log("consumer")


class GroupStarts:
    """Commits the first offset of each partition, or warns once that nobody does.

    Args:
        group: The consumer's group; None: it has none, and commits nothing.
        reset: Where the client begins without a commit.
        commits_itself: Whether the client, or the guard, commits without being asked.
        commit: Commits offsets, without raising an error.
    """

    def __init__(
        self,
        group: str | None,
        reset: str | None,
        *,
        commits_itself: bool,
        commit: Callable[[dict[TopicPartition, int]], object],
    ) -> None:
        self._group = group
        self.commits_itself = commits_itself
        self._commit = commit
        #: Whether a partition without a commit matters, and nothing was said about it.
        self.matters = bool(group) and reset == "latest"

    def found(self, starts: Mapping[TopicPartition, int]) -> None:
        """Record where reading begins in partitions without a committed offset."""
        if not starts or not self.matters:
            return
        if self.commits_itself:
            self._commit(dict(starts))
            return
        self.matters = False
        _log.warning(
            "group_without_commit",
            "group %s has no committed offset for %s and begins at the end of the log "
            "(auto.offset.reset=latest). If this consumer ends before the first "
            "commit, nobody reads what has arrived by then: commit right after the "
            "assignment, or use earliest",
            self._group,
            ", ".join(f"{topic}-{number}" for topic, number in sorted(starts)[:3]),
            group=self._group,
        )
