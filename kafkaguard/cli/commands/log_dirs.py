"""``kafkaguard log-dirs``: disks of all brokers, and how full they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal

from kafkaguard.cli.connecting import ask, connect, connection_options, print_errors
from kafkaguard.cli.numbers import AMOUNT, PERCENT
from kafkaguard.cli.output import PlainTable, console, say

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaguard._cluster.log_dirs import LogDirsReport

_INCOMPLETE = 1
_FULL = 3


@click.command("log-dirs")
@connection_options
@click.option(
    "--topic", "topics", multiple=True, help="Only this topic; may be repeated."
)
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    type=AMOUNT,
    help="Only this broker; may be repeated.",
)
@click.option(
    "--full",
    type=PERCENT,
    help="Exit with 3 if a disk is fuller than this, in percent.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def log_dirs(
    ctx: click.Context,
    *,
    bootstrap_server: str | None,
    config: Path | None,
    timeout: float,
    topics: tuple[str, ...],
    brokers: tuple[int, ...],
    full: float | None,
    as_json: bool,
) -> None:
    """Show the log directories of all brokers, and how full their disks are.

    Exit code: 0 all brokers answered, 1 a broker did not answer, a directory is offline
    or a topic is not there, 2 the cluster cannot be reached, 3 a disk is fuller than
    --full.
    """
    calls = connect(bootstrap_server, config)
    report = ask(calls.log_dirs, topics or None, brokers or None, timeout)
    calls.close_view()
    missing_topics = [
        f"topic {name}: there is none, or this user may not see it"
        for name in topics
        if report.complete and not _has_topic(report, name)
    ]
    too_full = _list_full_disks(report, full)
    if as_json:
        remarks = [*missing_topics, *too_full]
        click.echo(json.dumps({**_as_data(report), "remarks": remarks}, indent=2))
    else:
        _print(report)
    for text in (*missing_topics, *too_full):
        say(text, err=True)
    if too_full:
        ctx.exit(_FULL)
    ctx.exit(_INCOMPLETE if missing_topics or not report.complete else 0)


def _has_topic(report: LogDirsReport, topic: str) -> bool:
    return any(
        replica.topic == topic
        for broker in report.brokers.values()
        for each in broker.dirs.values()
        for replica in (*each.replicas, *each.future_replicas)
    )


def _list_full_disks(report: LogDirsReport, full: float | None) -> list[str]:
    """Return a message for each disk that is fuller than the limit."""
    return [
        f"--full {full:g}: {each.used:.1%} of {each.path} on broker {broker.broker}"
        for broker in report.brokers.values()
        for each in broker.dirs.values()
        if full is not None and each.used is not None and each.used * 100 > full
    ]


def _print(report: LogDirsReport) -> None:
    table = PlainTable(title="Log directories")
    for name in ("Broker", "Directory"):
        table.add_column(name, overflow="fold")
    for name in ("Replicas", "Size", "Disk", "Free", "Used"):
        table.add_column(name, justify="right")
    for broker in report.brokers.values():
        for each in broker.dirs.values():
            table.add_row(
                str(broker.broker),
                each.path,
                "" if each.error else str(len(each.replicas)),
                *map(_bytes, (each.size, each.total_bytes, each.usable_bytes)),
                "offline" if each.error else _percent(each.used),
            )
    console().print(table)
    print_errors(report.errors)


def _bytes(size: int | None) -> str:
    return "" if size is None else decimal(size)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def _as_data(report: LogDirsReport) -> dict[str, Any]:
    return {
        "complete": report.complete,
        "error": None if report.registry_error is None else str(report.registry_error),
        "brokers": [
            {
                "broker": broker.broker,
                "version": broker.version,
                "error": None if broker.error is None else str(broker.error),
                "code": None if broker.error is None else broker.error.code,
                "is_concluded": broker.is_concluded,
                "dirs": [
                    {
                        "path": each.path,
                        "error": None if each.error is None else str(each.error),
                        "total_bytes": each.total_bytes,
                        "usable_bytes": each.usable_bytes,
                        "size": each.size,
                        "replicas": [
                            {
                                "topic": replica.topic,
                                "partition": replica.partition,
                                "size": replica.size,
                                "offset_lag": replica.offset_lag,
                                "is_future": replica.is_future,
                            }
                            for replica in (*each.replicas, *each.future_replicas)
                        ],
                    }
                    for each in broker.dirs.values()
                ],
            }
            for broker in report.brokers.values()
        ],
    }
