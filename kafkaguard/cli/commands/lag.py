"""``kafkaguard lag``: who is behind, and by how much; live, or as a picture."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from kafkaguard._cluster.lag import NO_SUCH_GROUP, LagReason, LagState, group_state
from kafkaguard.cli.connecting import ask, connect, connection_options, tell
from kafkaguard.cli.lag_picture import check_writable, lag_picture
from kafkaguard.cli.numbers import AMOUNT, COUNT, PAUSE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from kafkaguard._cluster.lag import GroupLag, LagReport, PartitionLag
    from kafkaguard_adapters.asking.cluster_calls import ClusterCalls

_INCOMPLETE = 1
_BEHIND = 3
_COLUMNS = ("log_start", "last_stable", "time", "members", "facts")
_STYLES = {
    LagState.OK: "green",
    LagState.LAGGING: "yellow",
    LagState.STALLED: "red",
    LagState.STOPPED: "red",
    LagState.ERROR: "bold red",
}


@click.command()
@connection_options
@click.argument("groups", nargs=-1)
@click.option("--topic", "topics", multiple=True, help="Only this; may be repeated.")
@click.option(
    "--read-committed", is_flag=True, help="Measure to the last stable offset."
)
@click.option(
    "--assume",
    type=click.Choice(["earliest", "latest"]),
    help="Where a reader without a commit begins.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    type=click.Choice(_COLUMNS),
    help="More, by partition; may be repeated. Each costs requests.",
)
@click.option("--partitions", is_flag=True, help="A row for each partition.")
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option(
    "--interval",
    type=PAUSE,
    default=5.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--looks", type=COUNT, help="End --watch after so many.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Watch, and write a picture of lag over time (SVG) here.",
)
@click.option(
    "--max", "limit", type=AMOUNT, help="Exit with 3 if a group is further behind."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, a line for each look."
)
@click.pass_context
def lag(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    *,
    bootstrap_servers: str | None,
    config: Path | None,
    timeout: float,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    read_committed: bool,
    assume: str | None,
    columns: tuple[str, ...],
    partitions: bool,
    watch: bool,
    interval: float,
    looks: int | None,
    plot: Path | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show how far GROUPS (default: all) are behind, in offsets.

    Exit code: 0 all brokers answered, 1 some refused something or what was named is not
    there, 2 the cluster cannot be asked, 3 a group is further behind than --max.
    """
    if looks is not None and not (watch or plot):
        raise click.UsageError("--looks is the end of --watch or --plot: give one")
    if plot is not None:
        check_writable(plot)
    calls = connect(bootstrap_servers, config)
    question = {
        "groups": groups or None,
        "topics": topics or None,
        "isolation": "read_committed" if read_committed else "read_uncommitted",
        "assume": assume,
        "columns": columns,
        "timeout": timeout,
    }
    wanted = looks if watch or plot else 1
    history: list[LagReport] = []

    def remarks(report: LagReport) -> list[str]:
        return _missing(report, groups, topics) + _unmeasured(report, limit)

    seen = _looks(calls, question, interval, wanted)
    try:
        _show(
            seen,
            history,
            partitions=partitions or bool(columns),
            as_json=as_json,
            live=wanted != 1,
            remarks=remarks,
        )
    except KeyboardInterrupt:
        if not history:
            raise
    finally:
        calls.close_view()
    if plot is not None:
        plot.write_text(_plot(history))
        click.echo(f"wrote {plot}", err=True)
    missing = remarks(history[-1])
    for text in missing:
        click.echo(text, err=True)
    is_limited = bool(groups or topics or limit is not None)
    ctx.exit(_exit_code(history[-1], limit) or (is_limited and bool(missing)))


def _looks(
    calls: ClusterCalls, question: dict[str, Any], interval: float, count: int | None
) -> Iterator[LagReport]:
    """Look again and again; the interval counts from look to look."""
    done = 0
    while True:
        started = time.monotonic()
        yield ask(calls.lag, **question)
        done += 1
        if done == count:
            return
        time.sleep(max(0.0, started + interval - time.monotonic()))


def _show(
    seen: Iterator[LagReport],
    history: list[LagReport],
    *,
    partitions: bool,
    as_json: bool,
    live: bool,
    remarks: Callable[[LagReport], list[str]],
) -> None:
    def draw(report: LagReport) -> RenderableType:
        earlier = history[-1] if history else None
        history.append(report)
        return _table(report, earlier, partitions=partitions)

    if as_json:
        for report in seen:
            states = report.states(history[-1]) if history else {}
            history.append(report)
            data = _as_data(report, states)
            click.echo(json.dumps({**data, "remarks": remarks(report)}))
    elif live:
        with Live(console=Console(), auto_refresh=False) as screen:
            for report in seen:
                screen.update(draw(report), refresh=True)
    else:
        Console().print(draw(next(seen)))
    tell(history[-1].errors)


