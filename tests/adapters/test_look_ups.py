"""Errors of calls that only read have a verdict, and name their request."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as PythonPartition

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from kafkaguard import Action, errors, guard

LOOK_UPS = {
    "ListOffsets": (
        "TOPIC_AUTHORIZATION_FAILED",
        ("beginning_offsets", "end_offsets", "offsets_for_times"),
    ),
    "OffsetFetch": ("GROUP_AUTHORIZATION_FAILED", ("committed",)),
}
CASES = [(api, name, code) for api, (code, names) in LOOK_UPS.items() for name in names]


def argument(name, place):
    """Return the argument of a look-up of kafka-python or aiokafka."""
    if name == "committed":
        return place
    return {place: 0} if name == "offsets_for_times" else [place]


@pytest.mark.parametrize(("api", "name", "code"), CASES)
def test_look_ups_of_kafka_python_have_a_verdict(
    kafka_topic, kafka_faults, api, name, code
):
    """Each is an error of both classes."""
    kafka_faults.on(api).fail(code)
    bare = KafkaConsumer(
        bootstrap_servers=kafka_faults.bootstrap_servers, group_id="look-ups"
    )
    with guard(bare) as consumer, pytest.raises(errors.AuthorizationError) as caught:
        getattr(consumer, name)(argument(name, PythonPartition(kafka_topic, 0)))
    assert (caught.value.api, caught.value.verdict.action) == (api, Action.CONFIGURE)


@pytest.mark.parametrize(("api", "name", "code"), CASES[:3])
def test_look_ups_of_aiokafka_have_a_verdict(
    kafka_topic, kafka_faults, api, name, code
):
    """The client asks for the committed offsets of a group in its own task."""
    kafka_faults.on(api).fail(code)

    async def look_up():
        client = AIOKafkaConsumer(bootstrap_servers=kafka_faults.bootstrap_servers)
        async with guard(client) as consumer:
            await getattr(consumer, name)(argument(name, AioPartition(kafka_topic, 0)))

    with pytest.raises(errors.AuthorizationError) as caught:
        asyncio.run(look_up())
    assert (caught.value.api, caught.value.verdict.action) == (api, Action.CONFIGURE)


@pytest.mark.parametrize("name", ["get_watermark_offsets", "offsets_for_times"])
def test_look_ups_of_confluent_kafka_have_a_verdict(kafka_topic, kafka_faults, name):
    """Nothing is in doubt where a read has failed, whatever the code."""
    kafka_faults.on("ListOffsets").fail("UNKNOWN_SERVER_ERROR")
    config = {"bootstrap.servers": kafka_faults.bootstrap_servers, "group.id": "g"}
    consumer = guard(factory=Consumer, config=config)
    place = TopicPartition(kafka_topic, 0)
    try:
        with pytest.raises(errors.KafkaGuardError) as caught:
            getattr(consumer, name)(place if name[0] == "g" else [place], 10)
    finally:
        consumer.close()
    assert (caught.value.api, caught.value.verdict.written) == ("ListOffsets", "no")


def test_reads_of_an_admin_of_kafka_python_have_a_verdict(kafka_faults):
    """As its changes."""
    kafka_faults.on("FindCoordinator").fail("GROUP_AUTHORIZATION_FAILED")
    bare = KafkaAdminClient(bootstrap_servers=kafka_faults.bootstrap_servers)
    with guard(bare) as admin, pytest.raises(errors.AuthorizationError) as caught:
        admin.describe_groups(["g"])
    assert caught.value.api == "DescribeGroups"


def test_reads_of_an_admin_of_confluent_kafka_have_a_verdict(kafka_topic, kafka_faults):
    """As its changes; a call may return one future, several, or none."""
    config = {"bootstrap.servers": kafka_faults.bootstrap_servers}
    with guard(factory=AdminClient, config=config) as admin:
        assert kafka_topic in admin.list_topics(timeout=10).topics
        assert admin.describe_cluster().result(10).nodes
        kafka_faults.on("DescribeConfigs").fail("TOPIC_AUTHORIZATION_FAILED")
        resource = ConfigResource(ConfigResource.Type.TOPIC, kafka_topic)
        (future,) = admin.describe_configs([resource]).values()
        with pytest.raises(errors.AuthorizationError) as caught:
            future.result(10)
    assert caught.value.api == "DescribeConfigs"
