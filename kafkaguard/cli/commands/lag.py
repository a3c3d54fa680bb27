"""``kafkaguard lag``: lag of consumer groups, once or live."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click
from rich.live import Live

from kafkaguard._cluster.lag import NO_SUCH_GROUP, LagReason
from kafkaguard._common.closest import did_you_mean
from kafkaguard.cli.connecting import ask, connect, connection_options, print_errors
from kafkaguard.cli.lag_table import as_data, table
from kafkaguard.cli.numbers import AMOUNT, COUNT, PAUSE
from kafkaguard.cli.output import console, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkaguard._cluster.lag import LagReport
    from kafkaguard_adapters.asking.cluster_calls import ClusterCalls

_INCOMPLETE = 1
_BEHIND = 3
_COLUMNS = ("log_start", "last_stable", "time", "members", "facts")


@click.command()
@connection_options
@click.argument("groups", nargs=-1)
@click.option(
    "--topic", "topics", multiple=True, help="Only this topic; may be repeated."
)
@click.option(
    "--read-committed", is_flag=True, help="Measure up to the last stable offset."
)
@click.option(
    "--assume",
    type=click.Choice(["earliest", "latest"]),
    help="Count a partition without a commit from there.",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    type=click.Choice(_COLUMNS),
    help="Add a column to each partition; may be repeated. Each costs requests.",
)
@click.option("--partitions", is_flag=True, help="Print a row for each partition.")
@click.option("--watch", is_flag=True, help="Measure again and again until Ctrl-C.")
@click.option(
    "--interval",
    type=PAUSE,
    default=5.0,
    show_default=True,
    help="Seconds between two measurements.",
)
@click.option("--looks", type=COUNT, help="End --watch after this many measurements.")
@click.option(
    "--max",
    "max_lag",
    type=AMOUNT,
    help="Exit with 3 if a group has more lag than this.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print a line of JSON for each measurement."
)
@click.pass_context
def lag(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    *,
    bootstrap_server: str | None,
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
    max_lag: int | None,
    as_json: bool,
) -> None:
    """Show the lag of GROUPS (default: all groups), in offsets.

    "Group state" is Kafka's state of the group. With --watch, "State" compares two
    measurements: OK, LAGGING, STALLED, STOPPED, LEFT or ERROR.

    Exit code: 0 everything was measured, 1 a broker refused something, a group or topic
    is not there, or this user may see no group, 2 the cluster cannot be reached, 3 a
    group has more lag than --max.
    """
    if looks is not None and not watch:
        raise click.UsageError("--looks ends --watch: give that, too")
    calls = connect(bootstrap_server, config)
    question = {
        "groups": groups or None,
        "topics": topics or None,
        "isolation": "read_committed" if read_committed else "read_uncommitted",
        "assume": assume,
        "columns": columns,
        "timeout": timeout,
    }
    count = looks if watch else 1
    history: list[LagReport] = []

    def remarks(report: LagReport) -> list[str]:
        texts = _list_missing(report, groups, topics)
        return [
            *texts,
            *_note_unmeasured(report, max_lag),
            *_list_groups_behind(report, max_lag),
        ]

    reports = _measure_repeatedly(calls, question, interval, count)
    try:
        _show(
            reports,
            history,
            partitions=partitions or bool(columns),
            columns=columns,
            as_json=as_json,
            live=count != 1,
            remarks=remarks,
        )
    except KeyboardInterrupt:
        if not history:
            raise
    finally:
        calls.close_view()
    last = history[-1]
    for text in (*remarks(last), *_note_what_is_hidden(last, topics)):
        say(text, err=True)
    has_missing = _list_missing(last, groups, topics) or _note_unmeasured(last, max_lag)
    if _list_groups_behind(last, max_lag):
        ctx.exit(_BEHIND)
    ctx.exit(_INCOMPLETE if has_missing or not last.complete else 0)


def _measure_repeatedly(
    calls: ClusterCalls, question: dict[str, Any], interval: float, count: int | None
) -> Iterator[LagReport]:
    """Measure repeatedly; the interval counts between the starts of measurements."""
    number = 0
    while True:
        started = time.monotonic()
        yield ask(calls.lag, **question)
        number += 1
        if number == count:
            return
        time.sleep(max(0.0, started + interval - time.monotonic()))


def _show(
    reports: Iterator[LagReport],
    history: list[LagReport],
    *,
    partitions: bool,
    columns: tuple[str, ...],
    as_json: bool,
    live: bool,
    remarks: Callable[[LagReport], list[str]],
) -> None:
    def draw(report: LagReport) -> Any:
        earlier = history[-1] if history else None
        history.append(report)
        return table(
            report, earlier, partitions=partitions, columns=columns, watched=live
        )

    if as_json:
        for report in reports:
            data = as_data(report, history[-1] if history else None)
            history.append(report)
            click.echo(json.dumps({**data, "remarks": remarks(report)}))
    elif live:
        with Live(console=console(), auto_refresh=False) as screen:
            for report in reports:
                screen.update(draw(report), refresh=True)
    else:
        lag_table = draw(next(reports))
        if history[-1].groups:
            console().print(lag_table)
    print_errors(history[-1].errors)


def _list_missing(
    report: LagReport, groups: tuple[str, ...], topics: tuple[str, ...]
) -> list[str]:
    """Return messages about named groups and topics that do not exist.

    Without them a user could take the missing lag for 0.
    """
    hidden = "or this user may not see it (the operation Describe)"
    if not groups and not topics and not report.groups:
        if report.sees_all_groups or report.errors:
            return []
        return [f"there is no group with a commit, {hidden}"]
    unknown = [n for n in groups if report.groups[n].state == NO_SUCH_GROUP]
    return [f"there is no group {name}, {hidden}" for name in unknown] + [
        f"{text}{did_you_mean(name, report.committed_topics - {name})}"
        for name in topics
        if (text := _explain_missing_topic(report, groups, name))
    ]


def _explain_missing_topic(
    report: LagReport, groups: tuple[str, ...], name: str
) -> str | None:
    """Say why the report has no lag of a topic; None if it has, or has an error."""
    reasons = {
        each.reason
        for group in report.groups.values()
        for each in group.partitions.values()
        if each.topic == name
    }
    if reasons == {LagReason.GONE}:
        hidden = "or this user may not see it (the operation Describe)"
        return f"there is no topic {name}, {hidden}"
    if reasons or groups:
        return None
    qualifier = " whose offsets could be read" if report.errors else ""
    if report.sees_all_groups is False:
        qualifier = " that this user may Describe"
    return f"no group{qualifier} has committed offsets for topic {name}"


def _note_what_is_hidden(report: LagReport, topics: tuple[str, ...]) -> list[str]:
    """Say that a report has only the groups and topics that this user may see."""
    notes = []
    if report.sees_all_groups is False and report.groups:
        notes.append(
            "these are the groups that this user may Describe; there may be others"
        )
    if report.sees_all_topics is False and report.groups:
        notes.append(
            "brokers leave out topics that this user may not Describe, so lag may be "
            "missing: grant Describe on all topics, or name the topics with --topic"
        )
    if notes:
        return notes
    is_empty = report.complete and not report.groups and not topics
    if report.sees_all_groups and is_empty:
        return ["the cluster has no group with a commit"]
    return []


def _note_unmeasured(report: LagReport, max_lag: int | None) -> list[str]:
    """Return a message if ``--max`` cannot be checked, because there is no lag."""
    if max_lag is None or report.errors:
        return []
    if any(group.total is not None for group in report.groups.values()):
        return []
    return [(f"--max {max_lag}: no lag was measured, so the limit cannot be checked")]


def _list_groups_behind(report: LagReport, max_lag: int | None) -> list[str]:
    """Return a message for each group whose lag is above the limit."""
    return [
        f"--max {max_lag}: group {name} is {group.total} offsets behind"
        for name, group in sorted(report.groups.items())
        if max_lag is not None and group.total is not None and group.total > max_lag
    ]
