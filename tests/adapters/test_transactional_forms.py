"""Every form of the transactional calls' arguments, guarded beside bare.

The calls are made one after the other by two transactional producers of each client.
"""

from __future__ import annotations

import inspect

import confluent_kafka
import kafka
import pytest

import aiokafka
from kafkaguard import errors, guard

#: Stands for the name of a group, or for a consumer's metadata of it.
GROUP = object()
NOPE = ((), {"nope": 1})


def rows(name, *forms):
    """Return calls of a method; a form without keyword arguments is a tuple of them."""
    return [
        (name, *(form if len(form) == 2 and isinstance(form[1], dict) else (form, {})))
        for form in forms
    ]


def calls(offsets, names, bad, timeouts=()):
    """Return all calls: wrong ones first, then two transactions.

    Args:
        offsets: Offsets in the client's form.
        names: The names of the arguments of ``send_offsets_to_transaction``; empty: the
            client takes them by position only, and the guard by name, too.
        bad: Offsets in other forms.
        timeouts: Arguments of the calls that end a transaction.
    """
    add = "send_offsets_to_transaction"
    ends = "commit_transaction", "abort_transaction"
    named = [((), dict(zip(names, (offsets, GROUP), strict=True)))] if names else []
    return [
        *rows("begin_transaction", (1,), NOPE, ((), {"timeout": 1})),
        *(row for end in ends for row in rows(end, (), ("x",), (1, 2, 3), NOPE)),
        *rows(add, (), (offsets,), (offsets, GROUP, 1, 2), NOPE, (offsets, GROUP)),
        *rows("begin_transaction", ()),
        *rows("begin_transaction", ()),
        *rows(add, (offsets, GROUP), *named, *((each, GROUP) for each in bad)),
        *rows("commit_transaction", *(timeouts or [()])),
        *rows("begin_transaction", ()),
        *rows("abort_transaction", *(timeouts or [()])),
    ]


class KafkaPython:
    """kafka-python."""

    place = kafka.TopicPartition("forms", 0)
    offsets = {place: kafka.OffsetAndMetadata(1, "", -1)}  # noqa: RUF012 - never changed
    calls = calls(offsets, ("offsets", "group_metadata"), ())

    def open(self, servers, name):
        """Open a bare producer that is initialised."""
        producer = kafka.KafkaProducer(
            bootstrap_servers=servers, transactional_id=name, max_block_ms=20_000
        )
        return producer, producer.init_transactions

    group = "g"


class Confluent:
    """confluent-kafka."""

    offsets = [confluent_kafka.TopicPartition("forms", 0, 1)]  # noqa: RUF012 - never changed
    calls = calls(offsets, (), (5, [5], None), [(20,), ()])

    def open(self, servers, name):
        """Open a bare producer that is initialised."""
        self.consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": servers, "group.id": "g"}
        )
        self.group = self.consumer.consumer_group_metadata()
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "transactional.id": name}
        )
        return producer, producer.init_transactions


class Aiokafka:
    """aiokafka."""

    offsets = {aiokafka.TopicPartition("forms", 0): 1}  # noqa: RUF012 - never changed
    calls = calls(offsets, ("offsets", "group_id"), (5, {"t": 1}))
    group = "g"

    def open(self, servers, name):
        """Open a bare producer; the loop starts it."""
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, transactional_id=name
        )
        return producer, producer.start


async def ends(producer, client):
    """Return how each call has ended: None, or the exception's type."""
    told = []
    for name, given, named in client.calls:
        args = [client.group if each is GROUP else each for each in given]
        more = {k: client.group if v is GROUP else v for k, v in named.items()}
        try:
            result = getattr(producer, name)(*args, **more)
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:
            result = error
        told.append(result)
    return told


def _name(client):
    return type(client).__name__


@pytest.mark.parametrize("client", [KafkaPython(), Confluent(), Aiokafka()], ids=_name)
async def test_each_form_of_a_transactional_call_ends_as_with_the_bare_client(
    kafka_cluster, kafka_topic, client
):
    """It returns the same, or raises an error of the client's class."""
    if "forms" not in _topics(kafka_cluster):
        kafka_cluster.create_topic("forms")
    told = []
    for is_guarded in (False, True):
        servers, name = kafka_cluster.bootstrap_servers, f"{kafka_topic}-{is_guarded}"
        producer, start = client.open(servers, name)
        if is_guarded:
            config = {"bootstrap.servers": servers, "transactional.id": name}
            more = {"config": config} if isinstance(client, Confluent) else {}
            producer = guard(producer, **more)
            start = getattr(producer, start.__name__)
        if inspect.iscoroutinefunction(start):
            await start()
        else:
            start()
        told.append(await ends(producer, client))
        stop = getattr(producer, "stop", None) or producer.close
        if inspect.isawaitable(stopped := stop()):
            await stopped
        if isinstance(client, Confluent):
            client.consumer.close()
    differences = [
        (call, theirs, ours)
        for call, theirs, ours in zip(client.calls, *told, strict=True)
        if not _is_alike(theirs, ours)
    ]
    assert differences == []


def _is_alike(theirs, ours):
    if not isinstance(theirs, Exception):
        return ours == theirs
    if isinstance(theirs, AssertionError):  # aiokafka's, about the order of the calls
        return isinstance(ours, errors.ClientStateError)
    return isinstance(ours, type(theirs))


def _topics(cluster):
    with kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        return consumer.topics()
