"""We decide: the rules that turn an answer and its context into the right next step.

What Kafka says about a code lives in the generated ``kafkaguard.errors._generated``;
here stands what to do about it, and why. The rules are tried from top to bottom and the
first that matches decides. The last ones are the families of Kafka's own table, so
every combination ends somewhere:

* authentication, authorization, configuration -> CONFIGURE
* retriable with stale metadata -> REFRESH; retriable otherwise -> RETRY
* a number that nobody knows -> IN_DOUBT where the request changes something or is not
  known, else REJECT
* anything else -> REJECT

Two principles decide where the facts are not known. A request that is not named is
judged as the costlier one: it may have been a write. And a producer that is not known
to be idempotent is judged as one that is not.

A sequence number protects only the client's own repeat of a batch. So what an exception
or a delivery report says is judged as of a producer without one: the client has given
up, and whoever sends the record again sends a new record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard import errors as e
from kafkaguard._verdicts.verdict import Action, RuleInfo, Written

if TYPE_CHECKING:
    from collections.abc import Mapping

Api = str | None
Signal = int | type[e.KafkaGuardError]

PRODUCE: frozenset[Api] = frozenset({"Produce", None})
#: Requests about records; no other verdict speaks of them.
CARRIES_RECORDS: frozenset[Api] = PRODUCE | {"Fetch"}
READS_LOG: frozenset[Api] = frozenset({"Fetch", "ListOffsets"})
RECORDS_AND_OFFSETS: frozenset[Api] = PRODUCE | {
    "OffsetCommit",
    "TxnOffsetCommit",
    "Metadata",
}
GROUP_COMMIT: frozenset[Api] = frozenset({"TxnOffsetCommit"})
COORDINATED_TXN: frozenset[Api] = frozenset(
    {"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"}
    | {"TxnOffsetCommit"}
)
#: Administrative requests whose refusal a human must mend.
ADMIN: frozenset[Api] = frozenset(
    {
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "CreateAcls",
        "DeleteAcls",
        "AlterClientQuotas",
        "AlterUserScramCredentials",
        "AlterPartitionReassignments",
        "UpdateFeatures",
    }
)
#: Requests that change something, so that an answer of unknown meaning leaves doubt.
CHANGES: frozenset[Api] = (
    ADMIN
    | COORDINATED_TXN
    | frozenset(
        {
            None,
            "Produce",
            "OffsetCommit",
            "DeleteRecords",
            "DeleteGroups",
            "OffsetDelete",
            "AlterReplicaLogDirs",
            "CreateDelegationToken",
            "RenewDelegationToken",
            "ExpireDelegationToken",
            "ElectLeaders",
            "UnregisterBroker",
            "AlterShareGroupOffsets",
            "DeleteShareGroupOffsets",
            "ShareAcknowledge",
        }
    )
)
#: Requests that do a second thing when they are sent a second time.
NOT_REPEATABLE: frozenset[Api] = PRODUCE | {"CreateDelegationToken"}
#: Requests that change something, and nothing more at the second time.
REPEATABLE: frozenset[Api] = CHANGES - NOT_REPEATABLE - {"EndTxn"}
#: The phases in which the client had taken the record.
SENT = (None, "single")


@dataclass(frozen=True, slots=True)
class Rule:
    """A decision: what it says, and when it applies.

    Args:
        info: The words, with their source.
        action: The right next step.
        written: Whether the cluster holds what was sent.
        on: Codes and classes that it applies to; empty for any.
        apis: Requests that it applies to (None among them is "not named"); None for
            any.
        when: For a fact of the context, the values that it may have.
        error_class: A class that says more than the code's own.
    """

    info: RuleInfo
    action: Action
    written: Written
    on: tuple[Signal, ...]
    apis: frozenset[Api] | None
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    error_class: type[e.KafkaGuardError] | None = None

    def matches(
        self, code: int | None, cls: type, api: Api, facts: Mapping[str, Any]
    ) -> bool:
        """Tell whether this rule decides about an answer."""
        if self.apis is not None and api not in self.apis:
            return False
        if any(facts[name] not in values for name, values in self.when.items()):
            return False
        return not self.on or any(
            signal == code if isinstance(signal, int) else issubclass(cls, signal)
            for signal in self.on
        )


def _rule(  # noqa: PLR0913 - a rule is a row of a table, and these are its columns
    rule_id: str,
    action: Action,
    sentence: str,
    *,
    on: tuple[Signal, ...] = (),
    apis: frozenset[Api] | None = None,
    written: Written = "no",
    error_class: type[e.KafkaGuardError] | None = None,
    scenario: str,
    source: str,
    **when: tuple[Any, ...],
) -> Rule:
    info = RuleInfo(rule_id, sentence, source, scenario)
    return Rule(info, action, written, on, apis, when, error_class)


RULES: tuple[Rule, ...] = (
    _rule(
        "no-error",
        Action.IGNORE,
        "there is no error",
        on=(0,),
        written="yes",
        scenario="Code 0 was handed over like an error.",
        source="org.apache.kafka.common.protocol.Errors.NONE",
    ),
    _rule(
        "interrupted-change",
        Action.IN_DOUBT,
        "the caller ended the call; what it asked for may have been done",
        on=(e.CallInterruptedError,),
        apis=CHANGES,
        written="maybe",
        scenario="A cancelled task, Ctrl-C, an exit. It is passed on untouched.",
        source="aiokafka PR #25, PR #241",
    ),
    _rule(
        "interrupted",
        Action.REJECT,
        "the caller ended the call; it is passed on untouched and never repeated",
        on=(e.CallInterruptedError,),
        scenario="A cancelled task, Ctrl-C, an exit.",
        source="aiokafka PR #25",
    ),
    # --- what a client says about itself goes before what a code says -------------
    _rule(
        "fenced-or-timed-out",
        Action.FENCED,
        "another instance uses this transactional.id, or the transaction ran longer "
        "than transaction.timeout.ms and was ended: look which (is there a second "
        "instance?) and do not fence it back",
        on=(90,),
        scenario=(
            "Two live instances fence each other for ever; or the coordinator ended a "
            "slow transaction itself and raised the epoch, with one instance only. "
            "Compare the time since its begin with transaction.timeout.ms: if it was "
            "longer and no other instance runs, a new producer may go on."
        ),
        source="KIP-447, KIP-890; TransactionCoordinator; KafkaProducer.send",
    ),
    _rule(
        "fenced",
        Action.FENCED,
        "another instance uses this id: stop, and do not fence it back",
        on=(82, 111, e.ClientFencedError),
        scenario=(
            "Two live instances share a transactional.id or group.instance.id. "
            "Building a new one fences the other, which does the same, for ever."
        ),
        source="KIP-447, KIP-345, KIP-848; KafkaProducer.send; franz-go 65ca0bd",
    ),
    _rule(
        "fenced-by-coordinator",
        Action.FENCED,
        "the coordinator has seen a newer epoch of this transactional.id: stop",
        on=(47,),
        apis=COORDINATED_TXN,
        scenario=(
            "To the transaction coordinator an old epoch is a fenced producer; only a "
            "partition leader means less by it."
        ),
        source="KIP-588; TransactionManager's response handlers; KAFKA-9911",
    ),
    _rule(
        "denied",
        Action.CONFIGURE,
        "access is denied: grant the ACL or mend the credentials",
        on=(e.AuthenticationError, e.AuthorizationError),
        scenario=(
            "Repeating a denied request hides the cause behind a timeout; repeating a "
            "wrong password can lock the account."
        ),
        source="kafka-python #2078; librdkafka #2215, #2543; KafkaAdminClient",
    ),
    _rule(
        "misconfigured-for-good",
        Action.CONFIGURE,
        "the client is of no use with these settings: mend them, then build a new one",
        on=(35, e.ClientConfigurationError),
        flag=("fatal", "abort"),
        scenario="A new client, or a new transaction, would fail the same way.",
        source="librdkafka #2994; KIP-1050",
    ),
    _rule(
        "client-gave-itself-up",
        Action.RECREATE,
        "the client says that it cannot go on: build a new one, and count what was in "
        "flight as possibly written",
        on=(-148, -149, -150),
        written="maybe",
        scenario="librdkafka's _FATAL and its causes, as a code.",
        source="librdkafka #3584, #4438; RD_KAFKA_RESP_ERR__FATAL",
    ),
    _rule(
        "client-is-dead",
        Action.RECREATE,
        "the client says that it cannot go on: build a new one, and count what was in "
        "flight as possibly written",
        written="maybe",
        flag=("fatal",),
        scenario=(
            "librdkafka raises its fatal flag, for an idempotent producer mostly after "
            "a hole in the sequence. Every later call fails the same way."
        ),
        source="librdkafka #3584, #4438; rd_kafka_fatal_error",
    ),
    _rule(
        "client-wants-abort",
        Action.ABORT,
        "the client asks for the transaction to be aborted; after that it can go on",
        flag=("abort",),
        scenario="A transactional call of librdkafka failed with requires-abort set.",
        source="KIP-98; confluent_kafka.KafkaError.txn_requires_abort",
    ),
    _rule(
        "commit-again",
        Action.RETRY,
        "call the same commit or abort again; never the transaction's sends",
        written="maybe",
        flag=("retriable",),
        phase=("commit", "abort"),
        scenario=(
            "commit_transaction ran into its time limit and goes on when called again. "
            "Replaying the sends instead writes everything twice."
        ),
        source="KAFKA-19176; librdkafka #4558",
    ),
    _rule(
        "end-transaction-again-after-refresh",
        Action.REFRESH,
        "find the coordinator anew, then call the same commit or abort again; never "
        "the transaction's sends",
        on=(e.RefreshRetriableError,),
        apis=frozenset({"EndTxn"}),
        written="maybe",
        scenario="The coordinator moved, or the connection to it broke.",
        source="KAFKA-19176; KIP-98",
    ),
    _rule(
        "end-transaction-again",
        Action.RETRY,
        "call the same commit or abort again; never the transaction's sends",
        on=(7, 14, 51, e.ClientConnectionError),
        apis=frozenset({"EndTxn"}),
        written="maybe",
        scenario=(
            "The coordinator is loading or slow. Ending twice changes nothing, while "
            "replaying the sends writes everything twice."
        ),
        source="KAFKA-19176; kafkajs #296",
    ),
    _rule(
        "commit-without-answer",
        Action.IN_DOUBT,
        "it is not known whether the transaction was committed: call the same commit "
        "again, or look in the topic; never the transaction's sends before that",
        on=(e.ClientTimeoutError,),
        apis=frozenset({"EndTxn"}),
        written="maybe",
        phase=("commit",),
        scenario=(
            "The coordinator was away for longer than the client waits, or the client "
            "was closed meanwhile. The commit may have been carried out."
        ),
        source="KAFKA-19176; KIP-98; librdkafka #4558",
    ),
    _rule(
        "abort-without-answer",
        Action.RETRY,
        "the abort is under way, and nothing of the transaction will be committed: "
        "call the same abort again",
        on=(e.ClientTimeoutError,),
        apis=frozenset({"EndTxn"}),
        phase=("abort",),
        scenario="The coordinator was away for longer than the client waits.",
        source="KAFKA-19176; KIP-98",
    ),
    _rule(
        "client-closed",
        Action.RECREATE,
        "this client object is closed: build a new one",
        on=(e.ClientClosedError,),
        scenario="A call on a client that was closed; nothing was sent.",
        source="librdkafka #3584; kafka-python #2240",
    ),
    _rule(
        "background-report",
        Action.IGNORE,
        "a report from the background; act on the outcome of the request itself",
        phase=("background",),
        scenario=(
            "error_cb tells of brokers that are down or of a sequence error while the "
            "client still works on it. Acting on it re-sends what will be delivered."
        ),
        source="librdkafka #2543, #4953; PR #4972",
    ),
    # --- records -----------------------------------------------------------------
    _rule(
        "null-key-in-transaction",
        Action.ABORT,
        "a compacted topic takes no record without a key: abort the transaction, then "
        "go on without this record",
        on=(87, 2),
        apis=PRODUCE,
        null_key=(True,),
        compacted=(True, None),
        transactional=(True,),
        phase=SENT,
        error_class=e.InvalidRecordKeyError,
        scenario="The record was sent before anybody looked at its key.",
        source="KIP-135, KIP-98",
    ),
    _rule(
        "send-failed-in-transaction",
        Action.ABORT,
        "a send of this transaction failed: abort it, which settles the doubt too, "
        "then go on",
        on=(
            *(-1, 7, 10, 12, 13, 17, 18, 20, 32, 87),
            *(e.ClientTimeoutError, e.ClientConnectionError, e.RecordPurgedError),
        ),
        apis=PRODUCE,
        transactional=(True,),
        phase=SENT,
        flag=("reported",),
        scenario=(
            "After a failed send a transaction can only be aborted; clients refuse "
            "its commit. What was written of it is never shown to readers."
        ),
        source="KIP-98; TransactionManager.maybeTransitionToErrorState",
    ),
    _rule(
        "null-key-behind-a-lost-code",
        Action.REJECT,
        "the client lost the code, but a compacted topic takes no record without a "
        "key: give it one, or dead-letter it",
        on=(-1,),
        apis=PRODUCE,
        client=("aiokafka",),
        null_key=(True,),
        compacted=(True,),
        error_class=e.InvalidRecordKeyError,
        scenario="aiokafka shows 87 as -1; the facts leave no other reason.",
        source="KIP-135; aiokafka.errors.for_code",
    ),
    _rule(
        "null-key-on-compacted-topic",
        Action.REJECT,
        "a compacted topic takes no record without a key: give it one, or dead-letter "
        "it",
        on=(87, 2),
        apis=PRODUCE,
        null_key=(True,),
        compacted=(True, None),
        error_class=e.InvalidRecordKeyError,
        scenario=(
            "The log cleaner needs keys. New brokers answer 87, old ones 2, which is "
            "retriable in their table, so clients repeat it two thousand million times."
        ),
        source="KIP-135; LogValidator; AKHQ #133, smallrye-reactive-messaging #2270",
    ),
    _rule(
        "refused-alone",
        Action.REJECT,
        "the broker refuses this very record",
        on=(87, e.BatchMateRefusedError),
        apis=PRODUCE,
        phase=("single",),
        scenario="record_errors names the record, or it was alone in its batch.",
        source="KIP-467; ProduceResponse.record_errors",
    ),
    _rule(
        "batch-mate-refused",
        Action.RETRY,
        "another record of the same batch was refused: send this one again on its own",
        on=(87,),
        apis=PRODUCE,
        null_key=(False,),
        error_class=e.BatchMateRefusedError,
        scenario=(
            "One bad record fails its whole batch. Nothing of the batch was written, "
            "so sending the others again cannot double them."
        ),
        source="KIP-467; Sender.failBatch",
    ),
    _rule(
        "batch-mate-refused-locally",
        Action.RETRY,
        "another record of the same batch was refused: send this one again on its own",
        on=(e.BatchMateRefusedError,),
        scenario="librdkafka's _INVALID_DIFFERENT_RECORD; nothing was written.",
        source="KIP-467; librdkafka RD_KAFKA_RESP_ERR__INVALID_DIFFERENT_RECORD",
    ),
    _rule(
        "record-refused",
        Action.REJECT,
        "the broker refuses a record of this batch; without its key it is not known "
        "whether it was this one",
        on=(87,),
        apis=PRODUCE,
        scenario="A null key on a compacted topic, a wrong timestamp, a broken schema.",
        source="KIP-467; LogValidator",
    ),
    _rule(
        "damaged-on-the-way",
        Action.RETRY,
        "the checksum did not fit: try a few times; if it stays, ask whether the topic "
        "is compacted and the key missing",
        on=(2,),
        apis=CARRIES_RECORDS,
        scenario=(
            "Rarely a damaged network frame. From old brokers it is their word for a "
            "null key on a compacted topic, and then it never goes away."
        ),
        source="KAFKA-4808; schema-registry #583",
    ),
    _rule(
        "record-too-large",
        Action.REJECT,
        "the record is larger than the topic takes: make it smaller or raise "
        "max.message.bytes",
        on=(10, 18),
        apis=CARRIES_RECORDS,
        scenario="Also for a batch: a smaller one may pass, a single record will not.",
        source="KAFKA-8350; confluent-kafka-python #1774",
    ),
    _rule(
        "record-never-valid",
        Action.REJECT,
        "the broker will never take this record or request as it is",
        on=(12, 17, 28, 32),
        apis=RECORDS_AND_OFFSETS,
        scenario="A timestamp in microseconds, a topic name with a slash.",
        source="KAFKA-14991; Topic.validate",
    ),
    _rule(
        "call-under-way",
        Action.WAIT,
        "the client is still at an earlier call of this kind: let it end, then call "
        "again",
        on=(-178, -177),
        scenario="librdkafka's _IN_PROGRESS and _PREV_IN_PROGRESS; no record is meant.",
        source="librdkafka RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS",
    ),
    _rule(
        "queue-full",
        Action.WAIT,
        "the client's queue is full and the record was not taken: let it drain, then "
        "hand over the same record",
        on=(e.ClientQueueFullError,),
        apis=PRODUCE,
        scenario="produce() raises BufferError. Without a poll the queue never drains.",
        source="confluent-kafka-python #16, #781; kafka-python #985",
    ),
    _rule(
        "too-much-in-flight",
        Action.WAIT,
        "the client takes no more requests now: wait until some are answered, then the "
        "same request",
        on=(e.ClientQueueFullError,),
        scenario="Too many requests of one connection are without an answer.",
        source="kafka.errors.TooManyInFlightRequests",
    ),
    _rule(
        "throttled",
        Action.WAIT,
        "the quota is used up: wait for throttle_time_ms, then the same request",
        on=(89,),
        scenario="Administrative requests above the controller's mutation quota.",
        source="KIP-599",
    ),
    # --- written or not ----------------------------------------------------------
    _rule(
        "already-written",
        Action.IGNORE,
        "the broker has this batch already",
        on=(46,),
        written="yes",
        scenario="The answer to the first copy was lost; the second was recognised.",
        source="KIP-98; Sender.completeBatch",
    ),
    _rule(
        "sequence-protects",
        Action.RETRY,
        "the same batch again: its sequence number lets the broker drop a second copy",
        on=(7, 20),
        apis=PRODUCE,
        written="maybe",
        idempotent=(True,),
        flag=(None,),
        scenario=(
            "A code in an answer, for who repeats the batch itself. Once the client "
            "has reported a failure, a new send() would get a new sequence number."
        ),
        source="KIP-98; ProducerStateManager",
    ),
    _rule(
        "sequence-protects-after-refresh",
        Action.REFRESH,
        "refresh metadata, then the same batch: its sequence number lets the broker "
        "drop a second copy",
        on=(6, 13),
        apis=PRODUCE,
        written="maybe",
        idempotent=(True,),
        flag=(None,),
        scenario="As before; the leader is another one, or the connection is new.",
        source="KIP-98; ProducerStateManager",
    ),
    _rule(
        "not-waited-for-replicas",
        Action.IN_DOUBT,
        "the leader has written it and the replicas may not keep it: sending it again "
        "may write it twice",
        on=(20,),
        apis=PRODUCE,
        written="maybe",
        scenario="The ISR shrank after the append.",
        source="kafka-python #1580; DelayedProduce",
    ),
    _rule(
        "leader-lost-after-append",
        Action.IN_DOUBT,
        "the leader may have appended before it lost its role: sending it again may "
        "write it twice",
        on=(6,),
        apis=frozenset({"Produce"}),
        written="maybe",
        scenario=(
            "With acks=all a leader that steps down while it waits for its replicas "
            "answers 6 for what it has appended."
        ),
        source="Partition.checkEnoughReplicasReachOffset; DelayedProduce",
    ),
    _rule(
        "gave-up-before-handing-over",
        Action.RETRY,
        "the client gave up before it took the record, so nothing was sent",
        on=(e.ClientTimeoutError,),
        phase=("enqueue",),
        scenario="send() waited max_block_ms for metadata or for room in the buffer.",
        source="kafka-python #607, #2240",
    ),
    _rule(
        "topic-not-there",
        Action.CONFIGURE,
        "the brokers answer and know no such topic: create it, or mend its name",
        on=(e.UnknownTopicOrPartitionError,),
        phase=("enqueue",),
        scenario="send() asked for its metadata for max_block_ms in vain.",
        source="kafka-rest #133; kafka-python #607",
    ),
    _rule(
        "not-connected",
        Action.RETRY,
        "there is no connection to a broker yet, so nothing was sent: try again",
        on=(e.ClientNotConnectedError,),
        scenario="Names do not resolve, no broker answers, a node is not ready.",
        source="kafka-python #1627; librdkafka #3090",
    ),
    _rule(
        "change-may-be-done",
        Action.RETRY,
        "the change may have been made, and asking for it again does no harm",
        on=(7, 13, e.ClientTimeoutError, e.ClientConnectionError),
        apis=REPEATABLE,
        written="maybe",
        flag=(None, "reported"),
        scenario=(
            "The answer to an administrative request or an offset commit was lost. A "
            "repeated creation is then answered with 36 TOPIC_ALREADY_EXISTS."
        ),
        source="KafkaAdminClient; KIP-98",
    ),
    _rule(
        "answer-lost",
        Action.IN_DOUBT,
        "the answer did not come, the write may have: sending it again may write it "
        "twice",
        on=(7, 13),
        apis=NOT_REPEATABLE,
        written="maybe",
        scenario="A slow replica or a lost connection after the record was sent.",
        source="kafka-python #2092; aiokafka #197; faststream #423",
    ),
    _rule(
        "gave-up-waiting",
        Action.IN_DOUBT,
        "the client stopped waiting: look at the same future again, or count the write "
        "as possibly done",
        on=(e.ClientTimeoutError,),
        apis=CHANGES,
        written="maybe",
        scenario=(
            "A delivery timeout, future.get(timeout), wait_for, a cancelled task. Even "
            "an idempotent producer gives a record that is sent anew a new sequence."
        ),
        source="kafka-python #1627, #2092; aiokafka PR #25; librdkafka #4558",
    ),
    _rule(
        "connection-lost-in-flight",
        Action.IN_DOUBT,
        "the connection broke with the record on its way: it may have been written",
        on=(e.ClientConnectionError, e.ClientProtocolError),
        apis=frozenset({"Produce"}),
        written="maybe",
        phase=(None, "single"),
        scenario="A delivery report with _TRANSPORT, a future failed by a disconnect.",
        source="librdkafka _TRANSPORT; aiokafka #1017",
    ),
    _rule(
        "connection-lost",
        Action.RETRY,
        "the connection broke: a read can be repeated; for a write, name the request",
        on=(e.ClientConnectionError,),
        apis=frozenset({None}),
        written="maybe",
        scenario="A disconnect, and it is not said from which request.",
        source="kafka-python #1627; librdkafka #2543",
    ),
    _rule(
        "state-of-a-failed-transaction",
        Action.RECREATE,
        "the producer is in no state to go on with the transaction: build a new one",
        on=(e.ClientStateError,),
        transactional=(True,),
        scenario="An abort that is refused after the transaction failed.",
        source="kafka.producer.transaction_manager",
    ),
    _rule(
        "purged-in-flight",
        Action.IN_DOUBT,
        "the client dropped the record while it was on its way",
        on=(-151,),
        written="maybe",
        scenario="purge(in_flight=True), or abort_transaction().",
        source="librdkafka RD_KAFKA_RESP_ERR__PURGE_INFLIGHT",
    ),
    _rule(
        "purged",
        Action.REJECT,
        "the client dropped the record before it was sent, because it was told to",
        on=(e.RecordPurgedError,),
        scenario="purge(), close() without flush(), or an aborted transaction.",
        source="librdkafka RD_KAFKA_RESP_ERR__PURGE_QUEUE",
    ),
    _rule(
        "commit-of-unknown-result",
        Action.RECREATE,
        "the transaction is not open any more, probably timed out and aborted by the "
        "coordinator: its result must be looked up, not repeated",
        on=(48,),
        written="maybe",
        apis=frozenset({"EndTxn"}),
        scenario="A commit that races with the coordinator's own abort.",
        source="KAFKA-20785; KIP-890",
    ),
    _rule(
        "client-must-start-over",
        Action.RECREATE,
        "the producer and the coordinator disagree about the transaction: build a new "
        "producer",
        on=(48, 49),
        scenario="The transactional id expired, or a call came in the wrong state.",
        source="KIP-360, KIP-890; TransactionManager",
    ),
    _rule(
        "abort-and-go-on",
        Action.ABORT,
        "abort the transaction, then go on",
        on=(e.AbortableError,),
        scenario="The coordinator says so itself, or a partition leader saw a stale "
        "epoch, a hole or an unknown producer within a transaction.",
        source="KIP-890, KIP-1050",
    ),
    _rule(
        "abort-after-sequence-error",
        Action.ABORT,
        "the sequence is broken within a transaction: abort it, then go on",
        on=(45, 47, 59),
        transactional=(True,),
        scenario="A partition leader answers for a batch of an open transaction.",
        source="KIP-360, KIP-588; TransactionManager.handleFailedBatch",
    ),
    _rule(
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
    _rule(
        "offsets-of-a-lost-membership",
        Action.ABORT,
        "the offsets belong to a membership that is over: abort the transaction, poll, "
        "then only for partitions still owned",
        on=(22, 25, 27, 110, 113),
        apis=GROUP_COMMIT,
        scenario="A rebalance between poll and send_offsets_to_transaction.",
        source="KIP-447; TransactionManager.TxnOffsetCommitHandler",
    ),
    _rule(
        "neighbour-stopped-transaction",
        Action.ABORT,
        "another partition of the same request failed: abort the transaction",
        on=(55,),
        apis=COORDINATED_TXN,
        scenario="AddPartitionsToTxn is all or nothing.",
        source="KIP-98; TransactionManager.AddPartitionsToTxnHandler",
    ),
    _rule(
        "not-attempted",
        Action.RETRY,
        "it was not attempted because of a neighbour: again without the neighbour",
        on=(55,),
        scenario="A request that is carried out whole or not at all.",
        source="Errors.OPERATION_NOT_ATTEMPTED",
    ),
    # --- groups ------------------------------------------------------------------
    _rule(
        "group-moved-on",
        Action.REJOIN,
        "the group has moved on: poll, then only for partitions still owned",
        on=(22, 25, 27, 110, 113, e.ClientGroupError),
        scenario=(
            "A commit or heartbeat after a rebalance. Repeating it keeps a doomed "
            "request alive and stalls the consumer."
        ),
        source="librdkafka #2933; faust #104; KIP-848",
    ),
    _rule(
        "join-with-given-id",
        Action.RETRY,
        "join again with the member id that the answer gave",
        on=(79,),
        scenario="The first step of joining a group.",
        source="KIP-394",
    ),
    # --- the same code, another request ------------------------------------------
    _rule(
        "remote-storage-not-ready",
        Action.RETRY,
        "the broker is still reading the metadata of remote storage: wait and ask "
        "again for this partition; the others can go on",
        on=(9, -1),
        apis=READS_LOG,
        tiered=(True,),
        error_class=e.RemoteStorageNotReadyError,
        scenario="A tiered broker after its start. No code of its own was ever added.",
        source="KIP-1007; RemotePartitionMetadataStore",
    ),
    _rule(
        "replica-down-in-metadata",
        Action.IGNORE,
        "a follower is away, the leader is fine: the metadata is good",
        on=(9,),
        apis=frozenset({"Metadata"}),
        written="yes",
        scenario="Clients that raise on it cannot produce while one follower is down.",
        source="librdkafka #2988; KAFKA-10223; kafka_exporter #44",
    ),
    _rule(
        "election-not-needed",
        Action.IGNORE,
        "the leader is the preferred one already",
        on=(84,),
        apis=frozenset({"ElectLeaders"}),
        written="yes",
        scenario="Electing preferred leaders where nothing has to change.",
        source="KIP-460",
    ),
    _rule(
        "end-offset-not-known-yet",
        Action.REFRESH,
        "the new leader cannot tell yet: refresh metadata, then ask again for these "
        "partitions only",
        on=(75, 78),
        apis=frozenset({"ListOffsets", "OffsetForLeaderEpoch"}),
        scenario="The moments after an election, until the high watermark caught up.",
        source="KIP-207, KIP-320; OffsetFetcherUtils",
    ),
    _rule(
        "ask-the-controller",
        Action.REFRESH,
        "the controller is another broker: refresh metadata, then ask that one",
        on=(41,),
        scenario="An administrative request right after a controller failover.",
        source="KafkaAdminClient.handleNotControllerError",
    ),
    _rule(
        "start-from-bootstrap",
        Action.REFRESH,
        "start again from the bootstrap servers, then the same request",
        on=(129,),
        scenario="The client knows only brokers that have left the cluster.",
        source="KIP-1102",
    ),
    _rule(
        "offset-out-of-range",
        Action.REJECT,
        "the position is not in the log: compare it with log start and end before any "
        "reset, since a reset skips or repeats records",
        on=(1,),
        scenario="Retention passed by, the topic was made anew, or a leader moved.",
        source="KIP-320; Aiven tiered-storage #663",
    ),
    _rule(
        "code-not-kept",
        Action.IN_DOUBT,
        "aiokafka shows every code that it does not know as -1; the real one is lost, "
        "so the write counts as possibly done",
        on=(-1,),
        apis=CHANGES,
        client=("aiokafka",),
        written="maybe",
        scenario="63 codes of Kafka 4.4, 87 INVALID_RECORD among them.",
        source="kafka-python #2306; aiokafka.errors.for_code",
    ),
    _rule(
        "server-error-on-change",
        Action.IN_DOUBT,
        "the broker failed in the middle: the change may have been made",
        on=(-1,),
        apis=CHANGES,
        written="maybe",
        scenario="An exception inside the broker, before or after the append.",
        source="Aiven tiered-storage #584; Errors.forException",
    ),
    _rule(
        "server-error-on-read",
        Action.RETRY,
        "the broker failed once; the request changes nothing, so ask again a few times",
        on=(-1,),
        scenario="An exception inside the broker; often gone at the next request.",
        source="Aiven tiered-storage #584, #470",
    ),
    _rule(
        "tiered-follower-only",
        Action.CONFIGURE,
        "this answer is meant for followers: the client and the broker do not fit",
        on=(109,),
        scenario="A consumer that fetches like a replica.",
        source="KIP-405; ReplicaFetcherThread",
    ),
    # --- settings ----------------------------------------------------------------
    _rule(
        "administrator-must-mend",
        Action.CONFIGURE,
        "the cluster refuses the request as it is: mend it as the broker's text says",
        on=(17, 37, 39, 42),
        apis=ADMIN,
        scenario="A name, a count or a setting that the cluster does not take.",
        source="franz-go #751; kafkajs #625",
    ),
    _rule(
        "settings-refused",
        Action.CONFIGURE,
        "the broker refuses this setting or does not have this feature: change it",
        on=(
            *(4, 23, 24, 26, 44, 50, 54, 61, 64, 66, 67, 73, 76, 81, 93),
            *(104, 112, 114, 115, 128, 130),
        ),
        scenario="A session timeout out of bounds, a foreign cluster, a policy.",
        source="KIP-1050; franz-go #751",
    ),
    _rule(
        "client-refuses-settings",
        Action.CONFIGURE,
        "a setting or an argument is refused before anything is sent: change it",
        on=(e.ClientConfigurationError,),
        scenario="A codec that is not installed, an option that does not exist.",
        source="KIP-1050; kafka.errors.KafkaConfigurationError",
    ),
    _rule(
        "configuration",
        Action.CONFIGURE,
        "the configuration is wrong for this cluster: change it",
        on=(e.InvalidConfigurationError,),
        scenario="Kafka's own group of configuration errors.",
        source="KIP-1050; InvalidConfigurationException",
    ),
    # --- the client's own conditions ---------------------------------------------
    _rule(
        "topic-not-known-yet",
        Action.REFRESH,
        "the client does not know the topic, partition or broker yet: refresh "
        "metadata, then hand over the record again, since it was dropped",
        on=(e.ClientMetadataError,),
        apis=PRODUCE,
        scenario="A topic made a moment ago. librdkafka has purged the record.",
        source="librdkafka #2858, #4904; KIP-207",
    ),
    _rule(
        "cluster-not-known-yet",
        Action.REFRESH,
        "the client does not know the topic, partition or broker: refresh metadata, "
        "and if it is still not there, ask for one that is",
        on=(e.ClientMetadataError,),
        scenario="A broker that does not exist, or that came a moment ago.",
        source="librdkafka #2858; KIP-207",
    ),
    _rule(
        "garbled-answer",
        Action.IN_DOUBT,
        "the answer could not be read: what was asked for may have been done",
        on=(e.ClientProtocolError,),
        apis=CHANGES,
        written="maybe",
        scenario="A broken frame, a proxy in between, an answer out of order.",
        source="kafka-python #2679; kafka.errors.CorrelationIdError",
    ),
    _rule(
        "notice",
        Action.IGNORE,
        "a notice, not a failure",
        on=(e.ClientNoticeError,),
        scenario="End of partition, nothing to commit, a rebalance step.",
        source="confluent_kafka.KafkaError._PARTITION_EOF",
    ),
    _rule(
        "cannot-serialise",
        Action.REJECT,
        "the key or value cannot be (de)serialised; its neighbours can",
        on=(e.SerializationFailedError,),
        scenario="A serialiser raised; nothing was sent.",
        source="kafka-python #920",
    ),
    _rule(
        "not-kafka",
        Action.REJECT,
        "this is no error of Kafka's; it is passed on as it is",
        on=(e.UnrelatedError,),
        scenario="A bug of the application, or of a hook.",
        source="docs: verdicts, fall-backs",
    ),
    # --- Kafka's own families: the fall-back of every code ------------------------
    _rule(
        "refresh-and-retry",
        Action.REFRESH,
        "the client's view is stale: refresh metadata or coordinator, then the same",
        on=(e.RefreshRetriableError,),
        scenario="Leaders and coordinators move; also just after a topic was made.",
        source="RefreshRetriableException; KIP-1050",
    ),
    _rule(
        "retry",
        Action.RETRY,
        "a passing condition: the same request again, after backoff",
        on=(e.RetriableError,),
        scenario="Too few replicas in sync, a coordinator that is loading.",
        source="RetriableException; KIP-1050",
    ),
    _rule(
        "unrecognised-code-on-change",
        Action.IN_DOUBT,
        "a code that this version does not know, on a request that changes something: "
        "it may have been done",
        on=(e.UnrecognisedCodeError,),
        apis=CHANGES,
        written="maybe",
        scenario="A broker newer than kafkaguard. The number is kept.",
        source="pykafka #401; kafka-python #2306",
    ),
    _rule(
        "unrecognised-code",
        Action.REJECT,
        "a code that this version does not know; its number is kept",
        on=(e.UnrecognisedCodeError,),
        scenario="A broker newer than kafkaguard.",
        source="pykafka #1001; kafka-python #2306",
    ),
    _rule(
        "fatal",
        Action.REJECT,
        "this request can never succeed as it is",
        scenario="Kafka's table calls the code fatal, and nothing above knows better.",
        source="ApiException without RetriableException; KIP-1050",
    ),
)
