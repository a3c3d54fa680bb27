"""What a client says about itself, whatever it was asked."""

from __future__ import annotations

from kafkaguard import errors as e
from kafkaguard._verdicts.rules.rule import CHANGES, Rule, rule
from kafkaguard._verdicts.verdict import Action

RULES: tuple[Rule, ...] = (
    rule(
        "interrupted-change",
        Action.IN_DOUBT,
        "the caller ended the call; what it asked for may have been done",
        on=(e.CallInterruptedError,),
        apis=CHANGES,
        written="maybe",
        scenario="A cancelled task, Ctrl-C, an exit. It is passed on untouched.",
        source="aiokafka PR #25, PR #241",
    ),
    rule(
        "interrupted",
        Action.REJECT,
        "the caller ended the call; it is passed on untouched and never repeated",
        on=(e.CallInterruptedError,),
        scenario="A cancelled task, Ctrl-C, an exit.",
        source="aiokafka PR #25",
    ),
    rule(
        "client-gave-itself-up",
        Action.RECREATE,
        "the client says that it cannot go on: build a new one, and count what was in "
        "flight as possibly written",
        on=(-148, -149, -150),
        written="maybe",
        scenario="librdkafka's _FATAL and its causes, as a code.",
        source="librdkafka #3584, #4438; RD_KAFKA_RESP_ERR__FATAL",
    ),
    rule(
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
    rule(
        "client-closed",
        Action.RECREATE,
        "this client object is closed: build a new one",
        on=(e.ClientClosedError,),
        scenario="A call on a client that was closed; nothing was sent.",
        source="librdkafka #3584; kafka-python #2240",
    ),
    rule(
        "serialiser-had-no-answer",
        Action.RETRY,
        "what the (de)serialiser asks (a schema registry) does not answer, and nothing "
        "was sent: try again",
        on=(e.ClientConnectionError, e.ClientTimeoutError),
        flag=("wrapped",),
        scenario="A reset or a 503 of the registry; the record is as good as before.",
        source="confluent_kafka.error.ValueSerializationError",
    ),
    rule(
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
    rule(
        "call-under-way",
        Action.WAIT,
        "the client is still at an earlier call of this kind: let it end, then call "
        "again",
        on=(-178, -177),
        scenario="librdkafka's _IN_PROGRESS and _PREV_IN_PROGRESS; no record is meant.",
        source="librdkafka RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS",
    ),
    rule(
        "too-much-in-flight",
        Action.WAIT,
        "the client takes no more requests now: wait until some are answered, then the "
        "same request",
        on=(e.ClientQueueFullError,),
        scenario="Too many requests of one connection are without an answer.",
        source="kafka.errors.TooManyInFlightRequests",
    ),
    rule(
        "not-connected",
        Action.RETRY,
        "there is no connection to a broker yet, so nothing was sent: try again",
        on=(e.ClientNotConnectedError,),
        scenario="Names do not resolve, no broker answers, a node is not ready.",
        source="kafka-python #1627; librdkafka #3090",
    ),
    rule(
        "connection-lost",
        Action.RETRY,
        "the connection broke: a read can be repeated; for a write, name the request",
        on=(e.ClientConnectionError,),
        apis=frozenset({None}),
        written="maybe",
        scenario="A disconnect, and it is not said from which request.",
        source="kafka-python #1627; librdkafka #2543",
    ),
    rule(
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
    rule(
        "cluster-not-known-yet",
        Action.REFRESH,
        "the client does not know the topic, partition or broker: ask again when it "
        "has refreshed its metadata; if it is still not there, ask for one that is",
        on=(e.ClientMetadataError,),
        scenario="A broker that does not exist, or that came a moment ago.",
        source="librdkafka #2858; KIP-207",
    ),
    rule(
        "garbled-answer",
        Action.IN_DOUBT,
        "the answer could not be read: what was asked for may have been done",
        on=(e.ClientProtocolError,),
        apis=CHANGES,
        written="maybe",
        scenario="A broken frame, a proxy in between, an answer out of order.",
        source="kafka-python #2679; kafka.errors.CorrelationIdError",
    ),
    rule(
        "notice",
        Action.IGNORE,
        "a notice, not a failure",
        on=(e.ClientNoticeError,),
        scenario="End of partition, nothing to commit, a rebalance step.",
        source="confluent_kafka.KafkaError._PARTITION_EOF",
    ),
    rule(
        "not-kafka",
        Action.REJECT,
        "this is no error of Kafka's; it is passed on as it is",
        on=(e.UnrelatedError,),
        scenario="A bug of the application, or of a hook.",
        source="docs: verdicts, fall-backs",
    ),
)
