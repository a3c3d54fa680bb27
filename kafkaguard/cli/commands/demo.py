"""``kafkaguard demo``: write real flights with Spark, bare and guarded."""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkaguard.cli.demo.flights import unpack
from kafkaguard.cli.demo.run import DemoResult, run_demo
from kafkaguard.cli.group import Problem
from kafkaguard.cli.output import PlainTable, Progress, console, say
from kafkaguard.cli.spark_session import connector, java_home, spark_session
from kafkaguard.testing import ClusterError, KafkaCluster
from kafkaguard.testing.cluster.jars import kafka_jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demo(*, as_json: bool) -> None:
    """Load 336,776 real flights into Kafka with Spark's own sink and with kafkaguard.

    The last known flight of each aircraft is kept in a compacted topic. Starts a Kafka
    and a Spark of its own on this machine, and removes both. Exit code 1: something
    came out otherwise than promised.
    """
    result = _play(Progress().say)
    if as_json:
        promised = {"as_promised": result.as_promised}
        click.echo(json.dumps(asdict(result) | promised, indent=2))
    else:
        _print(result)
    sys.exit(0 if result.as_promised else 1)


def _play(say: Callable[[str], None]) -> DemoResult:
    java_home()
    with _problems(), tempfile.TemporaryDirectory(prefix="kafkaguard-demo-") as folder:
        kafka_jars()  # before Spark, which starts slowly
        file = unpack(Path(folder))
        say("Starting Spark, with its own Kafka sink")
        settings = {"spark.jars.packages": connector()}
        with spark_session("kafkaguard demo", settings=settings) as spark:
            say("Starting Kafka")
            with KafkaCluster() as cluster:
                return run_demo(cluster, spark, file, say)


@contextmanager
def _problems() -> Iterator[None]:
    """Turn an error of the cluster into one line."""
    try:
        yield
    except ClusterError as error:
        raise Problem(str(error)) from None


def _print(result: DemoResult) -> None:
    before, after = result.unguarded, result.guarded
    table = PlainTable(
        title=f"{result.flights:,} flights of 2013, {result.keyless:,} of them "
        "without an aircraft"
    )
    table.add_column()
    table.add_column("Spark's own sink", justify="right")
    table.add_column("kafkaguard", justify="right")
    right = [result.aircraft - before.wrong_last, after.latest]
    reasons = ", ".join(after.reasons)
    rows: dict[str, tuple[object, object]] = {
        "The job": (f"failed: {before.error}" if before.error else "done", "done"),
        "Records in the topic": (before.landed, after.delivered),
        "  duplicates": (before.repeated, after.repeated),
        f"Dead letters ({reasons})": ("none", after.dead_lettered),
        "Flights missing": (before.lost, after.lost),
        f"Aircraft, of {result.aircraft:,}, whose last": ("", ""),
        "  record is their last flight": (right[0], right[1]),
        "Seconds": (f"{before.seconds:.1f}", f"{after.seconds:.1f}"),
    }
    for name, values in rows.items():
        table.add_row(name, *map(_shown, values))
    console().print(table)
    say(_summary(result))


def _summary(result: DemoResult) -> str:
    if result.as_promised:
        return "Checked by reading both topics back: every flight is there, once."
    return "The result is not as expected: see the right column."


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
