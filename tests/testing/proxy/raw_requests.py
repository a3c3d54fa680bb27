"""One request of each API that the codes are tried on, about one topic and one group."""

from __future__ import annotations

import time

from kafka.protocol import admin, consumer, metadata, producer
from kafka.record.memory_records import MemoryRecordsBuilder

GROUP = "a-group"


def _one_record():
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1000)
    builder.append(timestamp=0, key=b"k", value=b"v")
    builder.close()
    return bytes(builder.buffer())


RECORDS = _one_record()


def _nested(schema, path, version, **fields):
    for name in path.split("."):
        schema = getattr(schema, name)
    return schema(version=version, **fields)


def produce(version, topic, topic_id, acks=-1, partitions=(0,)):
    """Write to partitions."""
    request = producer.ProduceRequest
    parts = [
        _nested(
            request,
            "TopicProduceData.PartitionProduceData",
            version,
            index=index,
            records=RECORDS,
        )
        for index in partitions
    ]
    data = _nested(
        request,
        "TopicProduceData",
        version,
        name=topic,
        topic_id=topic_id,
        partition_data=parts,
    )
    return request(version=version, acks=acks, timeout_ms=1000, topic_data=[data])


def fetch(version, topic, topic_id, partitions=(0,), session=(0, -1), max_wait_ms=1):
    """Read from partitions."""
    request = consumer.FetchRequest
    parts = [
        _nested(
            request,
            "FetchTopic.FetchPartition",
            version,
            partition=index,
            fetch_offset=0,
            partition_max_bytes=1000,
        )
        for index in partitions
    ]
    topics = [
        _nested(
            request,
            "FetchTopic",
            version,
            topic=topic,
            topic_id=topic_id,
            partitions=parts,
        )
    ]
    session_id, epoch = session
    return request(
        version=version,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=10_000,
        session_id=session_id,
        session_epoch=epoch,
        topics=topics if partitions else [],
        forgotten_topics_data=[],
        rack_id="",
    )


def list_offsets(version, topic, topic_id):
    """Ask for the end of a partition."""
    request = consumer.ListOffsetsRequest
    parts = [
        _nested(
            request,
            "ListOffsetsTopic.ListOffsetsPartition",
            version,
            partition_index=0,
            timestamp=-1,
        )
    ]
    topics = [
        _nested(request, "ListOffsetsTopic", version, name=topic, partitions=parts)
    ]
    return request(
        version=version,
        replica_id=-1,
        isolation_level=0,
        topics=topics,
        timeout_ms=1000,
    )


def offset_commit(version, topic, topic_id):
    """Commit an offset."""
    request = consumer.OffsetCommitRequest
    path = "OffsetCommitRequestTopic.OffsetCommitRequestPartition"
    parts = [
        _nested(
            request,
            path,
            version,
            partition_index=0,
            committed_offset=1,
            committed_metadata="",
        )
    ]
    topics = [
        _nested(
            request,
            "OffsetCommitRequestTopic",
            version,
            name=topic,
            topic_id=topic_id,
            partitions=parts,
        )
    ]
    return request(
        version=version,
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=topics,
    )


def offset_fetch(version, topic, topic_id):
    """Ask for a committed offset, of one group."""
    request = consumer.OffsetFetchRequest
    path = "OffsetFetchRequestGroup.OffsetFetchRequestTopics"
    topics = [
        _nested(
            request, path, version, name=topic, topic_id=topic_id, partition_indexes=[0]
        )
    ]
    groups = [
        _nested(
            request, "OffsetFetchRequestGroup", version, group_id=GROUP, topics=topics
        )
    ]
    return request(version=version, groups=groups, require_stable=False)


def list_metadata(version, topic, topic_id):
    """Ask for a topic's leaders."""
    topics = [
        metadata.MetadataRequest.MetadataRequestTopic(version=version, name=topic)
    ]
    return metadata.MetadataRequest(
        version=version, topics=topics, allow_auto_topic_creation=False
    )


def find_coordinator(version, topic, topic_id):
    """Ask for a group's coordinator."""
    return metadata.FindCoordinatorRequest(
        version=version, key_type=0, coordinator_keys=[GROUP]
    )


def init_producer_id(version, topic, topic_id):
    """Ask for the id of a producer."""
    return producer.InitProducerIdRequest(
        version=version, transactional_id=None, transaction_timeout_ms=1000
    )


def end_txn(version, topic, topic_id):
    """Commit a transaction."""
    return producer.EndTxnRequest(
        version=version,
        transactional_id="t",
        producer_id=1,
        producer_epoch=0,
        committed=True,
    )


def create_topics(version, topic, topic_id):
    """Create a topic (in fact only try to: it exists)."""
    request = admin.CreateTopicsRequest
    new = _nested(
        request,
        "CreatableTopic",
        version,
        name=topic,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[],
    )
    return request(version=version, topics=[new], timeout_ms=1000, validate_only=True)


def describe_configs(version, topic, topic_id):
    """Ask for a topic's settings."""
    request = admin.DescribeConfigsRequest
    resource = _nested(
        request,
        "DescribeConfigsResource",
        version,
        resource_type=2,
        resource_name=topic,
        configuration_keys=None,
    )
    return request(version=version, resources=[resource])


def describe_log_dirs(version, topic, topic_id):
    """Ask for the directories of a broker."""
    return admin.DescribeLogDirsRequest(version=version, topics=None)


def join_group(version, topic, topic_id):
    """Join a group."""
    request = consumer.JoinGroupRequest
    protocol = _nested(
        request, "JoinGroupRequestProtocol", version, name="range", metadata=b""
    )
    return request(
        version=version,
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )


def heartbeat(version, topic, topic_id):
    """Tell that a member lives."""
    return consumer.HeartbeatRequest(
        version=version, group_id=GROUP, generation_id=1, member_id="m"
    )


def await_coordinator(client):
    """Wait until the group has a coordinator, for at most 20 seconds."""
    deadline = time.monotonic() + 20
    await_coordinator_known(client)
    while time.monotonic() < deadline:
        request = consumer.OffsetFetchRequest
        group = _nested(
            request, "OffsetFetchRequestGroup", 8, group_id=GROUP, topics=None
        )
        answer = client.ask(request(version=8, groups=[group], require_stable=False))
        if answer.groups[0].error_code == 0:
            return
    raise TimeoutError("no coordinator within 20 s")


def await_coordinator_known(client):
    """Wait until some broker is the group's coordinator, for at most 20 seconds."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        answer = client.ask(find_coordinator(4, None, None))
        if answer.coordinators[0].error_code == 0:
            return
    raise TimeoutError("no coordinator within 20 s")
