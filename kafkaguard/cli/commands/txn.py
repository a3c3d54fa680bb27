"""``kafkaguard txn``: open transactions, and how to end one that holds up readers."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kafkaguard.cli.connecting import ask, connect, connection_options, print_errors
from kafkaguard.cli.group import Problem, SuggestingGroup
from kafkaguard.cli.numbers import PAUSE
from kafkaguard.cli.output import PlainTable, console, say

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaguard._cluster.transactions import OpenTransaction, TransactionsReport

_INCOMPLETE, _OLD = 1, 3


@click.group(cls=SuggestingGroup)
def txn() -> None:
    """List open transactions, and end one that holds up readers."""


@txn.command("list")
@connection_options
@click.option(
    "--older",
    type=PAUSE,
    help="Exit with 3 if a transaction is open for more than these seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_(
    ctx: click.Context,
    *,
    bootstrap_server: str | None,
    config: Path | None,
    timeout: float,
    older: float | None,
    as_json: bool,
) -> None:
    """List the open transactions of the cluster, the oldest one first.

    "Held up" counts the offsets that readers with isolation.level=read_committed do not
    get. Hanging: the partition has an open transaction that no coordinator knows, so
    nothing ends it but `kafkaguard txn abort`.

    Exit code: 0 all brokers answered, 1 some did not, 2 the cluster cannot be reached,
    3 a transaction is older than --older, or hangs.
    """
    report = _read(bootstrap_server, config, timeout)
    if as_json:
        click.echo(json.dumps(_as_data(report), indent=2))
    elif report.transactions:
        console().print(_table(report))
    else:
        say("no transaction is open" + ("" if report.complete else ", as far as known"))
    print_errors(report.errors)
    ages = [one.age(report.taken_at) for one in report.transactions]
    if any(one.is_hanging for one in report.transactions) or (
        older is not None and any(age is not None and age > older for age in ages)
    ):
        ctx.exit(_OLD)
    ctx.exit(0 if report.complete else _INCOMPLETE)


@txn.command()
@connection_options
@click.argument("name")
@click.option("--yes", is_flag=True, help="Abort without asking.")
def abort(
    *,
    bootstrap_server: str | None,
    config: Path | None,
    timeout: float,
    name: str,
    yes: bool,
) -> None:
    """Abort the open transaction NAME: a transactional id, or a producer's id.

    The producer of a transaction that a coordinator knows is fenced: it cannot commit
    any more. For one that hangs, abort markers are written.
    """
    report = _read(bootstrap_server, config, timeout)
    found = [
        one for one in report.transactions if name in (one.name, str(one.producer_id))
    ]
    if not found:
        print_errors(report.errors)
        raise Problem(
            f"no open transaction has the transactional id or producer id {name}; "
            "`kafkaguard txn list` shows those that are open"
        )
    (one, *_) = found
    how = "write abort markers for" if one.is_hanging else "fence"
    where = ", ".join(map(str, one.partitions)) or "no partition"
    if not yes:
        click.confirm(
            f"{how} {one.name} ({one.state}, {_age(one, report)}, {where})?",
            abort=True,
            err=True,
        )
    calls = connect(bootstrap_server, config)
    ask(calls.end_transaction, one, timeout)
    calls.close_view()
    done = "its markers were written" if one.is_hanging else "its producer is fenced"
    say(f"the transaction of {one.name} was aborted: {done}")


def _read(
    bootstrap_server: str | None, config: Path | None, timeout: float
) -> TransactionsReport:
    calls = connect(bootstrap_server, config)
    report: TransactionsReport = ask(calls.open_transactions, timeout)
    calls.close_view()
    return report


def _age(one: OpenTransaction, report: TransactionsReport) -> str:
    age = one.age(report.taken_at)
    return "age unknown" if age is None else f"{age:,.0f} s"


def _table(report: TransactionsReport) -> PlainTable:
    clock = time.strftime("%H:%M:%S", time.localtime(report.taken_at))
    table = PlainTable(title=f"Open transactions at {clock}")
    for heading in ("Id", "State", "Age", "Limit", "Producer", "Partitions"):
        table.add_column(heading, overflow="fold")
    table.add_column("Held up", justify="right")
    table.leave_out("Producer", "Limit")
    for one in report.transactions:
        table.add_row(
            one.name,
            one.state,
            _age(one, report),
            "" if one.timeout is None else f"{one.timeout:,.0f} s",
            f"{one.producer_id}, epoch {one.epoch}",
            ", ".join(map(str, one.partitions)),
            f"{sum(one.blocked.values()):,}",
        )
    return table


def _as_data(report: TransactionsReport) -> dict[str, Any]:
    return {
        "taken_at": report.taken_at,
        "complete": report.complete,
        "errors": [str(error) for error in report.errors],
        "transactions": [
            {
                **{
                    name: value
                    for name, value in asdict(one).items()
                    if name not in ("blocked", "producers", "partitions")
                },
                "age": one.age(report.taken_at),
                "partitions": [
                    {**place._asdict(), "held_up": one.blocked.get(place)}
                    for place in one.partitions
                ],
            }
            for one in report.transactions
        ],
    }