def _missing(
    report: LagReport, groups: tuple[str, ...], topics: tuple[str, ...]
) -> list[str]:
    """Say what was named and is not there, so that nobody takes it for 0."""
    hidden = "or this user may not see it (the operation Describe)"
    if not groups and not topics and not report.groups:
        return [f"there is no group with a commit, {hidden}"]
    seen = {
        place.topic
        for group in report.groups.values()
        for place, each in group.partitions.items()
        if each.reason is not LagReason.GONE
    }
    unknown = [n for n in groups if report.groups[n].state == NO_SUCH_GROUP]
    return [f"there is no group {name}, {hidden}" for name in unknown] + [
        f"topic {name}: there is none, or no such group has read it"
        for name in topics
        if name not in seen
    ]


def _unmeasured(report: LagReport, limit: int | None) -> list[str]:
    """Say where an alarm has nothing to go by, so that nobody takes it for green."""
    if limit is None or not report.complete:
        return []
    if any(group.total is not None for group in report.groups.values()):
        return []
    return [f"--max {limit}: no lag was measured, so nothing is known to be within it"]


def _exit_code(report: LagReport, limit: int | None) -> int:
    if limit is not None and any(
        group.total is not None and group.total > limit
        for group in report.groups.values()
    ):
        return _BEHIND
    return 0 if report.complete else _INCOMPLETE


def _plot(history: list[LagReport]) -> str:
    names = sorted({name for report in history for name in report.groups})
    totals = {
        name: [r.groups[name].total if name in r.groups else None for r in history]
        for name in names
    }
    return lag_picture([report.taken_at for report in history], totals)


def _table(
    report: LagReport, earlier: LagReport | None, *, partitions: bool
) -> RenderableType:
    taken = time.strftime("%H:%M:%S", time.localtime(report.taken_at))
    table = Table(title=f"Lag in offsets at {taken}")
    table.add_column("Group", overflow="fold")
    if partitions:
        table.add_column("Partition", overflow="fold")
        for name in ("Committed", "End"):
            table.add_column(name, justify="right", overflow="fold")
    table.add_column("Lag", justify="right", overflow="fold")
    table.add_column("State", overflow="fold")
    table.add_column("Remarks", overflow="fold")
    for name, group in sorted(report.groups.items()):
        state = _state(group, earlier)
        if not partitions or not group.partitions:
            blanks = [""] * (3 if partitions else 0)
            table.add_row(name, *blanks, _total(group), state, _remarks(group))
            continue
        for each in group.partitions.values():
            table.add_row(name, *_row(each, state))
    return table


def _state(group: GroupLag, earlier: LagReport | None) -> str:
    """Say a group's state; one look is not enough to see it move."""
    if earlier is None:
        return group.state or ""
    state = group_state(earlier.groups.get(group.group), group)
    return f"[{_STYLES[state]}]{state}[/]"


def _total(group: GroupLag) -> str:
    """Write a group's lag; nothing where no partition has one."""
    return "" if group.total is None else str(group.total)


def _remarks(group: GroupLag) -> str:
    if group.error is not None:
        return group.error.name
    if group.reason is not None:
        return group.reason
    reasons: dict[str, int] = {}
    for each in group.partitions.values():
        if each.reason is not None:
            reasons[each.reason] = reasons.get(each.reason, 0) + 1
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items())


def _row(each: PartitionLag, state: str) -> list[str]:
    reason = [] if each.reason is None else [str(each.reason)]
    errors = [e.name for e in (each.read_error, each.error) if e is not None]
    return [
        f"{each.topic}-{each.partition}",
        *("" if n is None else str(n) for n in (each.committed, each.end, each.lag)),
        state,
        "; ".join([*reason, *_extras(each), *errors, *each.notes]),
    ]


def _extras(each: PartitionLag) -> list[str]:
    """Write what further columns have told."""
    member = each.member
    told = {
        "{} lost to retention": each.lost or None,
        "log start {}": each.log_start,
        "{} wait for transactions": each.blocked or None,
        "last stable {}": each.last_stable,
        "{:.0f} s behind": each.time_lag,
        "{}": member and f"{member.client_id} at {member.host}",
        "{}compacted": _not(each.compacted),
        "{}tiered": _not(each.tiered),
    }
    return [text.format(value) for text, value in told.items() if value is not None]


def _not(value: bool | None) -> str | None:
    return None if value is None else "" if value else "not "


def _as_data(report: LagReport, states: dict[str, LagState]) -> dict[str, Any]:
    return {
        "taken_at": report.taken_at,
        "complete": report.complete,
        "broker_errors": {b: str(e) for b, e in report.broker_errors.items()},
        "groups": [
            {
                "group": name,
                "state": group.state,
                "lag_state": states.get(name),
                "total": group.total,
                "unknown": group.unknown,
                "reason": group.reason,
                "error": None if group.error is None else str(group.error),
                "partitions": [_partition(each) for each in group.partitions.values()],
            }
            for name, group in sorted(report.groups.items())
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
        "time_lag": each.time_lag,
        "read_error": None if each.read_error is None else str(each.read_error),
        "compacted": each.compacted,
        "tiered": each.tiered,
        "member": None if each.member is None else each.member.client_id,
        "host": None if each.member is None else each.member.host,
        "notes": each.notes,
    }
