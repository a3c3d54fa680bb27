"""Rules for transactions: fencing, commits, aborts, sequences."""

from __future__ import annotations

from kafkaguard import _errors as e
from kafkaguard._errors.base import Action
from kafkaguard._verdicts.rules.rule import (
    COORDINATED_TXN,
    GROUP_COMMIT,
    PRODUCE,
    SENT,
    Rule,
    rule,
)

RULES: tuple[Rule, ...] = (
    rule(
        "fenced-or-timed-out",
        Action.FENCED,
        "another instance uses this transactional.id, or the transaction ran longer "
        "than transaction.timeout.ms and was aborted: check whether a second instance "
        "runs, and do not fence it back",
        on=(90,),
        scenario=(
            "Two live instances fence each other forever; or the coordinator aborted "
            "a slow transaction and raised the epoch, with one instance only. "
            "Compare the time since its begin with transaction.timeout.ms: if it was "
            "longer and no other instance runs, a new producer may go on."
        ),
        source="KIP-447, KIP-890; TransactionCoordinator; KafkaProducer.send",
    ),
    rule(
        "fenced",
        Action.FENCED,
        "another instance uses this id: stop, and do not fence it back",
        on=(82, 111, e.ClientFencedError),
        scenario=(
            "Two live instances share a transactional.id or group.instance.id. "
            "Building a new one fences the other, which does the same, forever."
        ),
        source="KIP-447, KIP-345, KIP-848; KafkaProducer.send; franz-go 65ca0bd",
    ),
    rule(
        "fenced-by-coordinator",
        Action.FENCED,
        "the coordinator has seen a newer epoch of this transactional.id: stop",
        on=(47,),
        apis=COORDINATED_TXN,
        scenario=(
            "To the transaction coordinator an old epoch means a fenced producer; to "
            "a partition leader it does not."
        ),
        source="KIP-588; TransactionManager's response handlers; KAFKA-9911",
    ),
    rule(
        "client-wants-abort",
        Action.ABORT,
        "the client asks for the transaction to be aborted; after that it can go on",
        flag=("abort",),
        scenario="A transactional call of librdkafka failed with requires-abort set.",
        source="KIP-98; confluent_kafka.KafkaError.txn_requires_abort",
    ),
    rule(
        "commit-without-answer",
        Action.IN_DOUBT,
        "it is unknown whether the transaction was committed: call the same commit "
        "again, or look in the topic, before you repeat any send",
        on=(e.ClientTimeoutError,),
        apis=frozenset({"EndTxn"}),
        written="maybe",
        phase=("commit",),
        scenario=(
            "The coordinator was away for longer than the client waits, or the client "
            "was closed meanwhile. The commit may have succeeded."
        ),
        source="KAFKA-19176; KIP-98; librdkafka #4558",
    ),
    rule(
        "abort-without-answer",
        Action.RETRY,
        "the abort has no answer yet, and no record of the transaction will be "
        "committed: call the same abort again",
        on=(e.ClientTimeoutError,),
        apis=frozenset({"EndTxn"}),
        phase=("abort",),
        scenario="The coordinator was away for longer than the client waits.",
        source="KAFKA-19176; KIP-98",
    ),
    rule(
        "commit-again",
        Action.RETRY,
        "call the same method again; do not repeat the transaction's sends",
        written="maybe",
        flag=("retriable",),
        phase=("commit", "abort"),
        scenario=(
            "The call failed for a reason that passes, and succeeds when called again. "
            "Replaying the sends instead writes everything twice."
        ),
        source="KAFKA-19176; librdkafka #4558",
    ),
    rule(
        "end-transaction-again-after-refresh",
        Action.REFRESH,
        "call the same method again when the client has found the coordinator; do not "
        "repeat the transaction's sends",
        on=(e.RefreshRetriableError,),
        apis=frozenset({"EndTxn"}),
        written="maybe",
        scenario="The coordinator moved, or the connection to it broke.",
        source="KAFKA-19176; KIP-98",
    ),
    rule(
        "end-transaction-again",
        Action.RETRY,
        "call the same method again; do not repeat the transaction's sends",
        on=(7, 14, 51, e.ClientConnectionError),
        apis=frozenset({"EndTxn"}),
        written="maybe",
        scenario=(
            "The coordinator is loading or slow. Ending twice changes nothing, while "
            "replaying the sends writes everything twice."
        ),
        source="KAFKA-19176; kafkajs #296",
    ),
    rule(
        "null-key-in-transaction",
        Action.ABORT,
        "a compacted topic refuses records without a key: abort the transaction, then "
        "go on without this record",
        on=(87, 2),
        apis=PRODUCE,
        null_key=(True,),
        compacted=(True, None),
        transactional=(True,),
        phase=SENT,
        error_class=e.InvalidRecordKeyError,
        scenario="The record was sent before its key was checked.",
        source="KIP-135, KIP-98",
    ),
    rule(
        "send-failed-in-transaction",
        Action.ABORT,
        "a send of this transaction failed: abort the transaction, then go on; "
        "consumers of committed records never see its records",
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
            "its commit. Consumers of committed records never see its records."
        ),
        source="KIP-98; TransactionManager.maybeTransitionToErrorState",
    ),
    rule(
        "state-of-a-failed-transaction",
        Action.RECREATE,
        "the producer cannot continue the transaction: build a new producer",
        on=(e.ClientStateError,),
        transactional=(True,),
        scenario="An abort that is refused after the transaction failed.",
        source="kafka.producer.transaction_manager",
    ),
    rule(
        "commit-of-unknown-result",
        Action.RECREATE,
        "the transaction is not open any more, and the coordinator has probably "
        "aborted it: look up the result, do not repeat the commit",
        on=(48,),
        written="maybe",
        apis=frozenset({"EndTxn"}),
        scenario="A commit that races with the coordinator's own abort.",
        source="KAFKA-20785; KIP-890",
    ),
    rule(
        "client-must-start-over",
        Action.RECREATE,
        "the producer and the coordinator disagree about the transaction: build a new "
        "producer",
        on=(48, 49),
        scenario="The transactional id expired, or a call came in the wrong state.",
        source="KIP-360, KIP-890; TransactionManager",
    ),
    rule(
        "abort-refused",
        Action.RECREATE,
        "the broker refuses the abort itself: build a new producer, whose start "
        "aborts the open transaction",
        on=(e.AbortableError,),
        phase=("abort",),
        scenario="A repeated abort would get the same answer.",
        source="KIP-890; TransactionManager.transitionToFatalError",
    ),
    rule(
        "abort-and-go-on",
        Action.ABORT,
        "abort the transaction, then go on",
        on=(e.AbortableError,),
        scenario="The coordinator says so itself, or a partition leader saw a stale "
        "epoch, a gap or an unknown producer within a transaction.",
        source="KIP-890, KIP-1050",
    ),
    rule(
        "abort-after-sequence-error",
        Action.ABORT,
        "the producer's sequence is broken within a transaction: abort the "
        "transaction, then go on",
        on=(45, 47, 59),
        transactional=(True,),
        scenario="A partition leader answers for a batch of an open transaction.",
        source="KIP-360, KIP-588; TransactionManager.handleFailedBatch",
    ),
    rule(
        "offsets-of-a-lost-membership",
        Action.ABORT,
        "a rebalance ended this membership: abort the transaction, read again (poll, "
        "getmany), then continue only with partitions that this member still owns",
        on=(22, 25, 27, 110, 113),
        apis=GROUP_COMMIT,
        scenario="A rebalance between poll and send_offsets_to_transaction.",
        source="KIP-447; TransactionManager.TxnOffsetCommitHandler",
    ),
    rule(
        "neighbour-stopped-transaction",
        Action.ABORT,
        "another partition of the same request failed: abort the transaction",
        on=(55,),
        apis=COORDINATED_TXN,
        scenario="AddPartitionsToTxn is all or nothing.",
        source="KIP-98; TransactionManager.AddPartitionsToTxnHandler",
    ),
)
