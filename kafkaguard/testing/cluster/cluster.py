"""``KafkaCluster``: real brokers for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import names
from kafkaguard.testing.cluster import acls, topics
from kafkaguard.testing.cluster.clients import client_config
from kafkaguard.testing.cluster.errors import ClusterError
from kafkaguard.testing.cluster.jars import DEFAULT_VERSION
from kafkaguard.testing.cluster.launch import Blueprint, Running, launch
from kafkaguard.testing.cluster.listeners import CONTROLLER, PLAINTEXT
from kafkaguard.testing.cluster.security import Security, authority_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from kafkaguard.testing.cluster.broker import Broker
    from kafkaguard.testing.cluster.listeners import Listener

_START_TIMEOUT_S = 60.0


class KafkaCluster:
    """One or more real Kafka brokers on free loopback ports, for as long as needed.

    >>> with KafkaCluster() as cluster:  # doctest: +SKIP
    ...     topic = cluster.create_topic(partitions=3)
    ...     producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

    Its brokers can be killed, paused and started again: ``cluster.broker(0).kill()``,
    ``pause()``, ``resume()``, ``stop()``, ``start()``, and each has its ``pid``.

    Its listeners, each there when it is asked for:

    ============ ==================== ==========================================
    name         there with           who comes in
    ============ ==================== ==========================================
    PLAINTEXT    always               anybody, and may do everything
    SASL_PLAIN   ``users``            the users, by name and password
    SASL_SCRAM   ``users``            the same, SCRAM-SHA-256 and SCRAM-SHA-512
    TLS          ``tls``              anybody, and may do everything
    SASL_TLS     ``users``, ``tls``   the users, PLAIN or SCRAM, over TLS
    OAUTHBEARER  ``oauth``            any name, with an unsigned token
    ============ ==================== ==========================================

    Args:
        brokers: How many. From three on, three of them are controllers too, so that one
            may be killed; with fewer, broker 0 is the only controller.
        version: The Kafka version.
        settings: Broker settings (``server.properties``) beside and above our own.
        users: Passwords by user name. Users may do only what was granted to them.
        super_users: Names of users that may do everything.
        tls: Whether to listen for TLS, with a throw-away certificate authority.
        oauth: Whether to listen for OAUTHBEARER.
        tiered: Whether topics may have ``remote.storage.enable``; the remote side is
            a local folder.

    Raises:
        ClusterError: The arguments make no sense.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        version: str = DEFAULT_VERSION,
        settings: Mapping[str, object] | None = None,
        users: Mapping[str, str] | None = None,
        super_users: Iterable[str] = (),
        tls: bool = False,
        oauth: bool = False,
        tiered: bool = False,
    ) -> None:
        if brokers < 1:
            raise ClusterError(f"a cluster has at least one broker, not {brokers}")
        supers = frozenset(names("super_users", super_users) or ())
        security = Security(dict(users or {}), supers, tls, oauth)
        security.check()
        self._blueprint = Blueprint(
            brokers, version, dict(settings or {}), security, tiered
        )
        self._state: Running | None = None

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
            JarsNotFoundError: The jars of this version is not available.
            StartError: A broker ended or did not answer in time.
        """
        if self._state:
            raise ClusterError("the cluster is already running")
        self._state = launch(self._blueprint, timeout)
        return self

    def stop(self) -> None:
        """Kill the brokers and remove their data; a second time, do nothing."""
        state, self._state = self._state, None
        if state:
            state.workspace.remove()

    @property
    def version(self) -> str:
        """The Kafka version."""
        return self._blueprint.version

    @property
    def cluster_id(self) -> str:
        """The cluster's id, as in Metadata."""
        return self._running.cluster_id

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the plain listener, whose clients may do everything."""
        return self.listener(PLAINTEXT.name).bootstrap_servers

    @property
    def controller_bootstrap(self) -> str:
        """Addresses of the controllers' own listener."""
        return self.listener(CONTROLLER.name).bootstrap_servers

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """All listeners for clients."""
        known = self._running.listeners.values()
        return tuple(each for each in known if each.name != CONTROLLER.name)

    def listener(self, name: str) -> Listener:
        """Look a listener up by name.

        Raises:
            ClusterError: This cluster has no such listener, or does not run.
        """
        known = self._running.listeners
        if name not in known:
            raise ClusterError(
                f"no listener {name!r} in this cluster, which has {', '.join(known)}. "
                "users=, tls= and oauth= add listeners."
            )
        return known[name]

    def client_config(
        self,
        listener: str = PLAINTEXT.name,
        *,
        client: str = "kafka-python",
        user: str | None = None,
        mechanism: str | None = None,
    ) -> dict[str, Any]:
        """Write the settings with which a client comes in, password included.

        Args:
            listener: The listener's name.
            client: ``kafka-python``, ``confluent``, ``aiokafka`` or ``spark``.
            user: Who, where the listener asks for it.
            mechanism: Which SASL mechanism, where the listener has several.

        Returns:
            Keyword arguments of kafka-python and aiokafka, the configuration of
            confluent-kafka, or options of Spark's source and sink.

        Raises:
            ClusterError: No such listener, client or user, or a user is missing.
        """
        way = self.listener(listener)
        access = self._blueprint.security.access(way, user, mechanism, self.authority)
        return client_config(client, access)

    @property
    def authority(self) -> Path | None:
        """The certificate that TLS clients are to trust, as PEM; None without TLS."""
        if not self._blueprint.security.tls:
            return None
        return authority_file(self._running.workspace.folder)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers, by id."""
        return self._running.brokers

    def broker(self, node: int) -> Broker:
        """Look a broker up by its id, counted from 0.

        Raises:
            ClusterError: There is no such broker, or the cluster does not run.
        """
        if not 0 <= node < len(self.brokers):
            raise ClusterError(f"no broker {node}: ids go to {len(self.brokers) - 1}")
        return self.brokers[node]

    def logs(self, node: int = 0) -> str:
        """Read what a broker printed."""
        return self.broker(node).log.read_text(errors="replace")

    @property
    def remote_storage(self) -> Path | None:
        """The folder to which segments move; None without tiered storage."""
        if not self._blueprint.tiered:
            return None
        return self._running.workspace.remote

    def create_topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic and wait until every serving broker sees its leaders.

        Args:
            name: Its name; by default one that nobody else has.
            partitions: How many.
            replication_factor: How many copies; by default three, or as many as there
                are brokers.
            config: Topic settings.

        Returns:
            The name.

        Raises:
            kafka.errors.KafkaError: The cluster refused.
            ClusterError: Not every broker knew in time.
        """
        factor = replication_factor or min(3, len(self.brokers))
        return topics.create_topic(
            self._serving(), name, partitions, factor, config or {}
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until no serving broker knows it any more."""
        topics.delete_topic(self._serving(), name)

    def alter_topic(self, name: str, config: Mapping[str, object]) -> None:
        """Change settings of a topic and wait until every serving broker has them."""
        topics.alter_topic(self._serving(), name, config)

    def grant(self, user: str, operation: str, resource: str, name: str) -> None:
        """Allow a user an operation and wait until every serving broker knows.

        >>> cluster.grant("bob", "READ", "TOPIC", "orders")  # doctest: +SKIP

        Args:
            user: The user's name.
            operation: Kafka's name of it (``READ``, ``WRITE``, ``DESCRIBE``, ``ALL``).
            resource: Kafka's name of its kind (``TOPIC``, ``GROUP``, ``CLUSTER``,
                ``TRANSACTIONAL_ID``).
            name: Its name; ``*`` is all of them, ``kafka-cluster`` the one cluster.

        Raises:
            kafka.errors.SecurityDisabledError: The cluster has no users.
            ClusterError: No such operation or resource, or not known in time.
        """
        acls.grant(self._serving(), acls.Grant(user, operation, resource, name))

    @property
    def _running(self) -> Running:
        if self._state is None:
            raise ClusterError("the cluster is not running; use it in a with statement")
        return self._state

    def _serving(self) -> list[str]:
        return [broker.address for broker in self.brokers if broker.is_serving]
