"""confluent-kafka's calls."""

from __future__ import annotations

import contextlib
import time

from confluent_kafka import (
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from tests.atlas.caller import (
    LASTS_S,
    LIMIT_MS,
    LIMIT_S,
    OF_CONNECTIONS,
    AnsweredError,
    Caller,
    SilenceError,
)

_QUICK = {"socket.timeout.ms": 2000, "log_level": 0}
SETTINGS = {
    "producer": {**_QUICK, "message.timeout.ms": LIMIT_MS, "request.timeout.ms": 2000},
    "transactions": {
        **_QUICK,
        "transaction.timeout.ms": 10_000,
        "message.timeout.ms": LIMIT_MS,
        "request.timeout.ms": 2000,
        "timeout of each call": LIMIT_S,
    },
    "consumer": {
        **_QUICK,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 200,
        "timeout of each call": LIMIT_S,
    },
    "admin": {**_QUICK, "request_timeout of each call": LIMIT_S},
}


class _Confluent(Caller):
    def make(self, factory, kind, **more):
        """Make the client."""
        config = {k: v for k, v in SETTINGS[kind].items() if " " not in k}
        config |= {"client.id": self.world["name"], **self.world["access"], **more}
        config["error_cb"] = lambda _: None
        self.client = self.guard(factory, config)


class Sending(_Confluent):
    """A producer."""

    def open(self):
        """Know the topic, where its metadata are not the question."""
        if self.world["api"] not in OF_CONNECTIONS:
            self.make(Producer, "producer")
        if self.world["api"] == "Produce":
            self.client.list_topics(self.world["topic"], LIMIT_S)

    def call(self, value=b"first"):
        """Produce a record, and poll until its report."""
        if self.client is None:
            self.make(Producer, "producer")
        reports = []
        self.client.produce(
            self.world["topic"],
            value,
            b"key",
            on_delivery=lambda e, _: reports.append(e),
        )
        end = time.monotonic() + 2 * LASTS_S
        while not reports and time.monotonic() < end:
            self.client.poll(0.1)
        if not reports:
            raise SilenceError
        error = reports[0]
        if error is not None:
            raise getattr(error, "error", None) or KafkaException(error)

    def again(self):
        """Send another."""
        self.call(b"second")

    def close(self):
        """Close."""
        self.client.flush(2)
        if self.guarded:
            self.client.close(2)


class Transacting(Sending):
    """A transactional producer."""

    def open(self):
        """Get the id of the producer, where that is not the question."""
        name = self.world["name"]
        self.make(Producer, "transactions", **{"transactional.id": name})
        self.reader = Consumer(
            {"bootstrap.servers": self.world["direct"], "group.id": self.world["group"]}
        )
        if self.world["api"] != "InitProducerId":
            self.client.init_transactions(LASTS_S)
            self.client.list_topics(self.world["topic"], LIMIT_S)

    def call(self, value=b"first"):
        """Write a record and an offset in a transaction."""
        if self.world["api"] == "InitProducerId":
            self.client.init_transactions(LIMIT_S)
        self.transact(value)

    def transact(self, value):
        """Make one transaction."""
        self.client.begin_transaction()
        super().call(value)
        metadata = self.reader.consumer_group_metadata()
        self.client.send_offsets_to_transaction(
            [TopicPartition(self.world["topic"], 0, 1)], metadata, LIMIT_S
        )
        self.client.commit_transaction(LIMIT_S)

    def again(self):
        """Abort, as a user would, and make another."""
        if self.world["api"] == "InitProducerId":
            try:
                self.transact(b"second")
            except Exception:
                self.client.init_transactions(LIMIT_S)
                self.transact(b"second")
            return
        if self.failed:
            with contextlib.suppress(Exception):
                self.client.abort_transaction(LIMIT_S)
        self.transact(b"second")

    def close(self):
        """Close."""
        self.reader.close()
        super().close()


class Reading(_Confluent):
    """A consumer with an assigned partition."""

    def open(self):
        """Assign the partition."""
        self.make(
            Consumer,
            "consumer",
            **{
                "group.id": self.world["group"],
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            },
        )
        self.place = TopicPartition(self.world["topic"], 0)
        if self.world["api"] != "FindCoordinator":
            self.client.list_topics(self.world["topic"], LIMIT_S)
        if self.world["api"] == "OffsetCommit":
            self.client.committed([self.place], LIMIT_S)

    def poll(self):
        """Poll once; an error may stand in the message."""
        message = self.client.poll(0.2)
        if message is not None and message.error():
            raise AnsweredError(message.error().code())
        return message

    def call(self):
        """Make the call for the request."""
        api, topic = self.world["api"], self.world["topic"]
        if api == "Fetch":
            self.client.assign([TopicPartition(topic, 0, 0)])
            self.until(self.poll)
        elif api == "ListOffsets":
            self.client.get_watermark_offsets(self.place, LIMIT_S)
        elif api == "OffsetCommit":
            places = self.client.commit(
                offsets=[TopicPartition(topic, 0, 1)], asynchronous=False
            )
            self.check(places)
        else:
            self.check(self.client.committed([self.place], LIMIT_S))

    def check(self, places):
        """Raise the error that stands at a partition."""
        for each in places:
            if each.error:
                raise AnsweredError(each.error.code())

    def close(self):
        """Close."""
        self.client.close()


class Joining(Reading):
    """A member of a group."""

    def open(self):
        """Join, where the question is what comes after."""
        super().open()
        self.client.subscribe([self.world["topic"]])
        if self.world["api"] == "Heartbeat":
            self.until(self.poll)

    def call(self):
        """Read a record; as a member, the one that comes after the answer."""
        if self.world["api"] == "Heartbeat":
            end = time.monotonic() + LIMIT_S
            while not self.met() and time.monotonic() < end:
                self.poll()
        self.feed()
        self.until(self.poll)


class Administrating(_Confluent):
    """An admin client."""

    def open(self):
        """Connect."""
        self.make(AdminClient, "admin")
        self.client.list_topics(timeout=LIMIT_S)

    def call(self):
        """Make the call for the request."""
        client, topic = self.client, self.world["topic"]
        api, name, group = self.world["api"], self.world["spare"], self.world["group"]
        limit = {"request_timeout": LIMIT_S}
        if api == "CreateTopics":
            futures = client.create_topics([NewTopic(name, 1, 1)], **limit)
        elif api == "DeleteTopics":
            futures = client.delete_topics([topic], **limit)
        elif api == "DescribeConfigs":
            resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
            futures = client.describe_configs([resource], **limit)
        elif api == "IncrementalAlterConfigs":
            entry = ConfigEntry(
                "retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET
            )
            resource = ConfigResource("topic", topic, incremental_configs=[entry])
            futures = client.incremental_alter_configs([resource], **limit)
        elif api == "DescribeGroups":
            futures = client.describe_consumer_groups([group], **limit)
        else:
            futures = client.delete_consumer_groups([group], **limit)
        for future in futures.values():
            future.result(2 * LASTS_S)

    def again(self):
        """Ask for something that is always there."""
        self.client.list_topics(timeout=LIMIT_S)
