"""A lag report as a table and as JSON."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.lag import LagReason, LagState, group_state, partition_states
from kafkaguard.cli.output import PlainTable, styled

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kafkaguard._cluster.lag import GroupLag, LagReport, PartitionLag
    from kafkaguard._cluster.reports import TopicPartition

_STYLES = {
    LagState.LEFT: "dim",
    LagState.OK: "green",
    LagState.LAGGING: "yellow",
    LagState.STALLED: "red",
    LagState.STOPPED: "red",
    LagState.ERROR: "bold red",
}

#: Reasons whose word alone does not say what happened.
_IN_WORDS = {
    LagReason.GONE: "not there",
    LagReason.LEFT: "left (the group reads other topics)",
}


def table(
    report: LagReport,
    earlier: LagReport | None,
    *,
    partitions: bool,
    columns: tuple[str, ...] = (),
    watched: bool = False,
) -> PlainTable:
    """Make a table of a report.

    Args:
        report: The report.
        earlier: The previous report, or None.
        partitions: Whether each partition has a row.
        columns: The requested additional columns.
        watched: Whether there is a column for kafkaguard's own states, which need two
            reports.
    """
    clock_time = time.strftime("%H:%M:%S", time.localtime(report.taken_at))
    lag_table = PlainTable(title=f"Lag in offsets at {clock_time}")
    lag_table.add_column("Group", overflow="fold")
    if partitions:
        lag_table.add_column("Partition", overflow="fold")
        for name in ("Committed", "End"):
            lag_table.add_column(name, justify="right", overflow="fold")
    lag_table.add_column("Lag", justify="right", overflow="fold")
    lag_table.add_column("Group state", overflow="fold")
    if watched:
        lag_table.add_column("State", overflow="fold")
    lag_table.add_column("Remarks", overflow="fold")
    for name, group in sorted(report.groups.items()):
        before = None if earlier is None else earlier.groups.get(name)
        states: dict[TopicPartition, LagState] = {}
        if earlier is not None:
            states = partition_states(before, group)
        kafka_state = group.state or ""
        if not partitions or not group.partitions:
            blanks = [""] * (3 if partitions else 0)
            state = None if earlier is None else group_state(before, group)
            cells = _states(kafka_state, state, watched=watched)
            lag_table.add_row(name, *blanks, _total(group), *cells, _remarks(group))
            continue
        for place, each in group.partitions.items():
            cells = _states(kafka_state, states.get(place), watched=watched)
            lag_table.add_row(
                name, *_numbers(each), *cells, _describe_partition(each, columns)
            )
    return lag_table


def _states(
    kafka_state: str, state: LagState | None, *, watched: bool
) -> list[RenderableType]:
    """Return the cells for Kafka's group state and, if watched, kafkaguard's state."""
    cell = "" if state is None else styled(state, _STYLES[state])
    return [kafka_state, cell] if watched else [kafka_state]


def _total(group: GroupLag) -> str:
    """Return a group's lag as text; empty if no partition has a lag."""
    return "" if group.total is None else str(group.total)


def _remarks(group: GroupLag) -> str:
    if group.error is not None:
        return group.error.name
    if group.reason is not None:
        return group.reason
    places = group.partitions.values()
    present = {each.topic for each in places if each.reason is not LagReason.GONE}
    missing_topics = sorted({each.topic for each in places} - present)
    counts = Counter(each.reason for each in places if each.topic in present)
    return "; ".join(
        [
            *(f"topic {topic} is not there" for topic in missing_topics),
            *(_count_text(count, reason) for reason, count in counts.items() if reason),
            *_lost([each.lost for each in places if each.lost]),
        ]
    )


def _lost(counts: list[int]) -> list[str]:
    """Say how many offsets of a group are gone, if there are any."""
    if not counts:
        return []
    text = f"{sum(counts)} offsets are gone unread"
    return [f"{_partitions(len(counts))}: {text} (retention, deletion)"]


def _count_text(count: int, reason: LagReason) -> str:
    return f"{_partitions(count)}: {_IN_WORDS.get(reason, reason)}"


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _numbers(each: PartitionLag) -> list[str]:
    numbers = (each.committed, each.end, each.lag)
    return [
        f"{each.topic}-{each.partition}",
        *("" if n is None else str(n) for n in numbers),
    ]


def _describe_partition(each: PartitionLag, columns: tuple[str, ...]) -> str:
    """Write the reason, what columns have told, errors and notes."""
    reason = [] if each.reason is None else [_IN_WORDS.get(each.reason, each.reason)]
    errors = [e.name for e in (each.read_error, each.error) if e is not None]
    return "; ".join([*reason, *_describe_columns(each, columns), *errors, *each.notes])


def _describe_columns(each: PartitionLag, columns: tuple[str, ...]) -> list[str]:
    member = each.member
    parts = {
        "log start {}": each.log_start if "log_start" in columns else None,
        "{} wait for transactions": each.blocked or None,
        "last stable {}": each.last_stable,
        "{:.0f} s behind": each.time_lag,
        "{}": member and f"{member.client_id} at {member.host}",
        "{}compacted": _not(each.compacted),
        "{}tiered": _not(each.tiered),
    }
    return [text.format(value) for text, value in parts.items() if value is not None]


def _not(value: bool | None) -> str | None:
    return None if value is None else "" if value else "not "


def as_data(report: LagReport, earlier: LagReport | None) -> dict[str, Any]:
    """Return a report as data for JSON; ``lag_state`` needs an earlier report."""
    return {
        "taken_at": report.taken_at,
        "complete": report.complete,
        "sees_all_groups": report.sees_all_groups,
        "sees_all_topics": report.sees_all_topics,
        "broker_errors": {b: str(e) for b, e in report.broker_errors.items()},
        "groups": [
            _group(group, earlier) for _, group in sorted(report.groups.items())
        ],
    }


def _group(group: GroupLag, earlier: LagReport | None) -> dict[str, Any]:
    before = None if earlier is None else earlier.groups.get(group.group)
    states = partition_states(before, group)
    return {
        "group": group.group,
        "state": group.state,
        "lag_state": None if earlier is None else group_state(before, group),
        "total": group.total,
        "unknown": group.unknown,
        "reason": group.reason,
        "error": None if group.error is None else str(group.error),
        "partitions": [
            {
                **_partition(each),
                "lag_state": None if earlier is None else states[place],
            }
            for place, each in group.partitions.items()
        ],
    }


def _partition(each: PartitionLag) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "committed": each.committed,
        "end": each.end,
        "lag": each.lag,
        "reason": each.reason,
        "error": None if each.error is None else str(each.error),
        "log_start": each.log_start,
        "lost": each.lost,
        "high_watermark": each.high_watermark,
        "last_stable": each.last_stable,
        "blocked": each.blocked,
        "marker": each.marker,
        "has_record": each.has_record,
        "next_timestamp": each.next_timestamp,
        "time_lag": each.time_lag,
        "time_reason": each.time_reason,
        "read_error": None if each.read_error is None else str(each.read_error),
        "compacted": each.compacted,
        "tiered": each.tiered,
        "member": None if each.member is None else each.member.client_id,
        "host": None if each.member is None else each.member.host,
        "notes": each.notes,
    }
