"""From what was asked for to brokers that answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaguard.testing._broker import Broker
from kafkaguard.testing._errors import PortTakenError
from kafkaguard.testing._format import format_storage, random_cluster_id
from kafkaguard.testing._listeners import CONTROLLER, Listener, on_free_ports
from kafkaguard.testing._properties import (
    cluster_settings,
    controllers,
    node_settings,
    render,
)
from kafkaguard.testing._runtime import Runtime
from kafkaguard.testing._tiered import tiered_settings
from kafkaguard.testing._workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard.testing._security import Security

_TRIES = 3


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What a cluster is to be."""

    brokers: int
    version: str
    settings: Mapping[str, object]
    security: Security
    tiered: bool


@dataclass(frozen=True, slots=True)
class Running:
    """A cluster that runs."""

    cluster_id: str
    workspace: Workspace
    listeners: Mapping[str, Listener]
    brokers: tuple[Broker, ...]


def launch(blueprint: Blueprint, timeout: float) -> Running:
    """Start the brokers and wait until each of them sees all.

    Raises:
        ClusterError: It could not be done; nothing is left behind.
    """
    runtime = Runtime.of(blueprint.version, tiered=blueprint.tiered)
    for _ in range(_TRIES - 1):
        try:
            return _launch(blueprint, runtime, timeout)
        except PortTakenError:
            continue
    return _launch(blueprint, runtime, timeout)


def _launch(blueprint: Blueprint, runtime: Runtime, timeout: float) -> Running:
    workspace = Workspace()
    try:
        running = _prepare(blueprint, runtime, workspace)
        for broker in running.brokers:
            broker.start(wait=False)
        for broker in running.brokers:
            broker.wait_until_ready(set(range(blueprint.brokers)), timeout)
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
        own = node_settings(node, workspace.folder, listeners, controller)
        settings = {**shared, **own, **blueprint.settings}
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
        remote = workspace.folder / "remote"
        settings.update(tiered_settings(remote, blueprint.brokers))
    return settings
