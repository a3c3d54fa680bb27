"""``kafkaguard broker``: a real Kafka broker until Ctrl-C."""

from __future__ import annotations

import json
import signal
import time
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from kafkaguard._common.text import plain
from kafkaguard._common.topic_names import ALLOWED, can_be_a_topic
from kafkaguard.cli.group import Problem
from kafkaguard.cli.numbers import BROKERS, PARTITIONS
from kafkaguard.cli.output import PlainTable, console, say
from kafkaguard.testing import ClusterError, KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkaguard.testing.cluster.broker import Broker

_CHECK_EVERY_S = 0.5
_PARTS_OF_A_GRANT = 4


def _pairs(separator: str) -> Callable[..., dict[str, str]]:
    """Make a callback that splits each value of an option at a separator."""

    def split(
        _: click.Context, option: click.Parameter, values: Iterable[str]
    ) -> dict[str, str]:
        pairs = [value.partition(separator) for value in values]
        if not all(key and mark for key, mark, _ in pairs):
            raise click.BadParameter(f"expected {option.metavar}")
        return {key: value for key, _, value in pairs}

    return split


def _topics(
    context: click.Context, option: click.Parameter, values: Iterable[str]
) -> dict[str, int]:
    pairs = [value.partition(":") for value in values]
    if not all(name and bool(count) == bool(colon) for name, colon, count in pairs):
        raise click.BadParameter("expected NAME or NAME:PARTITIONS")
    if wrong := [name for name, _, _ in pairs if not can_be_a_topic(name)]:
        raise click.BadParameter(f"{wrong[0]!r} is not a valid topic name: {ALLOWED}")
    return {name: PARTITIONS(count or 1, option, context) for name, _, count in pairs}


def _grants(
    context: click.Context,
    option: click.Parameter,  # noqa: ARG001 - click passes it
    values: Iterable[str],
) -> list[tuple[str, str, str, str]]:
    """Split each grant, and check it against the users of the same command line."""
    grants = []
    for value in values:
        parts = value.split(":", 3)
        if len(parts) != _PARTS_OF_A_GRANT or not all(parts):
            raise click.BadParameter(
                f"{value!r}: expected USER:OPERATION:RESOURCE:NAME, such as "
                "bob:WRITE:TOPIC:orders"
            )
        user, operation, resource, name = parts
        users = context.params.get("users", {})
        if user not in users:
            raise click.BadParameter(f"{value!r}: add the user with --user {user}:...")
        grants.append((user, operation.upper(), resource.upper(), name))
    return grants


