"""``KafkaCluster``: real brokers for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._common.arguments import flag, names, seconds, whole_number
from kafkaguard.testing.cluster import topics
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
    """One or more real Kafka brokers on free loopback ports.

    >>> with KafkaCluster() as cluster:  # doctest: +SKIP
    ...     topic = cluster.create_topic(partitions=3)
    ...     producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

    Brokers can be killed, paused and started again: ``cluster.broker(0).kill()``,
    ``pause()``, ``resume()``, ``stop()``, ``start()``. Each broker has a ``pid``.

    The listeners, which exist if they are requested:

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
        brokers: The number of brokers. With three or more, three of them are
            controllers too, so that one may be killed; with fewer, broker 0 is the
            only controller.
        version: The Kafka version.
        settings: More broker settings (``server.properties``), which override the
            cluster's own.
        users: Passwords by user name. Users may do only what was granted to them.
        super_users: Names of users that may do everything.
        tls: Whether to listen for TLS, with a temporary certificate authority.
        oauth: Whether to listen for OAUTHBEARER.
        tiered: Whether topics may have ``remote.storage.enable``; the remote storage is
            a local folder.

    Raises:
        ClusterError: The arguments are not valid.
        TypeError: An argument has the wrong type.
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
        if whole_number("KafkaCluster(): brokers", brokers) < 1:
            raise ClusterError(f"a cluster has at least one broker, not {brokers}")
        for argument, value in (("tls", tls), ("oauth", oauth), ("tiered", tiered)):
            flag(f"KafkaCluster(): {argument}", value)
        supers = frozenset(names("super_users", super_users) or ())
        security = Security(dict(users or {}), supers, tls, oauth)
        security.check()
        self._blueprint = Blueprint(
            brokers, version, dict(settings or {}), security, tiered
        )
        self._state: Running | None = None

    def __enter__(self) -> Self:
        """Start the cluster."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the cluster."""
        self.stop()

    def start(self, timeout: float = _START_TIMEOUT_S) -> Self:
        """Start the brokers, and wait until each of them answers and sees all.

        Args:
            timeout: Seconds that the brokers have for this, without the download of the
                jars.

        Returns:
            The cluster itself.

        Raises:
            ClusterError: The cluster is already running.
            JavaNotFoundError: There is no Java to run them.
            JarsNotFoundError: The jars of this version are not available.
            StartError: A broker ended or did not answer in time.
            TypeError: ``timeout`` is not a number.
            ValueError: ``timeout`` is not above 0, or has no end.
        """
        timeout = seconds("start(): timeout", timeout)
        if self._state:
            raise ClusterError("the cluster is already running")
        self._state = launch(self._blueprint, timeout)
        return self

    def stop(self) -> None:
        """Kill the brokers and remove their data; a second call does nothing."""
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
        """The addresses of the plain listener, whose clients may do everything."""
        return self.listener(PLAINTEXT.name).bootstrap_servers

    @property
    def controller_bootstrap(self) -> str:
        """The addresses of the controllers' own listener."""
        return self.listener(CONTROLLER.name).bootstrap_servers

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """All listeners for clients."""
        listeners = self._running.listeners.values()
        return tuple(each for each in listeners if each.name != CONTROLLER.name)

    def listener(self, name: str) -> Listener:
        """Look up a listener by name.

        Raises:
            ClusterError: The cluster has no such listener, or is not running.
        """
        listeners = self._running.listeners
        if name not in listeners:
            raise ClusterError(
                f"no listener {name!r} in this cluster, which has "
                f"{', '.join(listeners)}. users=, tls= and oauth= add listeners."
            )
        return listeners[name]

    def client_config(
        self,
        listener: str = PLAINTEXT.name,
        *,
        client: str = "kafka-python",
        user: str | None = None,
        mechanism: str | None = None,
    ) -> dict[str, Any]:
        """Return the settings with which a client connects, including the password.

        Args:
            listener: The listener's name. Default: ``PLAINTEXT``.
            client: ``kafka-python`` (default), ``confluent``, ``aiokafka`` or
                ``spark``.
            user: The user, if the listener needs one.
            mechanism: The SASL mechanism, if the listener has several. Default: its
                first.

        Returns:
            Keyword arguments of kafka-python and aiokafka, the configuration of
            confluent-kafka, or options of Spark's source and sink.

        Raises:
            ClusterError: There is no such listener, client, user or mechanism, a user
                is missing, or the cluster is not running.
        """
        target = self.listener(listener)
        access = self._blueprint.security.access(
            target, user, mechanism, self.authority
        )
        return client_config(client, access)

    @property
    def authority(self) -> Path | None:
        """The certificate (PEM) that TLS clients must trust; None without TLS."""
        if not self._blueprint.security.tls:
            return None
        return authority_file(self._running.workspace.folder)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers, by id."""
        return self._running.brokers

    def broker(self, node: int) -> Broker:
        """Look up a broker by its id, from 0.

        Raises:
            ClusterError: There is no such broker, or the cluster is not running.
        """
        if not 0 <= node < len(self.brokers):
            raise ClusterError(f"no broker {node}: ids go to {len(self.brokers) - 1}")
        return self.brokers[node]

    def logs(self, node: int = 0) -> str:
        """Return the output of a broker."""
        return self.broker(node).log.read_text(errors="replace")

    @property
    def remote_storage(self) -> Path | None:
        """The folder into which segments are moved; None without tiered storage."""
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
        """Create a topic, and wait until all serving brokers see its leaders.

        Args:
            name: The name. Default: ``topic-`` and 12 random hexadecimal digits.
            partitions: The number of partitions. Default: 1.
            replication_factor: The number of replicas. Default: three, or the number of
                brokers if that is less.
            config: Topic settings by Kafka's names. Default: none.

        Returns:
            The name.

        Raises:
            kafka.errors.KafkaError: The controller refused the topic.
            ClusterError: Not all brokers knew the topic within 20 s, or no broker is
                running.
            TypeError: A number is not a whole number.
            ValueError: A number is below 1.
        """
        whole_number("create_topic(): partitions", partitions, 1)
        if replication_factor is not None:
            whole_number("create_topic(): replication_factor", replication_factor, 1)
        factor = replication_factor or min(3, len(self.brokers))
        return topics.create_topic(
            self._serving(), name, partitions, factor, config or {}
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until no serving broker knows it any more.

        Raises:
            kafka.errors.KafkaError: The controller refused, or there is no such topic.
            ClusterError: A broker still knew the topic after 20 s, or none is running.
        """
        topics.delete_topic(self._serving(), name)

    def alter_topic(self, name: str, config: Mapping[str, object]) -> None:
        """Change settings of a topic, and wait until all serving brokers have them.

        Raises:
            kafka.errors.KafkaError: The controller refused a setting.
            ClusterError: Not all brokers had them within 20 s, or none is running.
        """
        topics.alter_topic(self._serving(), name, config)

    def grant(self, user: str, operation: str, resource: str, name: str) -> None:
        """Allow a user an operation, and wait until all serving brokers know it.

        >>> cluster.grant("bob", "READ", "TOPIC", "orders")  # doctest: +SKIP

        Args:
            user: The user's name.
            operation: Kafka's name of the operation (``READ``, ``WRITE``, ``DESCRIBE``,
                ``ALL``).
            resource: Kafka's name of the kind of resource (``TOPIC``, ``GROUP``,
                ``CLUSTER``, ``TRANSACTIONAL_ID``).
            name: The resource's name; ``*`` means all of the kind, and
                ``kafka-cluster`` is the name of the cluster.

        Raises:
            kafka.errors.SecurityDisabledError: The cluster has no users.
            ClusterError: There is no such operation or resource, or not all brokers
                knew the grant in time.
        """
        topics.grant(self._serving(), user, operation, resource, name)

    @property
    def _running(self) -> Running:
        if self._state is None:
            raise ClusterError("the cluster is not running; use it in a with statement")
        return self._state

    def _serving(self) -> list[str]:
        return [broker.address for broker in self.brokers if broker.is_serving]
