"""Every code of the broker can be answered to the APIs that clients live by."""

from __future__ import annotations

import pytest

from kafkaguard._errors.generated import BY_CODE
from kafkaguard._verdicts.apis import API_KEYS
from tests.testing.proxy import raw_requests as raw
from tests.testing.proxy.raw_client import RawClient

#: For each API its request, and where its answer has the code of the item asked for.
APIS = {
    "Produce": (raw.produce, lambda a: a.responses[0].partition_responses[0]),
    "Fetch": (raw.fetch, lambda a: a.responses[0].partitions[0]),
    "ListOffsets": (raw.list_offsets, lambda a: a.topics[0].partitions[0]),
    "OffsetCommit": (raw.offset_commit, lambda a: a.topics[0].partitions[0]),
    "OffsetFetch": (raw.offset_fetch, lambda a: a.groups[0]),
    "Metadata": (raw.list_metadata, lambda a: a.topics[0]),
    "FindCoordinator": (raw.find_coordinator, lambda a: a.coordinators[0]),
    "InitProducerId": (raw.init_producer_id, lambda a: a),
    "EndTxn": (raw.end_txn, lambda a: a),
    "CreateTopics": (raw.create_topics, lambda a: a.topics[0]),
    "DescribeConfigs": (raw.describe_configs, lambda a: a.results[0]),
    "DescribeLogDirs": (raw.describe_log_dirs, lambda a: a),
    "JoinGroup": (raw.join_group, lambda a: a),
    "Heartbeat": (raw.heartbeat, lambda a: a),
}
#: Codes that a broker answers to these APIs at another level.
ELSEWHERE = {
    ("Fetch", "FETCH_SESSION_ID_NOT_FOUND"): lambda a: a,
    ("Fetch", "FETCH_SESSION_TOPIC_ID_ERROR"): lambda a: a,
    ("Fetch", "INVALID_FETCH_SESSION_EPOCH"): lambda a: a,
    ("Metadata", "REBOOTSTRAP_REQUIRED"): lambda a: a,
    **{
        ("OffsetFetch", name): lambda a: a.groups[0].topics[0].partitions[0]
        for name in (
            "TOPIC_AUTHORIZATION_FAILED",
            "UNKNOWN_TOPIC_ID",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UNSTABLE_OFFSET_COMMIT",
        )
    },
}


@pytest.mark.parametrize("written", [False, True], ids=["instead", "after"])
@pytest.mark.parametrize("api", [api for api in APIS if api != "JoinGroup"])
def test_every_code_at_its_place(api, written, kafka_faults, kafka_topic):
    """Each of the 137 codes is answered where a broker puts it, and nowhere else."""
    _try_every_code(api, written, kafka_faults, kafka_topic)


def test_every_code_to_join_group(kafka_faults, kafka_topic):
    """The same for JoinGroup, where the broker would wait for other members."""
    _try_every_code("JoinGroup", False, kafka_faults, kafka_topic)


def _try_every_code(api, written, proxy, topic):
    make, usual_place = APIS[api]
    with RawClient(proxy.bootstrap_servers) as client:
        raw.await_coordinator(client)
        topic_id = client.topic_id(topic)
        request = make(client.version(API_KEYS[api]), topic, topic_id)
        for code, error in BY_CODE.items():
            proxy.on(api).fail(code, times=1, written=written)
            place = ELSEWHERE.get((api, error.name), usual_place)
            answer = client.ask(request)
            assert code == place(answer).error_code, error.name
            assert (code,) == proxy.requests(api)[-1].codes, error.name
    assert len(BY_CODE) == sum(bool(r.faults) for r in proxy.requests(api))


def test_an_error_partition_of_fetch_carries_empty_records(kafka_faults, kafka_topic):
    """Null instead of empty records makes librdkafka spin."""
    kafka_faults.on("Fetch").fail("KAFKA_STORAGE_ERROR")
    with RawClient(kafka_faults.bootstrap_servers) as client:
        topic_id = client.topic_id(kafka_topic)
        answer = client.ask(raw.fetch(client.version(1), kafka_topic, topic_id))
    partition = answer.responses[0].partitions[0]
    assert partition.records == b""
    assert (partition.high_watermark, partition.last_stable_offset) == (-1, -1)


def test_records_are_blamed_one_by_one(kafka_faults, kafka_topic):
    """Produce v8 and up name the records of a batch that were refused."""
    kafka_faults.on("Produce").fail("INVALID_RECORD", records=[0, 3], message="no key")
    with RawClient(kafka_faults.bootstrap_servers) as client:
        topic_id = client.topic_id(kafka_topic)
        answer = client.ask(raw.produce(client.version(0), kafka_topic, topic_id))
    partition = answer.responses[0].partition_responses[0]
    assert [record.batch_index for record in partition.record_errors] == [0, 3]
    assert partition.error_message == "no key"
    assert partition.base_offset == -1


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_of_produce_can_be_refused(version, kafka_faults, kafka_topic):
    """From v3, the oldest of Kafka 4, the topic is found by its name or by its id."""
    kafka_faults.on("Produce", topic=kafka_topic, partition=0).fail(6)
    with RawClient(kafka_faults.bootstrap_servers) as client:
        topic_id = client.topic_id(kafka_topic)
        answer = client.ask(raw.produce(version, kafka_topic, topic_id))
    assert answer.responses[0].partition_responses[0].error_code == 6


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_can_be_refused(version, kafka_faults, kafka_topic):
    """From v4, the oldest of Kafka 4, the topic is found by its name or by its id."""
    kafka_faults.on("Fetch", topic=kafka_topic, partition=0).fail(6)
    with RawClient(kafka_faults.bootstrap_servers) as client:
        topic_id = client.topic_id(kafka_topic)
        answer = client.ask(raw.fetch(version, kafka_topic, topic_id))
    assert answer.responses[0].partitions[0].error_code == 6
