"""Rules for Produce: null keys, sizes, and whether a record was written."""

from __future__ import annotations

from kafkaguard import _errors as e
from kafkaguard._errors.base import Action
from kafkaguard._errors.librdkafka import LOCAL_CODES
from kafkaguard._verdicts.rules.rule import (
    CARRIES_RECORDS,
    CHANGES,
    NOT_REPEATABLE,
    PRODUCE,
    RECORDS_AND_OFFSETS,
    Rule,
    rule,
)

RULES: tuple[Rule, ...] = (
    rule(
        "null-key-behind-a-lost-code",
        Action.REJECT,
        "the client lost the code, but a compacted topic refuses records without a "
        "key: give it a key, or dead-letter it",
        on=(-1,),
        apis=PRODUCE,
        client=("aiokafka",),
        null_key=(True,),
        compacted=(True,),
        error_class=e.InvalidRecordKeyError,
        scenario="aiokafka shows 87 as -1; the known facts allow no other reason.",
        source="KIP-135; aiokafka.errors.for_code",
    ),
    rule(
        "null-key-on-compacted-topic",
        Action.REJECT,
        "a compacted topic refuses records without a key: give it a key, or "
        "dead-letter it",
        on=(87, 2),
        apis=PRODUCE,
        null_key=(True,),
        compacted=(True, None),
        error_class=e.InvalidRecordKeyError,
        scenario=(
            "The log cleaner needs keys. New brokers answer 87, old ones 2, which is "
            "retriable in their table, so clients repeat it two billion times."
        ),
        source="KIP-135; LogValidator; AKHQ #133, smallrye-reactive-messaging #2270",
    ),
    rule(
        "refused-alone",
        Action.REJECT,
        "the broker refuses this record",
        on=(87, e.BatchMateRefusedError),
        apis=PRODUCE,
        phase=("single",),
        scenario="record_errors names the record, or it was alone in its batch.",
        source="KIP-467; ProduceResponse.record_errors",
    ),
    rule(
        "batch-mate-refused",
        Action.RETRY,
        "another record of the same batch was refused: send this one again on its own",
        on=(87,),
        apis=PRODUCE,
        null_key=(False,),
        error_class=e.BatchMateRefusedError,
        scenario=(
            "One bad record fails its whole batch. No record of the batch was "
            "written, so sending the others again makes no duplicates."
        ),
        source="KIP-467; Sender.failBatch",
    ),
    rule(
        "batch-mate-refused-locally",
        Action.RETRY,
        "another record of the same batch was refused: send this one again on its own",
        on=(e.BatchMateRefusedError,),
        scenario="librdkafka's _INVALID_DIFFERENT_RECORD; nothing was written.",
        source="KIP-467; librdkafka RD_KAFKA_RESP_ERR__INVALID_DIFFERENT_RECORD",
    ),
    rule(
        "record-refused",
        Action.REJECT,
        "the broker refuses a record of this batch and does not name it: send each "
        "record alone, or pass null_key=",
        on=(87,),
        apis=PRODUCE,
        scenario="A null key on a compacted topic, a wrong timestamp, a broken schema.",
        source="KIP-467; LogValidator",
    ),
    rule(
        "damaged-on-the-way",
        Action.RETRY,
        "the checksum is wrong: try a few times; if it stays wrong, check whether the"
        " topic is compacted and the record has no key",
        on=(2,),
        apis=CARRIES_RECORDS,
        scenario=(
            "Rarely a damaged network frame. Old brokers also answer it for a null "
            "key on a compacted topic, and then every retry fails."
        ),
        source="KAFKA-4808; schema-registry #583",
    ),
    rule(
        "record-too-large-for-client",
        Action.REJECT,
        "the client itself refuses a record of this size: make it smaller, or raise "
        "the client's setting that the text names",
        on=(10, 18),
        apis=CARRIES_RECORDS,
        phase=("enqueue",),
        scenario=(
            "max_request_size or buffer_memory; librdkafka's message.max.bytes. The "
            "topic may allow the record."
        ),
        source="KafkaProducer.ensureValidRecordSize; librdkafka rd_kafka_msg_new",
    ),
    rule(
        "record-too-large",
        Action.REJECT,
        "the record is larger than the topic allows: make it smaller or raise "
        "max.message.bytes",
        on=(10, 18),
        apis=CARRIES_RECORDS,
        scenario=(
            "Also for a batch: a smaller batch may be accepted, a single record will "
            "not."
        ),
        source="KAFKA-8350; confluent-kafka-python #1774",
    ),
    rule(
        "record-never-valid",
        Action.REJECT,
        "the broker will never accept this record or request",
        on=(12, 17, 28, 32),
        apis=RECORDS_AND_OFFSETS,
        scenario="A timestamp in microseconds, a topic name with a slash.",
        source="KAFKA-14991; Topic.validate",
    ),
    rule(
        "queue-full",
        Action.WAIT,
        "the client's queue is full, and the record was not accepted: wait until the "
        "queue drains, then send the same record",
        on=(e.ClientQueueFullError,),
        apis=PRODUCE,
        scenario="produce() raises BufferError. Without a poll the queue never drains.",
        source="confluent-kafka-python #16, #781; kafka-python #985",
    ),
    rule(
        "already-written",
        Action.IGNORE,
        "the broker has this batch already",
        on=(46,),
        written="yes",
        scenario="The answer to the first copy was lost; the second was recognised.",
        source="KIP-98; Sender.completeBatch",
    ),
    rule(
        "sequence-protects",
        Action.RETRY,
        "send the same batch again: its sequence number lets the broker drop a second"
        " copy",
        on=(7, 20),
        apis=PRODUCE,
        written="maybe",
        idempotent=(True,),
        flag=(None,),
        scenario=(
            "A code in an answer, for a client that repeats the batch itself. Once "
            "the client "
            "has reported a failure, a new send() would get a new sequence number."
        ),
        source="KIP-98; ProducerStateManager",
    ),
    rule(
        "sequence-protects-after-refresh",
        Action.REFRESH,
        "send the same batch again when the client has refreshed its metadata: its "
        "sequence number lets the broker drop a second copy",
        on=(6, 13),
        apis=PRODUCE,
        written="maybe",
        idempotent=(True,),
        flag=(None,),
        scenario="As before, after a change of the leader or the connection.",
        source="KIP-98; ProducerStateManager",
    ),
    rule(
        "not-waited-for-replicas",
        Action.IN_DOUBT,
        "the leader has written it, but the replicas may not have it: sending it "
        "again may write it twice",
        on=(20,),
        apis=PRODUCE,
        written="maybe",
        scenario="The ISR shrank after the append.",
        source="kafka-python #1580; DelayedProduce",
    ),
    rule(
        "leader-lost-after-append",
        Action.IN_DOUBT,
        "the leader may have written it before it lost its role or its disk: sending it"
        " again may write it twice",
        on=(6, 56),
        apis=frozenset({"Produce"}),
        written="maybe",
        scenario=(
            "With acks=all a leader that steps down while it waits for its replicas "
            "answers 6 for what it has appended, and 56 if its log directory goes "
            "offline then."
        ),
        source="Partition.checkEnoughReplicasReachOffset; DelayedProduce",
    ),
    rule(
        "gave-up-before-handing-over",
        Action.RETRY,
        "the client gave up before it accepted the record, so nothing was sent",
        on=(-1, 7, 13, e.ClientTimeoutError),
        phase=("enqueue",),
        scenario=(
            "send() waited max_block_ms for metadata or for room in the buffer, or "
            "the broker answered the request for metadata with the code."
        ),
        source="kafka-python #607, #2240",
    ),
    rule(
        "answer-lost",
        Action.IN_DOUBT,
        "the answer was lost, and the write may have happened: sending it again may "
        "write it twice",
        on=(7, 13),
        apis=NOT_REPEATABLE,
        written="maybe",
        scenario="A slow replica or a lost connection after the record was sent.",
        source="kafka-python #2092; aiokafka #197; faststream #423",
    ),
    rule(
        "gave-up-waiting",
        Action.IN_DOUBT,
        "the client stopped waiting: treat the write as possibly done, unless a future "
        "or delivery report that is still open says more",
        on=(e.ClientTimeoutError,),
        apis=CHANGES,
        written="maybe",
        scenario=(
            "A delivery timeout, future.get(timeout), wait_for, a cancelled task. "
            "Even an idempotent producer gives a record a new sequence number when it "
            "is sent again."
        ),
        source="kafka-python #1627, #2092; aiokafka PR #25; librdkafka #4558",
    ),
    rule(
        "connection-lost-in-flight",
        Action.IN_DOUBT,
        "the connection broke before the record was answered: the broker may have "
        "written it",
        on=(e.ClientConnectionError, e.ClientProtocolError),
        apis=frozenset({"Produce"}),
        written="maybe",
        phase=(None, "single"),
        scenario="A delivery report with _TRANSPORT, a future failed by a disconnect.",
        source="librdkafka _TRANSPORT; aiokafka #1017",
    ),
    rule(
        "purged-in-flight",
        Action.IN_DOUBT,
        "the client dropped the record after it was sent: the broker may have written "
        "it",
        on=(-151,),
        written="maybe",
        scenario="purge(in_flight=True), or abort_transaction().",
        source="librdkafka RD_KAFKA_RESP_ERR__PURGE_INFLIGHT",
    ),
    rule(
        "purged",
        Action.REJECT,
        "the client dropped the record before it was sent",
        on=(e.RecordPurgedError,),
        scenario="purge(), close() without flush(), or an aborted transaction.",
        source="librdkafka RD_KAFKA_RESP_ERR__PURGE_QUEUE",
    ),
    rule(
        "sequence-broken",
        Action.RECREATE,
        "the producer's sequence is broken: build a new one; the batch was not written",
        on=(45, 47, 59),
        scenario=(
            "An earlier batch was lost or expired. A client without epoch bump answers "
            "every later send the same way."
        ),
        source="aiokafka #1017; librdkafka #3584; KIP-360",
    ),
    rule(
        "topic-not-known-yet",
        Action.REFRESH,
        "the client does not know the topic, partition or broker yet, and dropped the"
        " record: send it again when the client has refreshed its metadata",
        on=tuple(
            code
            for code, (_, error_class) in LOCAL_CODES.items()
            if error_class is e.ClientMetadataError
        ),
        apis=PRODUCE,
        scenario=(
            "A topic that was created a moment ago. librdkafka has purged the record."
        ),
        source="librdkafka #2858, #4904; KIP-207",
    ),
    rule(
        "no-metadata-of-topic",
        Action.REFRESH,
        "the client has no metadata of this topic or partition, and sent nothing: "
        "check that a broker can be reached, that the topic exists and that you may "
        "see it, then send the record again",
        on=(e.ClientMetadataError,),
        apis=PRODUCE,
        scenario=(
            "kafka-python and Java wait max_block_ms (max.block.ms). bootstrap_servers "
            "is wrong, the topic's name is, or the topic is not created by itself."
        ),
        source="kafka-python #607; KafkaProducer.waitOnMetadata; kafka-rest #133",
    ),
    rule(
        "partition-not-there",
        Action.REJECT,
        "the topic does not have this partition: correct the number or the "
        "partitioner; other partitions can go on",
        on=(e.PartitionNotThereError,),
        scenario=(
            "An application or its partitioner uses a wrong number of partitions, also "
            "after the client has asked the brokers again."
        ),
        source="KafkaProducer.partition: Invalid partition given with record",
    ),
    rule(
        "cannot-serialise",
        Action.REJECT,
        "the key or value cannot be (de)serialised: correct it; others can go on",
        on=(e.SerializationFailedError,),
        scenario="A serialiser raised; nothing was sent.",
        source="kafka-python #920",
    ),
)