@click.command()
@click.option(
    "--brokers", type=BROKERS, default=1, show_default=True, help="Number of brokers."
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
    "--compacted-topic",
    "compacted_topics",
    metavar="NAME[:PARTITIONS]",
    multiple=True,
    callback=_topics,
    help="Create a topic with cleanup.policy=compact; may be repeated.",
)
@click.option(
    "--user",
    "users",
    metavar="NAME:PASSWORD",
    multiple=True,
    is_eager=True,
    callback=_pairs(":"),
    help="Add a user. A user may do only what --grant allows; may be repeated.",
)
@click.option(
    "--grant",
    "grants",
    metavar="USER:OPERATION:RESOURCE:NAME",
    multiple=True,
    callback=_grants,
    help="Allow a user an operation, as bob:WRITE:TOPIC:orders; may be repeated.",
)
@click.option(
    "--super-user",
    "super_users",
    metavar="NAME",
    multiple=True,
    help="Allow a user everything; may be repeated.",
)
@click.option("--tls", is_flag=True, help="Add a listener with TLS.")
@click.option("--oauth", is_flag=True, help="Add a listener with OAUTHBEARER.")
@click.option("--tiered", is_flag=True, help="Use tiered storage, in a local folder.")
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_pairs("="),
    help="Set a broker setting (server.properties); may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def broker(
    *,
    topics: dict[str, int],
    compacted_topics: dict[str, int],
    grants: list[tuple[str, str, str, str]],
    as_json: bool,
    **options: Any,
) -> None:
    """Run a real Kafka broker on free loopback ports until Ctrl-C.

    The first start downloads Kafka (43 MB) and keeps it. When the command ends, however
    it ends, the brokers end and their data is removed. Of a broker that ends by itself
    the log is kept.

    Exit code: 0 ended by Ctrl-C or SIGTERM, 1 all brokers ended by themselves, 2 the
    broker could not be started.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _running_cluster(**options) as cluster:
            _create(cluster, topics)
            _create(cluster, compacted_topics, {"cleanup.policy": "compact"})
            _grant(cluster, grants)
            _print(cluster, [*topics, *compacted_topics], as_json=as_json)
            endings = _wait_until_all_ended(cluster)
    except KeyboardInterrupt:
        return
    raise click.ClickException("\n".join([*endings, _ADVICE]))


@contextmanager
def _running_cluster(version: str | None, **options: Any) -> Iterator[KafkaCluster]:
    if version:
        options["version"] = version
    try:
        cluster = KafkaCluster(**options)
        with console(stderr=True).status(f"Starting Kafka {cluster.version}"):
            cluster.start()
    except ClusterError as error:
        raise Problem(str(error)) from error
    try:
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def _problem_of(step: str) -> Iterator[None]:
    """Turn the refusal of a step into one line."""
    from kafka.errors import KafkaError

    try:
        yield
    except (KafkaError, ClusterError) as error:
        raise Problem(f"cannot {step}: {error}") from error


def _grant(cluster: KafkaCluster, grants: list[tuple[str, str, str, str]]) -> None:
    for grant in grants:
        with _problem_of(f"grant {':'.join(grant)}"):
            cluster.grant(*grant)


def _create(
    cluster: KafkaCluster, topics: dict[str, int], config: dict[str, str] | None = None
) -> None:
    for name, partitions in topics.items():
        with _problem_of(f"create topic {name}"):
            cluster.create_topic(name, partitions, config=config)


def _print(cluster: KafkaCluster, topics: list[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_as_data(cluster, topics)))
    else:
        console().print(*_tables(cluster, topics), sep="\n")


def _as_data(cluster: KafkaCluster, topics: list[str]) -> dict[str, Any]:
    return {
        "version": cluster.version,
        "cluster_id": cluster.cluster_id,
        "bootstrap_servers": cluster.bootstrap_servers,
        "controller_bootstrap": cluster.controller_bootstrap,
        "authority": cluster.authority and str(cluster.authority),
        "listeners": [
            {
                "name": each.name,
                "bootstrap_servers": each.bootstrap_servers,
                "security_protocol": each.security_protocol,
                "mechanisms": each.mechanisms,
            }
            for each in cluster.listeners
        ],
        "brokers": [
            {
                "id": each.id,
                "address": each.address,
                "pid": each.pid,
                "log": str(each.log),
            }
            for each in cluster.brokers
        ],
        "topics": topics,
    }


def _tables(cluster: KafkaCluster, topics: list[str]) -> Iterator[str | PlainTable]:
    listeners = PlainTable("Listener", "Bootstrap servers", "Security", "SASL")
    for listener in cluster.listeners:
        servers = Text(listener.bootstrap_servers.replace(",", ",\n"))
        mechanisms = Text("\n".join(listener.mechanisms))
        listeners.add_row(
            listener.name, servers, listener.security_protocol, mechanisms
        )
    brokers = PlainTable("Broker", "Process", "Log")
    for node in cluster.brokers:
        brokers.add_row(str(node.id), str(node.pid), str(node.log))
    yield listeners
    yield brokers
    if topics:
        yield f"Topics: {', '.join(map(plain, topics))}"
    if cluster.authority:
        yield f"TLS clients trust {plain(cluster.authority)}"
    at = cluster.bootstrap_servers
    yield f"Kafka {cluster.version} is ready at {at} - Ctrl-C ends it."


def _wait_until_all_ended(cluster: KafkaCluster) -> list[str]:
    """Wait for the end of each broker; return how each ended, with a copy of its log.

    While other brokers run, each end is printed at once.
    """
    endings: dict[int, str] = {}
    while True:
        for each in cluster.brokers:
            if each.id not in endings and not each.is_running:
                endings[each.id] = _describe_end(each)
                if len(endings) < len(cluster.brokers):
                    say(endings[each.id], err=True)
        if len(endings) == len(cluster.brokers):
            return [endings[node] for node in sorted(endings)]
        time.sleep(_CHECK_EVERY_S)


def _describe_end(node: Broker) -> str:
    """Say how a broker ended; keep its log, since the cluster removes its own."""
    code = node.exit_code or 0
    end = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    with NamedTemporaryFile(
        prefix=f"kafkaguard-broker-{node.id}-", suffix=".log", delete=False
    ) as copy:
        copy.write(node.log.read_bytes())
    return f"broker {node.id} ({node.address}) {end}; its log is kept in {copy.name}"


_ADVICE = (
    "No broker is left, and the data is removed: run the command again for an empty "
    "cluster. To kill a broker and start it again with its data, use "
    "kafkaguard.testing.KafkaCluster in Python: cluster.broker(0).kill(), then .start()"
)
