"""Rules for conditions that a client reports about itself."""

from __future__ import annotations

from kafkaguard import _errors as e
from kafkaguard._errors.base import Action
from kafkaguard._verdicts.rules.rule import CHANGES, Rule, rule

RULES: tuple[Rule, ...] = (
    rule(
        "interrupted-change",
        Action.IN_DOUBT,
        "the application cancelled the call; the broker may have executed the request",
        on=(e.CallInterruptedError,),
        apis=CHANGES,
        written="maybe",
        scenario="A cancelled task, Ctrl-C, an exit. It is passed on unchanged.",
        source="aiokafka PR #25, PR #241",
    ),
    rule(
        "interrupted",
        Action.REJECT,
        "the application cancelled the call: never repeat it",
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
            "a gap in the sequence. Every later call fails the same way."
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
        "the schema registry that the (de)serialiser asks does not answer, and "
        "nothing was sent: try again",
        on=(e.ClientConnectionError, e.ClientTimeoutError),
        flag=("wrapped",),
        scenario="A reset or a 503 of the registry; the record itself is valid.",
        source="confluent_kafka.error.ValueSerializationError",
    ),
    rule(
        "registry-refuses",
        Action.CONFIGURE,
        "the schema registry that the (de)serialiser asks refuses the request, and "
        "nothing was sent: correct its login or rights (401, 403), the subject or the "
        "id (404), or the schema, which does not fit the earlier ones (409)",
        on=(
            e.AuthenticationError,
            e.AuthorizationError,
            e.ClientConfigurationError,
        ),
        flag=("wrapped",),
        scenario="Each record of the topic fails, until a person corrects it.",
        source="confluent_kafka.schema_registry.error.SchemaRegistryError",
    ),
    rule(
        "token-provider-failed",
        Action.RETRY,
        "the token provider failed, so the client cannot log in, and nothing was sent: "
        "try again, and look at the token server if it lasts",
        on=(e.TokenProviderError,),
        scenario="The token server answers 503, or its name does not resolve.",
        source="KIP-255; librdkafka oauthbearer_token_refresh_cb",
    ),
    rule(
        "background-report",
        Action.IGNORE,
        "a report from the background; act on the outcome of the request itself",
        phase=("background",),
        scenario=(
            "error_cb reports brokers that are down or a sequence error while the "
            "client still retries. Sending again would write duplicates."
        ),
        source="librdkafka #2543, #4953; PR #4972",
    ),
    rule(
        "call-under-way",
        Action.WAIT,
        "an earlier call of this kind is still running: wait until it ends, then call"
        " again",
        on=(-178, -177),
        scenario=(
            "librdkafka's _IN_PROGRESS and _PREV_IN_PROGRESS; they are not about a "
            "record."
        ),
        source="librdkafka RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS",
    ),
    rule(
        "too-much-in-flight",
        Action.WAIT,
        "the client accepts no more requests now: wait until some are answered, then "
        "send the same request",
        on=(e.ClientQueueFullError,),
        scenario="Too many requests of one connection are without an answer.",
        source="kafka.errors.TooManyInFlightRequests",
    ),
    rule(
        "not-connected",
        Action.RETRY,
        "there is no connection to a broker yet, so nothing was sent: check the "
        "address and the listener (TLS, login), and try again when a broker answers",
        on=(e.ClientNotConnectedError,),
        scenario="Names do not resolve, no broker answers, a node is not ready.",
        source="kafka-python #1627; librdkafka #3090",
    ),
    rule(
        "connection-lost",
        Action.RETRY,
        "the connection failed or broke: check the address if no broker has answered "
        "yet; a read can be repeated, a write may have been done",
        on=(e.ClientConnectionError,),
        apis=frozenset({None}),
        written="maybe",
        scenario="A disconnect during an unnamed request.",
        source="kafka-python #1627; librdkafka #2543",
    ),
    rule(
        "code-not-kept",
        Action.IN_DOUBT,
        "aiokafka reports every code that it does not know as -1: treat the write as "
        "possibly done",
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
        "the client does not know the topic, partition or broker: ask again when the "
        "client has refreshed its metadata; if that fails, check the name",
        on=(e.ClientMetadataError,),
        scenario="A broker that does not exist, or that was added a moment ago.",
        source="librdkafka #2858; KIP-207",
    ),
    rule(
        "garbled-answer",
        Action.IN_DOUBT,
        "the answer could not be read: the broker may have done what the request "
        "asked for",
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
        "not an error of Kafka: handle it as your own",
        on=(e.UnrelatedError,),
        scenario="A bug of the application, or of a hook.",
        source="docs: verdicts, fall-backs",
    ),
)
