"""``kafkaguard broker``: a real Kafka until Ctrl-C."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from kafkaguard.testing import ClusterError, KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LOOK_EVERY_S = 0.5


def _pairs(separator: str) -> Callable[..., dict[str, str]]:
    """Make a callback that splits each value of an option at a separator."""

    def split(
        _: click.Context, option: click.Parameter, values: Iterable[str]
    ) -> dict[str, str]:
        pairs = [value.partition(separator) for value in values]
        if wrong := [key for key, found, _ in pairs if not (key and found)]:
            raise click.BadParameter(f"expected {option.metavar}, near {wrong[0]!r}")
        return {key: value for key, _, value in pairs}

    return split


def _topics(
    _: click.Context, __: click.Parameter, values: Iterable[str]
) -> dict[str, int]:
    pairs = [value.partition(":") for value in values]
    try:
        return {name: int(count) if found else 1 for name, found, count in pairs}
    except ValueError as error:
        raise click.BadParameter("expected NAME or NAME:PARTITIONS") from error


@click.command()
@click.option(
    "--brokers", type=click.IntRange(1), default=1, show_default=True, help="How many."
)
@click.option("--version", help="The Kafka version, such as 4.4.0.")
@click.option(
    "--topic",
    "topics",
    metavar="NAME[:PARTITIONS]",
    multiple=True,
    callback=_topics,
    help="Create a topic; may be repeated.",
)
@click.option(
    "--user",
    "users",
    metavar="NAME:PASSWORD",
    multiple=True,
    callback=_pairs(":"),
    help="Add a user, who may do only what is granted to it; may be repeated.",
)
@click.option(
    "--super-user",
    "super_users",
    metavar="NAME",
    multiple=True,
    help="Let a user do everything; may be repeated.",
)
@click.option("--tls", is_flag=True, help="Listen for TLS too.")
@click.option("--oauth", is_flag=True, help="Listen for OAUTHBEARER too, unsecured.")
@click.option("--tiered", is_flag=True, help="Have tiered storage, in a local folder.")
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_pairs("="),
    help="Set a broker setting (server.properties); may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def broker(topics: dict[str, int], as_json: bool, **options: Any) -> None:
    """Run a real Kafka on free loopback ports until Ctrl-C.

    The jars are fetched once. When the command ends, however it ends, the brokers end
    and their data are removed. Exit codes: 0 ended by Ctrl-C or SIGTERM; 1 all brokers
    ended by themselves; 2 it could not be started.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _cluster(**options) as cluster:
            _create(cluster, topics)
            _tell(cluster, list(topics), as_json=as_json)
            _wait_until_all_ended(cluster)
    except KeyboardInterrupt:
        return
    raise click.ClickException("all brokers have ended")


def _cluster(version: str | None, **options: Any) -> KafkaCluster:
    if version:
        options["version"] = version
    try:
        cluster = KafkaCluster(**options)
        with Console(stderr=True).status(f"Starting Kafka {cluster.version}"):
            return cluster.start()
    except ClusterError as error:
        raise _refusal(error) from error


def _create(cluster: KafkaCluster, topics: dict[str, int]) -> None:
    from kafka.errors import KafkaError

    for name, partitions in topics.items():
        try:
            cluster.create_topic(name, partitions)
        except (KafkaError, ClusterError) as error:
            raise _refusal(f"topic {name}: {error}") from error


def _refusal(reason: object) -> click.ClickException:
    refusal = click.ClickException(str(reason))
    refusal.exit_code = 2
    return refusal


def _tell(cluster: KafkaCluster, topics: list[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_facts(cluster, topics)))
    else:
        _print_tables(cluster, topics)


def _facts(cluster: KafkaCluster, topics: list[str]) -> dict[str, Any]:
    return {
        "version": cluster.version,
        "cluster_id": cluster.cluster_id,
        "bootstrap_servers": cluster.bootstrap_servers,
        "controller_bootstrap": cluster.controller_bootstrap,
        "listeners": {
            each.name: {
                "bootstrap_servers": each.bootstrap_servers,
                "security_protocol": each.security_protocol,
                "mechanisms": each.mechanisms,
            }
            for each in cluster.listeners
        },
        "authority": str(cluster.authority) if cluster.authority.exists() else None,
        "brokers": [
            {"id": each.id, "address": each.address, "pid": each.pid}
            | {"log": str(each.log)}
            for each in cluster.brokers
        ],
        "topics": topics,
    }


def _print_tables(cluster: KafkaCluster, topics: list[str]) -> None:
    console = Console()
    listeners = Table("listener", "bootstrap servers", "security", "SASL")
    for each in cluster.listeners:
        mechanisms = ", ".join(each.mechanisms)
        listeners.add_row(
            each.name, each.bootstrap_servers, each.security_protocol, mechanisms
        )
    brokers = Table("broker", "pid", "log")
    for node in cluster.brokers:
        brokers.add_row(str(node.id), str(node.pid), str(node.log))
    console.print(
        f"Kafka {cluster.version}, cluster {cluster.cluster_id}", listeners, brokers
    )
    if topics:
        console.print("Topics:", ", ".join(topics))
    if cluster.authority.exists():
        console.print("TLS clients trust:", str(cluster.authority))
    console.print(f"[bold]{cluster.bootstrap_servers}[/bold] is ready; Ctrl-C ends it.")


def _wait_until_all_ended(cluster: KafkaCluster) -> None:
    while any(each.is_running for each in cluster.brokers):
        time.sleep(_LOOK_EVERY_S)
