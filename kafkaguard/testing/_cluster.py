"""Real brokers in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard.testing import _topics
from kafkaguard.testing._broker import Broker
from kafkaguard.testing._errors import ClusterError, PortTakenError
from kafkaguard.testing._format import format_storage, random_cluster_id
from kafkaguard.testing._jars import DEFAULT_VERSION
from kafkaguard.testing._listeners import (
    CONTROLLER,
    PLAINTEXT,
    Listener,
    on_free_ports,
)
from kafkaguard.testing._properties import (
    cluster_settings,
    controllers,
    node_settings,
    render,
)
from kafkaguard.testing._runtime import Runtime
from kafkaguard.testing._workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

_TRIES = 3
_START_TIMEOUT_S = 60.0


class KafkaCluster:
    """One or more real Kafka brokers on free loopback ports, for as long as needed.

    >>> with KafkaCluster() as cluster:  # doctest: +SKIP
    ...     topic = cluster.create_topic(partitions=3)
    ...     producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

    Args:
        brokers: How many; from three on, three of them are controllers too, so that one
            may be killed. With fewer, broker 0 is the only controller.
        version: The Kafka version.
        settings: Broker settings (``server.properties``) beside and above our own.

    Raises:
        ClusterError: A setting makes no sense.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        version: str = DEFAULT_VERSION,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        if brokers < 1:
            raise ClusterError(f"a cluster has at least one broker, not {brokers}")
        self.version = version
        self._size = brokers
        self._settings = dict(settings or {})
        self._workspace: Workspace | None = None
        self._brokers: list[Broker] = []
        self._listeners: dict[str, Listener] = {}
        self._cluster_id = ""

    def __enter__(self) -> Self:
        """Start, as start() does."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop, as stop() does."""
        self.stop()

    def start(self, timeout: float = _START_TIMEOUT_S) -> Self:
        """Start the brokers and wait until each of them answers and sees all.

        Args:
            timeout: Seconds that the brokers have for it, once the jars are there.

        Returns:
            The cluster itself.

        Raises:
            ClusterError: It runs already.
            JavaNotFoundError: There is no Java to run them.
            JarsNotFoundError: The jars of this version cannot be had.
            StartError: A broker ended or did not answer in time.
        """
        if self._workspace:
            raise ClusterError("the cluster runs already")
        runtime = Runtime.of(self.version)
        for _ in range(_TRIES - 1):
            try:
                return self._start_once(runtime, timeout)
            except PortTakenError:
                continue
        return self._start_once(runtime, timeout)

    def stop(self) -> None:
        """Kill the brokers and remove their data; a second time, do nothing."""
        workspace, self._workspace = self._workspace, None
        self._brokers = []
        if workspace:
            workspace.remove()

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the plain listener, whose clients may do everything."""
        return self.listener(PLAINTEXT.name).bootstrap_servers

    @property
    def controller_bootstrap(self) -> str:
        """Addresses of the controllers' own listener."""
        return self.listener(CONTROLLER.name).bootstrap_servers

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as in Metadata."""
        return self._cluster_id

    def listener(self, name: str) -> Listener:
        """Look a listener up by name.

        Raises:
            ClusterError: This cluster has no such listener, or does not run.
        """
        if name not in self._listeners:
            known = ", ".join(self._listeners) or "none: it does not run"
            raise ClusterError(f"no listener {name} in this cluster; it has {known}")
        return self._listeners[name]

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers, by id."""
        return tuple(self._brokers)

    def broker(self, node: int) -> Broker:
        """Look a broker up by its id, counted from 0.

        Raises:
            ClusterError: There is no such broker, or the cluster does not run.
        """
        if not 0 <= node < len(self._brokers):
            raise ClusterError(f"no broker {node}; {len(self._brokers)} are started")
        return self._brokers[node]

    def logs(self, node: int = 0) -> str:
        """Read what a broker printed."""
        return self.broker(node).log.read_text(errors="replace")

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic and wait until every broker sees its leaders.

        Args:
            name: Its name; by default one that nobody else has.
            partitions: How many.
            replication_factor: How many copies; by default three, or as many as there
                are brokers.
            config: Topic settings.

        Returns:
            The name.
        """
        factor = replication_factor or min(3, self._size)
        return _topics.create_topic(
            self._serving(), name, partitions, factor, config or {}
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until no broker knows it any more."""
        _topics.delete_topic(self._serving(), name)

    def alter_topic(self, name: str, config: Mapping[str, object]) -> None:
        """Change settings of a topic."""
        _topics.alter_topic(self._serving(), name, config)

    def _serving(self) -> list[str]:
        return [broker.address for broker in self._brokers if broker.is_serving]

    def _start_once(self, runtime: Runtime, timeout: float) -> Self:
        self._workspace = Workspace()
        try:
            self._prepare(self._workspace, runtime)
            for broker in self._brokers:
                broker.start(wait=False)
            for broker in self._brokers:
                broker.wait_until_ready(set(range(self._size)), timeout)
        except BaseException:
            self.stop()
            raise
        return self

    def _prepare(self, workspace: Workspace, runtime: Runtime) -> None:
        voters = len(controllers(self._size))
        *listeners, controller = on_free_ports(
            [PLAINTEXT, CONTROLLER], [self._size, voters]
        )
        self._listeners = {each.name: each for each in [*listeners, controller]}
        nodes = range(self._size)
        for node in nodes:
            settings = {
                **cluster_settings(self._size),
                **node_settings(node, workspace.folder, listeners, controller),
                **self._settings,
            }
            path = workspace.folder / f"broker-{node}.properties"
            path.write_text(render(settings))
        self._cluster_id = random_cluster_id()
        format_storage(workspace, runtime, nodes, self._cluster_id)
        self._brokers = [
            Broker(node, listeners[0].addresses[node], workspace, runtime)
            for node in nodes
        ]
