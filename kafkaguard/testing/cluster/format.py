"""Format the brokers' data folders, as ``kafka-storage format`` does."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING

from kafkaguard.testing.cluster.errors import StartError
from kafkaguard.testing.cluster.output import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaguard.testing.cluster.runtime import Runtime
    from kafkaguard.testing.cluster.workspace import Workspace

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
        said = quote(log.read_text(errors="replace"))
        raise StartError(f"Kafka refused to format the brokers' folders. {said}")
