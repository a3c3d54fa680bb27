"""Where chaos happens: three brokers with users and small disks, behind a proxy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing, suppress
from unittest.mock import patch

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from kafkaguard.testing import FaultProxy, KafkaCluster
from kafkaguard.testing.cluster import launch

LISTENER = "SASL_PLAIN"
#: What each actor may do, until it is taken away.
RIGHTS = (
    ("TOPIC", "READ"),
    ("TOPIC", "WRITE"),
    ("TOPIC", "DESCRIBE"),
    ("TOPIC", "DESCRIBE_CONFIGS"),
    ("GROUP", "READ"),
    ("TRANSACTIONAL_ID", "WRITE"),
)
#: What is left of these when its implication READ and WRITE is gone is no fault.
TAKEN = tuple(each for each in RIGHTS if not each[1].startswith("DESCRIBE"))
DISK_MB = 256
_MARK = "KAFKAGUARD_CHAOS_MOUNTS"


def enter_mounts():
    """Run the program again where its mounts are its own, and end with it.

    Without ``unshare``, or without the right to use it, brokers have no small disks.
    """
    command = ["unshare", "--mount"]
    if os.geteuid():
        command.append("--map-root-user")
    if _MARK in os.environ or not shutil.which(command[0]):
        return
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        return
    os.execvpe(
        command[0],
        [*command, sys.executable, *sys.orig_argv[1:]],
        {**os.environ, _MARK: "1"},
    )


class Ground:
    """A cluster, its proxy, and what can be done to both.

    Args:
        users: The names of the actors.

    Attributes:
        cluster: Three brokers; the plain listener is not behind the proxy.
        proxy: In front of the listener that the actors use.
        disks: Each broker's second log directory, on a file system of its own.
    """

    def __init__(self, users):
        self.disks = {}
        self._users = {name: f"word-of-{name}" for name in users}
        self.cluster = KafkaCluster(brokers=3, users=self._users)

    def __enter__(self):
        """Start the brokers and the proxy."""
        original = launch.node_settings

        def settings(node, folder, *rest):
            made = original(node, folder, *rest)
            if disk := self._mount(folder / f"disk-{node}"):
                self.disks[node] = disk
                made["log.dirs"] = f"{made['log.dirs']},{disk}"
            return made

        with patch.object(launch, "node_settings", settings):
            self.cluster.start()
        try:
            with self.admin() as admin:
                admin.create_acls(
                    [self._acl(user, *each) for user in self._users for each in RIGHTS]
                )
            for user in self._users:
                self.give(user, *RIGHTS[0])
            upstream = self.cluster.listener(LISTENER).bootstrap_servers
            self.proxy = FaultProxy(upstream, journal_size=2_000).start()
            look_up = self.settings(self.users[0], "kafka-python")
            with closing(KafkaAdminClient(**look_up)) as admin:
                admin.list_topics()  # so the proxy knows all brokers before a fault
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        """End both, and take the disks away."""
        self.proxy.stop()
        self._end()

    def _end(self):
        for broker in self.cluster.brokers:
            if broker.is_running:
                broker.kill()
        for disk in self.disks.values():
            subprocess.run(["umount", disk], check=False)
        self.cluster.stop()

    def _mount(self, folder):
        """Give a broker a small disk, in the program's own mounts only."""
        if _MARK not in os.environ:
            return None
        folder.mkdir()
        size = f"size={DISK_MB}m"
        command = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder]
        done = subprocess.run(command, capture_output=True, check=False)
        return None if done.returncode else folder

    def settings(self, user, client):
        """Return the settings with which an actor's client connects."""
        made = self.cluster.client_config(LISTENER, client=client, user=user)
        direct = self.cluster.listener(LISTENER).bootstrap_servers
        behind = self.proxy.bootstrap_servers
        return {k: behind if v == direct else v for k, v in made.items()}

    def admin(self):
        """Return a client that may do everything; it closes itself."""
        return closing(
            KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap_servers)
        )

    @property
    def users(self):
        """The names of the actors."""
        return list(self._users)

    def take(self, user, kind, operation):
        """Take a right away."""
        with self.admin() as admin:
            admin.delete_acls([self._acl(user, kind, operation, ACLFilter)])

    def give(self, user, kind, operation):
        """Give a right back; all brokers know it."""
        self.cluster.grant(user, operation, kind, "*")

    @staticmethod
    def _acl(user, kind, operation, make=ACL):
        pattern = ResourcePattern if make is ACL else ResourcePatternFilter
        return make(
            principal=f"User:{user}",
            host="*",
            operation=ACLOperation[operation],
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=pattern(
                ResourceType[kind], "*", ACLResourcePatternType.LITERAL
            ),
        )

    def controller(self):
        """Return the broker that leads the controllers' quorum."""
        with self.admin() as admin:
            (topic,) = admin.describe_metadata_quorum()["topics"]
        return self.cluster.broker(topic["partitions"][0]["leader_id"])

    def partitions(self, topic):
        """Return how many partitions a topic has."""
        with self.admin() as admin:
            (found,) = admin.describe_topics([topic])
        return len(found["partitions"])

    def grow(self, topic):
        """Add a partition to a topic."""
        count = self.partitions(topic) + 1
        with self.admin() as admin:
            admin.create_partitions({topic: count})

    def fill(self, node):
        """Leave no free byte on a broker's disk."""
        with (self.disks[node] / "ballast").open("wb", buffering=0) as ballast:
            for size in (1 << 20, 4096):
                with suppress(OSError):
                    while True:
                        ballast.write(bytes(size))

    def empty(self, node):
        """Give the bytes back."""
        (self.disks[node] / "ballast").unlink(missing_ok=True)
