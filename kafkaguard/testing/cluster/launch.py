"""Format the data folders of a cluster's brokers, and start the brokers."""

from __future__ import annotations

import base64
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.archive import with_archive
from kafkaguard.testing.cluster.broker import Broker, quote
from kafkaguard.testing.cluster.errors import PortTakenError, StartError
from kafkaguard.testing.cluster.jars import DEFAULT_VERSION
from kafkaguard.testing.cluster.java import Runtime
from kafkaguard.testing.cluster.listeners import CONTROLLER, Listener, on_free_ports
from kafkaguard.testing.cluster.properties import (
    cluster_settings,
    controllers,
    node_settings,
    render,
    tiered_settings,
)
from kafkaguard.testing.cluster.security import Security
from kafkaguard.testing.cluster.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_TRIES = 3
_RUN_ONCE_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The definition of a cluster."""

    brokers: int = 1
    version: str = DEFAULT_VERSION
    settings: Mapping[str, object] = field(default_factory=dict)
    security: Security = field(default_factory=Security)
    tiered: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """A running cluster."""

    cluster_id: str
    workspace: Workspace
    listeners: Mapping[str, Listener]
    brokers: tuple[Broker, ...]


def launch(blueprint: Blueprint, timeout: float) -> Running:
    """Start the brokers, and wait until each of them sees all.

    Raises:
        ClusterError: The start failed; everything was cleaned up.
    """
    runtime = Runtime.of(blueprint.version, tiered=blueprint.tiered)
    return _launch(blueprint, with_archive(runtime, _run_once), timeout)


def _run_once(runtime: Runtime) -> None:
    """Run a broker from its start to an orderly end."""
    running = _launch(Blueprint(), runtime, _RUN_ONCE_TIMEOUT_S)
    try:
        if not running.brokers[0].stop(_RUN_ONCE_TIMEOUT_S):
            raise StartError(
                f"the broker did not stop within {_RUN_ONCE_TIMEOUT_S:g} s"
            )
    finally:
        running.workspace.remove()


def _launch(blueprint: Blueprint, runtime: Runtime, timeout: float) -> Running:
    for _ in range(_TRIES - 1):
        try:
            return _try_to_launch(blueprint, runtime, timeout)
        except PortTakenError:
            continue
    return _try_to_launch(blueprint, runtime, timeout)


def _try_to_launch(blueprint: Blueprint, runtime: Runtime, timeout: float) -> Running:
    workspace = Workspace()
    try:
        running = _prepare(blueprint, runtime, workspace)
        deadline = time.monotonic() + timeout
        for broker in running.brokers:
            broker.start(wait=False)
        for broker in running.brokers:
            seconds_left = max(0.0, deadline - time.monotonic())
            broker.wait_until_ready(set(range(blueprint.brokers)), seconds_left)
    except BaseException:
        workspace.remove()
        raise
    return running


def _prepare(blueprint: Blueprint, runtime: Runtime, workspace: Workspace) -> Running:
    nodes = range(blueprint.brokers)
    kinds = [*blueprint.security.listeners(), CONTROLLER]
    sizes = [len(nodes)] * (len(kinds) - 1) + [len(controllers(len(nodes)))]
    *listeners, controller = on_free_ports(kinds, sizes)
    shared = _shared_settings(blueprint, workspace)
    for node in nodes:
        own_settings = node_settings(node, workspace.folder, listeners, controller)
        settings = {**shared, **own_settings, **blueprint.settings}
        workspace.properties(node).write_text(render(settings))
    cluster_id = random_cluster_id()
    options = blueprint.security.format_options()
    format_storage(workspace, runtime, nodes, cluster_id, options)
    return Running(
        cluster_id,
        workspace,
        {each.name: each for each in [*listeners, controller]},
        tuple(
            Broker(node, listeners[0].addresses[node], workspace, runtime)
            for node in nodes
        ),
    )


def _shared_settings(blueprint: Blueprint, workspace: Workspace) -> dict[str, object]:
    settings = cluster_settings(blueprint.brokers)
    settings.update(blueprint.security.settings(workspace.folder))
    if blueprint.tiered:
        settings.update(tiered_settings(workspace.remote, blueprint.brokers))
    return settings


_TIMEOUT_S = 60


def random_cluster_id() -> str:
    """Make a cluster id; like Kafka's own, it does not begin with a hyphen."""
    return "K" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


def format_storage(
    workspace: Workspace,
    runtime: Runtime,
    nodes: Sequence[int],
    cluster_id: str,
    options: Sequence[str] = (),
) -> None:
    """Format the data folders of all nodes in parallel.

    Raises:
        StartError: Kafka refused, most likely a setting; the text has its output.
    """
    log = workspace.folder / "format.log"
    processes = []
    for node in nodes:
        settings = str(workspace.properties(node))
        arguments = [f"--cluster-id={cluster_id}", "--config", settings, *options]
        command = runtime.command("kafka.tools.StorageTool", "format", *arguments)
        processes.append(workspace.spawn(command, log))
    codes = [workspace.reap(process, _TIMEOUT_S) for process in processes]
    if any(codes):
        output = quote(log.read_text(errors="replace"))
        raise StartError(f"Kafka refused to format the brokers' folders. {output}")
