"""``kafkaguard once``: show and settle what Spark has written exactly once."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from kafkaguard.cli.connecting import (
    ask,
    bootstrap_option,
    client_settings,
    config_option,
)
from kafkaguard.cli.group import Problem, SuggestingGroup
from kafkaguard.cli.numbers import AMOUNT
from kafkaguard.cli.output import PlainTable, console, say
from kafkaguard_adapters.spark.once.offsets import Home, Offsets
from kafkaguard_adapters.spark.once.rules import (
    ANY,
    NOTHING,
    ForeignError,
    Plan,
    RefusedError,
    play,
    settle,
)
from kafkaguard_adapters.spark.once.transaction import Transaction, open_producer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkaguard_adapters.spark.once.rules import Marker, Step

#: Seconds after which brokers abort a transaction of a command.
_TIMEOUT_S = 60.0
_TOPIC = click.option(
    "--marker-topic",
    metavar="TOPIC",
    help="The topic of the markers, if none is left. Default: where they are.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.argument("name")(_JSON(command))
    return bootstrap_option(config_option(command))


@click.group(cls=SuggestingGroup)
def once() -> None:
    """Show and settle what Spark has written exactly once.

    NAME is what `exactly_once` names. Stop the Spark job before you settle its batch.
    """


@once.command()
@_options
@click.pass_context
def show(
    ctx: click.Context,
    *,
    bootstrap_server: str | None,
    config: Path | None,
    name: str,
    as_json: bool,
) -> None:
    """Show the plan of a name, and what each of its shards has written last.

    Exit code: 0 there is something, 1 nothing is left, 2 it cannot be read.
    """
    offsets = ask(Offsets, client_settings(bootstrap_server, config))
    home = _ask(offsets.find, name)
    plan, markers = None, {}
    if home is not None:
        plan, markers, home = _ask(offsets.look, home, None, stable=False)
    if as_json:
        click.echo(json.dumps(_as_data(home, plan, markers), indent=2))
    elif home is None:
        say(f"{name}: no plan and no marker is left", err=True)
    else:
        _print(home, plan, markers)
    ctx.exit(0 if home else 1)


@once.command()
@_options
@click.option(
    "--batch",
    type=AMOUNT,
    required=True,
    help="The batch; 0 of a job that is no stream.",
)
@click.option(
    "--shard",
    "chosen",
    type=AMOUNT,
    multiple=True,
    help="Only this shard; may be repeated. Default: all.",
)
@click.option("--shards", type=AMOUNT, default=0, help="How many, if no plan is left.")
@_TOPIC
def accept(
    *,
    bootstrap_server: str | None,
    config: Path | None,
    name: str,
    as_json: bool,
    batch: int,
    chosen: tuple[int, ...],
    shards: int,
    marker_topic: str | None,
) -> None:
    """Take shards of a batch as written.

    A repeated write skips them, whatever rows they have, and writes the others that
    have no marker of the batch.
    """
    client = client_settings(bootstrap_server, config)
    plan = _settle(client, name, marker_topic, (batch, shards, chosen or None))
    _tell(plan, f"{name}: shards of batch {batch} count as written", as_json=as_json)


@once.command()
@_options
@_TOPIC
def forget(
    *,
    bootstrap_server: str | None,
    config: Path | None,
    name: str,
    as_json: bool,
    marker_topic: str | None,
) -> None:
    """Begin a name anew: nothing counts as written, so a repeat writes all rows."""
    client = client_settings(bootstrap_server, config)
    plan = _settle(client, name, marker_topic, (NOTHING, 0, None))
    _tell(plan, f"{name}: nothing counts as written", as_json=as_json)


def _ask(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return ask(call, *arguments, **options)
    except (ForeignError, RefusedError) as error:
        raise Problem(str(error)) from error


def _settle(
    client: dict[str, str],
    name: str,
    topic: str | None,
    what: tuple[int, int, tuple[int, ...] | None],
) -> Plan:
    """Run the flow that settles a name.

    Args:
        client: The client's settings.
        name: The name.
        topic: The topic of the markers, if none is left.
        what: The batch, the number of shards if no plan is left, and the shards.
    """
    offsets: Offsets = ask(Offsets, client)
    home: Home | None = _ask(offsets.find, name)
    if home is None and topic is not None:
        home = Home(name, topic, _ask(offsets.count_partitions, topic))
    if home is None:
        raise Problem(f"{name}: no plan and no marker is left: give --marker-topic")
    now, (batch, shards, chosen) = int(time.time()), what
    wish = Plan(uuid4().hex[:16], ANY, batch, shards, home.width, ANY, now, now)
    make = _Maker(client, offsets, home).make
    plan: Plan = _ask(partial(play, settle(wish, chosen), make))
    return plan


class _Maker:
    """Makes the steps of a command."""

    def __init__(self, client: dict[str, str], offsets: Offsets, home: Home) -> None:
        self._client = client
        self._offsets = offsets
        self._home = home
        self._transaction: Transaction | None = None

    def make(self, step: Step) -> Any:
        """Make a step."""
        if step.do == "look":
            plan, markers, self._home = self._offsets.look(
                self._home, None, stable=False
            )
            return plan, markers
        if step.do == "init":
            self._transaction = open_producer(
                self._client, self._home, step.shard, _TIMEOUT_S
            )
            self._transaction.init()
        elif self._transaction is not None and step.entry is not None:
            self._transaction.commit(step.entry)
        return None


def _tell(plan: Plan, text: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(plan._asdict(), indent=2))
    else:
        say(text)


def _as_data(
    home: Home | None, plan: Plan | None, markers: dict[int, Marker]
) -> dict[str, Any]:
    return {
        "marker_topic": home and home.topic,
        "plan": plan and plan._asdict(),
        "markers": {shard: each._asdict() for shard, each in sorted(markers.items())},
    }


def _print(home: Home, plan: Plan | None, markers: dict[int, Marker]) -> None:
    text = "no plan is left"
    if plan is not None:
        text = (
            f"batch {plan.batch} of query {plan.query} was planned {_date(plan.time)} "
            f"(first {_date(plan.first)}) in {plan.shards} shards"
        )
    say(f"{home.name}: {text}; markers are on topic {home.topic}")
    table = PlainTable("Shard", "Batch", "Rows", "Digest", "Written")
    for shard, each in sorted(markers.items()):
        cells = shard, each.batch, each.rows, each.digest, _date(each.time)
        table.add_row(*map(str, cells))
    console().print(table)


def _date(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
