"""kafka-python's calls."""

from __future__ import annotations

import contextlib
import re
import time

from kafka import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
    errors,
)
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

from tests.atlas.caller import (
    LASTS_S,
    LIMIT_MS,
    LIMIT_S,
    OF_CONNECTIONS,
    AnsweredError,
    Caller,
)

_PRODUCER = {
    "delivery_timeout_ms": LIMIT_MS,
    "request_timeout_ms": 2000,
    "max_block_ms": LIMIT_MS,
    "bootstrap_timeout_ms": LIMIT_MS,
}
SETTINGS = {
    "producer": _PRODUCER,
    "transactions": {**_PRODUCER, "transaction_timeout_ms": 10_000},
    "consumer": {
        "request_timeout_ms": LIMIT_MS,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 200,
        "timeout_ms of each call": LIMIT_MS,
    },
    "admin": {"request_timeout_ms": LIMIT_MS, "bootstrap_timeout_ms": LIMIT_MS},
}
#: How an error stands in what a call returns.
_ANSWERED = re.compile(r"\[Error (-?\d+)\]|'error_code': (-?[1-9]\d*)")


def _offset(offset):
    return OffsetAndMetadata(offset, "", -1)


class _Python(Caller):
    def make(self, factory, kind, **more):
        """Make the client."""
        config = {k: v for k, v in SETTINGS[kind].items() if " " not in k}
        config |= {"client_id": self.world["name"], **self.world["access"], **more}
        self.client = self.guard(factory, config)


class Sending(_Python):
    """A producer."""

    def open(self):
        """Know the topic, where its metadata are not the question."""
        if self.world["api"] not in OF_CONNECTIONS:
            self.make(KafkaProducer, "producer")
        if self.world["api"] == "Produce":
            self.client.partitions_for(self.world["topic"])

    def call(self, value=b"first"):
        """Send a record."""
        if self.client is None:
            self.make(KafkaProducer, "producer")
        self.client.send(self.world["topic"], value, b"key").get(2 * LASTS_S)

    def again(self):
        """Send another."""
        self.call(b"second")

    def close(self):
        """Close."""
        self.client.close(timeout=2)


class Transacting(Sending):
    """A transactional producer."""

    def open(self):
        """Get the id of the producer, where that is not the question."""
        name = self.world["name"]
        self.make(KafkaProducer, "transactions", transactional_id=name)
        if self.world["api"] != "InitProducerId":
            self.client.init_transactions()
            self.client.partitions_for(self.world["topic"])

    def call(self, value=b"first"):
        """Write a record and an offset in a transaction."""
        if self.world["api"] == "InitProducerId":
            self.client.init_transactions()
        self.transact(value)

    def transact(self, value):
        """Make one transaction."""
        self.client.begin_transaction()
        super().call(value)
        offsets = {TopicPartition(self.world["topic"], 0): _offset(1)}
        self.client.send_offsets_to_transaction(offsets, self.world["group"])
        self.client.commit_transaction()

    def again(self):
        """Abort, as a user would, and make another."""
        if self.world["api"] == "InitProducerId":
            try:
                self.transact(b"second")
            except Exception:
                self.client.init_transactions()
                self.transact(b"second")
            return
        if self.failed:
            with contextlib.suppress(Exception):
                self.client.abort_transaction()
        self.transact(b"second")


class Reading(_Python):
    """A consumer with an assigned partition."""

    def open(self):
        """Assign the partition."""
        more = {} if self.world["api"] == "Fetch" else {"group_id": self.world["group"]}
        self.make(KafkaConsumer, "consumer", enable_auto_commit=False, **more)
        self.place = TopicPartition(self.world["topic"], 0)
        self.client.partitions_for_topic(self.world["topic"])
        if self.world["api"] == "OffsetCommit":
            self.client.committed(self.place)
        if self.world["api"] in ("Fetch", "OffsetCommit"):
            self.client.assign([self.place])

    def call(self):
        """Make the call for the request."""
        api = self.world["api"]
        if api == "Fetch":
            self.client.seek(self.place, 0)
            self.until(lambda: self.client.poll(200))
        elif api == "ListOffsets":
            self.client.end_offsets([self.place], timeout_ms=LIMIT_MS)
        elif api == "OffsetCommit":
            self.client.commit({self.place: _offset(1)}, timeout_ms=LIMIT_MS)
        else:
            self.client.committed(self.place, timeout_ms=LIMIT_MS)

    def close(self):
        """Close."""
        self.client.close(timeout_ms=2000)


class Joining(Reading):
    """A member of a group."""

    def open(self):
        """Join, where the question is what comes after."""
        self.make(
            KafkaConsumer,
            "consumer",
            group_id=self.world["group"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self.client.subscribe([self.world["topic"]])
        if self.world["api"] == "Heartbeat":
            self.until(lambda: self.client.poll(200))

    def call(self):
        """Read a record; as a member, the one that comes after the answer."""
        if self.world["api"] == "Heartbeat":
            end = time.monotonic() + LIMIT_S
            while not self.met() and time.monotonic() < end:
                self.client.poll(100)
        self.feed()
        self.until(lambda: self.client.poll(200))


class Administrating(_Python):
    """An admin client."""

    def open(self):
        """Connect."""
        self.make(KafkaAdminClient, "admin")

    def call(self):
        """Make the call for the request."""
        client, topic = self.client, self.world["topic"]
        api, name, group = self.world["api"], self.world["spare"], self.world["group"]
        answer = None
        if api == "CreateTopics":
            client.create_topics([NewTopic(name, 1, 1)])
        elif api == "DeleteTopics":
            client.delete_topics([topic])
        elif api == "DescribeConfigs":
            answer = client.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic)]
            )
        elif api == "IncrementalAlterConfigs":
            settings = {"retention.ms": "3600000"}
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=settings)
            answer = client.alter_configs([resource])
        elif api == "DescribeLogDirs":
            answer = client.describe_log_dirs()
        elif api == "DescribeGroups":
            answer = client.describe_groups([group])
        else:
            answer = client.delete_groups([group])
            if answer[group] != "OK":
                named = getattr(errors, answer[group], None)
                raise AnsweredError(getattr(named, "errno", None))
        if code := _ANSWERED.search(repr(answer)):
            raise AnsweredError(int(code[1] or code[2]))

    def again(self):
        """Ask for something that is always there."""
        self.client.list_topics()

    def close(self):
        """Close."""
        self.client.close()
