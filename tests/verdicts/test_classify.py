"""What to do: each rule, each code, and what is done with what nobody knows."""

from __future__ import annotations

import asyncio
import enum
import itertools
import pickle

import aiokafka.errors as aiokafka_errors
import kafka.errors as kafka_errors
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.error import (
    KeyDeserializationError,
    KeySerializationError,
    ValueDeserializationError,
    ValueSerializationError,
)
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import Action, TopicFacts, classify
from kafkaguard import errors as e
from kafkaguard._errors import special
from kafkaguard._errors.base import RETRIABLE_ACTIONS
from kafkaguard._errors.generated import BY_CODE
from kafkaguard._errors.librdkafka import LOCAL_CODES
from kafkaguard._verdicts import classification
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard._verdicts.rules import AREAS, ORDER, RULES
from kafkaguard._verdicts.rules.rule import CHANGES

COMPACTED, TIERED = TopicFacts(compacted=True), TopicFacts(tiered=True)


def flagged(code, **flags):
    """Make a KafkaError with flags set, by the keywords that its constructor has."""
    return KafkaError(code, "said librdkafka", **flags)


class SchemaRegistryError(Exception):
    """As confluent-kafka's: with the status of HTTP."""

    def __init__(self, status):
        super().__init__(status)
        self.http_status_code = status


def wrapped(cause):
    """Raise what confluent-kafka makes of an exception of a serialiser."""
    try:
        try:
            raise cause
        except Exception as error:
            raise ValueSerializationError(error)
    except ValueSerializationError as error:
        return error


def ended_by(code):
    """Make librdkafka's error of a client that has ended for good, and why."""
    text = f"Fatal error: {KafkaError(code).str()}: ConsumerGroupHeartbeat failed"
    return KafkaException(KafkaError(-150, text))


# rule, error, context, action, written. One line at least for every rule.
EXAMPLES = [
    ("no-error", 0, {}, "IGNORE", "yes"),
    ("fenced-or-timed-out", 90, {"api": "EndTxn"}, "FENCED", "no"),
    ("fenced", 82, {"api": "Heartbeat"}, "FENCED", "no"),
    ("fenced", KafkaError(-144), {}, "FENCED", "no"),
    ("fenced-by-coordinator", 47, {"api": "InitProducerId"}, "FENCED", "no"),
    ("client-gave-itself-up", KafkaError(-150), {}, "RECREATE", "maybe"),
    ("fenced", ended_by(82), {}, "FENCED", "no"),
    ("fenced", ended_by(111), {}, "FENCED", "no"),
    ("misconfigured-for-good", ended_by(112), {}, "CONFIGURE", "no"),
    ("client-is-dead", ended_by(22), {}, "RECREATE", "maybe"),
    ("client-is-dead", ended_by(47), {}, "RECREATE", "maybe"),
    ("client-is-dead", flagged(45, fatal=True), {}, "RECREATE", "maybe"),
    ("client-wants-abort", flagged(7, txn_requires_abort=True), {}, "ABORT", "no"),
    (
        "commit-again",
        KafkaException(flagged(-173, retriable=True)),
        {"phase": "commit"},
        "RETRY",
        "maybe",
    ),
    (
        "commit-without-answer",
        KafkaException(flagged(-185, retriable=True)),
        {"phase": "commit"},
        "IN_DOUBT",
        "maybe",
    ),
    ("denied", 29, {"api": "Metadata"}, "CONFIGURE", "no"),
    ("mechanism-not-offered", 33, {}, "CONFIGURE", "no"),
    (
        "mechanism-not-offered",
        KafkaError(
            -169,
            "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: "
            "broker's supported mechanisms: SCRAM-SHA-512 (after 2ms in state "
            "AUTH_HANDSHAKE)",
        ),
        {},
        "CONFIGURE",
        "no",
    ),
    ("port-without-login", 34, {}, "CONFIGURE", "no"),
    (
        "port-without-login",
        KafkaException(
            KafkaError(
                -169,
                "SASL PLAIN mechanism handshake failed: Broker: Request not valid in "
                "current SASL state: broker's supported mechanisms:  (after 2ms)",
            )
        ),
        {},
        "CONFIGURE",
        "no",
    ),
    (
        "connection-lost",
        KafkaError(
            -169,
            "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: "
            "broker's supported mechanisms:  (after 1ms in state AUTH_HANDSHAKE)",
        ),
        {},
        "RETRY",
        "maybe",
    ),
    ("denied", 58, {}, "CONFIGURE", "no"),
    ("denied", KafkaError(-169), {"phase": "background"}, "CONFIGURE", "no"),
    ("client-closed", aiokafka_errors.ProducerClosed(), {}, "RECREATE", "no"),
    ("background-report", KafkaError(-187), {"phase": "background"}, "IGNORE", "no"),
    ("background-report", KafkaError(45), {"phase": "background"}, "IGNORE", "no"),
    (
        "null-key-on-compacted-topic",
        87,
        {"api": "Produce", "null_key": True, "facts": COMPACTED},
        "REJECT",
        "no",
    ),
    ("null-key-on-compacted-topic", 2, {"null_key": True}, "REJECT", "no"),
    (
        "refused-alone",
        87,
        {"api": "Produce", "null_key": False, "phase": "single"},
        "REJECT",
        "no",
    ),
    ("batch-mate-refused", 87, {"null_key": False}, "RETRY", "no"),
    ("batch-mate-refused-locally", KafkaError(-138), {}, "RETRY", "no"),
    ("record-refused", 87, {"api": "Produce"}, "REJECT", "no"),
    (
        "record-refused",
        87,
        {"null_key": True, "facts": TopicFacts(compacted=False)},
        "REJECT",
        "no",
    ),
    ("damaged-on-the-way", 2, {"null_key": False}, "RETRY", "no"),
    ("record-too-large", 10, {"api": "Produce"}, "REJECT", "no"),
    (
        "record-too-large-for-client",
        kafka_errors.MessageSizeTooLargeError("larger than max_request_size"),
        {"api": "Produce", "phase": "enqueue"},
        "REJECT",
        "no",
    ),
    ("record-too-large", aiokafka_errors.RecordTooLargeError(), {}, "REJECT", "no"),
    ("record-never-valid", 32, {"api": "Produce"}, "REJECT", "no"),
    ("queue-full", BufferError("Local: Queue full"), {}, "WAIT", "no"),
    ("call-under-way", KafkaError(-177), {}, "WAIT", "no"),
    (
        "too-much-in-flight",
        kafka_errors.TooManyInFlightRequests(),
        {"api": "Fetch"},
        "WAIT",
        "no",
    ),
    ("throttled", 89, {"api": "CreateTopics"}, "WAIT", "no"),
    ("already-written", 46, {"api": "Produce"}, "IGNORE", "yes"),
    ("not-waited-for-replicas", 20, {"api": "Produce"}, "IN_DOUBT", "maybe"),
    (
        "leader-lost-after-append",
        6,
        {"api": "Produce", "idempotent": False},
        "IN_DOUBT",
        "maybe",
    ),
    ("answer-lost", 7, {"api": "Produce"}, "IN_DOUBT", "maybe"),
    ("answer-lost", 7, {}, "IN_DOUBT", "maybe"),
    ("answer-lost", 7, {"api": "CreateDelegationToken"}, "IN_DOUBT", "maybe"),
    ("sequence-protects", 7, {"api": "Produce", "idempotent": True}, "RETRY", "maybe"),
    # A client that reports has given up: a new send has a new sequence number.
    ("answer-lost", KafkaError(7), {"idempotent": True}, "IN_DOUBT", "maybe"),
    (
        "not-waited-for-replicas",
        KafkaException(KafkaError(20)),
        {"api": "Produce", "idempotent": True},
        "IN_DOUBT",
        "maybe",
    ),
    (
        "leader-lost-after-append",
        kafka_errors.NotLeaderForPartitionError(),
        {"api": "Produce", "idempotent": True},
        "IN_DOUBT",
        "maybe",
    ),
    ("leader-lost-after-append", 6, {"api": "Produce"}, "IN_DOUBT", "maybe"),
    ("leader-lost-after-append", 56, {"api": "Produce"}, "IN_DOUBT", "maybe"),
    ("interrupted-change", asyncio.CancelledError(), {}, "IN_DOUBT", "maybe"),
    ("interrupted", asyncio.CancelledError(), {"api": "Fetch"}, "REJECT", "no"),
    ("interrupted", KeyboardInterrupt(), {"api": "Fetch"}, "REJECT", "no"),
    (
        "interrupted",
        asyncio.CancelledError(),
        {"api": "Fetch", "phase": "enqueue"},
        "REJECT",
        "no",
    ),
    ("misconfigured-for-good", flagged(35, fatal=True), {}, "CONFIGURE", "no"),
    ("misconfigured-for-good", flagged(50, fatal=True), {}, "CONFIGURE", "no"),
    ("end-transaction-again-after-refresh", 16, {"api": "EndTxn"}, "REFRESH", "maybe"),
    ("end-transaction-again", 7, {"phase": "commit"}, "RETRY", "maybe"),
    ("end-transaction-again", KafkaError(-195), {"phase": "abort"}, "RETRY", "maybe"),
    (
        "commit-without-answer",
        KafkaError(-185),
        {"phase": "commit"},
        "IN_DOUBT",
        "maybe",
    ),
    ("abort-without-answer", KafkaError(-185), {"phase": "abort"}, "RETRY", "no"),
    (
        "fenced-by-coordinator",
        47,
        {"phase": "commit", "transactional": True},
        "FENCED",
        "no",
    ),
    ("commit-of-unknown-result", 48, {"phase": "commit"}, "RECREATE", "maybe"),
    (
        "null-key-in-transaction",
        87,
        {"api": "Produce", "transactional": True, "null_key": True},
        "ABORT",
        "no",
    ),
    (
        "send-failed-in-transaction",
        KafkaError(10),
        {"api": "Produce", "transactional": True},
        "ABORT",
        "no",
    ),
    (
        "null-key-behind-a-lost-code",
        aiokafka_errors.UnknownError(),
        {"null_key": True, "facts": COMPACTED},
        "REJECT",
        "no",
    ),
    (
        "refused-alone",
        KafkaError(-138),
        {"api": "Produce", "phase": "single"},
        "REJECT",
        "no",
    ),
    ("change-may-be-done", 7, {"api": "CreateTopics"}, "RETRY", "maybe"),
    ("change-may-be-done", KafkaError(-185), {"api": "OffsetCommit"}, "RETRY", "maybe"),
    ("connection-lost", kafka_errors.KafkaConnectionError(), {}, "RETRY", "maybe"),
    (
        "not-connected",
        kafka_errors.KafkaTimeoutError("Unable to bootstrap from x"),
        {},
        "RETRY",
        "no",
    ),
    (
        "not-connected",
        aiokafka_errors.KafkaConnectionError("Unable to bootstrap from [('x', 1, 0)]"),
        {},
        "RETRY",
        "no",
    ),
    (
        "no-metadata-of-topic",
        kafka_errors.KafkaTimeoutError("Failed to update metadata after 60.0 secs."),
        {"api": "Produce"},
        "REFRESH",
        "no",
    ),
    (
        "state-of-a-failed-transaction",
        kafka_errors.KafkaError("Invalid transition attempted"),
        {"transactional": True},
        "RECREATE",
        "no",
    ),
    ("fenced", aiokafka_errors.ProducerFenced(), {}, "FENCED", "no"),
    ("client-closed", RuntimeError("Consumer closed"), {}, "RECREATE", "no"),
    ("not-kafka", BufferError("Existing exports of data"), {}, "REJECT", "no"),
    ("retry", kafka_errors.RetriableError(), {"api": "Fetch"}, "RETRY", "no"),
    ("denied", kafka_errors.AuthorizationError(), {}, "CONFIGURE", "no"),
    (
        "sequence-protects-after-refresh",
        6,
        {"api": "Produce", "idempotent": True},
        "REFRESH",
        "maybe",
    ),
    (
        "gave-up-before-handing-over",
        kafka_errors.KafkaTimeoutError(),
        {"api": "Produce", "phase": "enqueue"},
        "RETRY",
        "no",
    ),
    (
        "gave-up-before-handing-over",
        kafka_errors.UnknownError(),
        {"api": "Produce", "phase": "enqueue"},
        "RETRY",
        "no",
    ),
    ("topic-not-there", 3, {"api": "Produce", "phase": "enqueue"}, "CONFIGURE", "no"),
    ("gave-up-waiting", KafkaError(-192), {"idempotent": True}, "IN_DOUBT", "maybe"),
    ("gave-up-waiting", TimeoutError(), {"api": "Produce"}, "IN_DOUBT", "maybe"),
    (
        "not-connected",
        kafka_errors.NodeNotReadyError(),
        {"api": "Produce"},
        "RETRY",
        "no",
    ),
    (
        "connection-lost-in-flight",
        kafka_errors.KafkaConnectionError(),
        {"api": "Produce"},
        "IN_DOUBT",
        "maybe",
    ),
    ("purged-in-flight", KafkaError(-151), {}, "IN_DOUBT", "maybe"),
    ("purged", KafkaError(-152), {}, "REJECT", "no"),
    ("commit-of-unknown-result", 48, {"api": "EndTxn"}, "RECREATE", "maybe"),
    ("client-must-start-over", 49, {"api": "AddPartitionsToTxn"}, "RECREATE", "no"),
    ("abort-and-go-on", 120, {"api": "Produce"}, "ABORT", "no"),
    (
        "abort-after-sequence-error",
        47,
        {"api": "Produce", "transactional": True},
        "ABORT",
        "no",
    ),
    ("sequence-broken", 45, {"api": "Produce", "idempotent": True}, "RECREATE", "no"),
    ("offsets-of-a-lost-membership", 22, {"api": "TxnOffsetCommit"}, "ABORT", "no"),
    (
        "neighbour-stopped-transaction",
        55,
        {"api": "AddPartitionsToTxn"},
        "ABORT",
        "no",
    ),
    ("not-attempted", 55, {"api": "AlterPartitionReassignments"}, "RETRY", "no"),
    ("group-moved-on", 27, {"api": "OffsetCommit"}, "REJOIN", "no"),
    ("group-moved-on", kafka_errors.CommitFailedError(), {}, "REJOIN", "no"),
    ("join-with-given-id", 79, {"api": "JoinGroup"}, "RETRY", "no"),
    ("remote-storage-not-ready", 9, {"api": "Fetch", "facts": TIERED}, "RETRY", "no"),
    (
        "remote-storage-not-ready",
        -1,
        {"api": "ListOffsets", "facts": TIERED},
        "RETRY",
        "no",
    ),
    ("replica-down-in-metadata", 9, {"api": "Metadata"}, "IGNORE", "yes"),
    ("election-not-needed", 84, {"api": "ElectLeaders"}, "IGNORE", "yes"),
    ("end-offset-not-known-yet", 78, {"api": "ListOffsets"}, "REFRESH", "no"),
    ("ask-the-controller", 41, {"api": "CreateTopics"}, "REFRESH", "no"),
    ("start-from-bootstrap", 129, {"api": "Metadata"}, "REFRESH", "no"),
    ("commit-for-others", KafkaError(-172), {"api": "OffsetCommit"}, "REJOIN", "no"),
    ("group-in-use", 25, {"api": "DeleteGroups"}, "CONFIGURE", "no"),
    ("group-in-use-anywhere", 86, {}, "CONFIGURE", "no"),
    (
        "group-in-use-by-members",
        25,
        {"api": "OffsetCommit", "phase": "admin"},
        "CONFIGURE",
        "no",
    ),
    ("abort-refused", 120, {"phase": "abort"}, "RECREATE", "no"),
    ("serialiser-had-no-answer", wrapped(ConnectionResetError()), {}, "RETRY", "no"),
    ("registry-refuses", wrapped(SchemaRegistryError(404)), {}, "CONFIGURE", "no"),
    ("tls-failed", -181, {}, "CONFIGURE", "no"),
    ("token-provider-failed", e.TokenProviderError(), {}, "RETRY", "no"),
    (
        "created-already",
        36,
        {"api": "CreateTopics", "phase": "repeated"},
        "IGNORE",
        "yes",
    ),
    (
        "deleted-already",
        3,
        {"api": "DeleteTopics", "phase": "repeated"},
        "IGNORE",
        "yes",
    ),
    ("nothing-to-delete", 3, {"api": "DeleteTopics"}, "REJECT", "no"),
    ("disk-has-failed", 56, {"api": "DescribeLogDirs"}, "CONFIGURE", "no"),
    ("offset-out-of-range", 1, {"api": "Fetch"}, "REJECT", "no"),
    ("code-not-kept", aiokafka_errors.UnknownError(), {}, "IN_DOUBT", "maybe"),
    ("server-error-on-change", -1, {"api": "Produce"}, "IN_DOUBT", "maybe"),
    ("server-error-on-read", -1, {"api": "Fetch"}, "RETRY", "no"),
    ("tiered-follower-only", 109, {"api": "Fetch"}, "CONFIGURE", "no"),
    ("administrator-must-mend", 37, {"api": "CreateTopics"}, "CONFIGURE", "no"),
    ("settings-refused", 26, {"api": "JoinGroup"}, "CONFIGURE", "no"),
    (
        "client-refuses-settings",
        kafka_errors.UnsupportedCodecError(),
        {},
        "CONFIGURE",
        "no",
    ),
    ("configuration", 38, {"api": "CreateTopics"}, "CONFIGURE", "no"),
    ("topic-not-known-yet", KafkaError(-188), {}, "REFRESH", "no"),
    (
        "cluster-not-known-yet",
        e.ClientMetadataError(api="DescribeLogDirs", broker=99),
        {},
        "REFRESH",
        "no",
    ),
    ("garbled-answer", kafka_errors.CorrelationIdError(), {}, "IN_DOUBT", "maybe"),
    ("notice", KafkaError(-191), {}, "IGNORE", "no"),
    ("partition-not-there", e.PartitionNotThereError(), {}, "REJECT", "no"),
    ("cannot-serialise", KafkaError(-161), {}, "REJECT", "no"),
    ("not-kafka", ValueError("bug"), {}, "REJECT", "no"),
    ("no-leader", 5, {"api": "Metadata"}, "REFRESH", "no"),
    ("refresh-and-retry", 6, {"api": "Fetch"}, "REFRESH", "no"),
    ("retry", 19, {"api": "Produce"}, "RETRY", "no"),
    ("unrecognised-code-on-change", 999, {"api": "Produce"}, "IN_DOUBT", "maybe"),
    ("unrecognised-code", 999, {"api": "Fetch"}, "REJECT", "no"),
    ("fatal", 57, {"api": "AlterReplicaLogDirs"}, "REJECT", "no"),
]


@pytest.mark.parametrize(("rule", "error", "context", "action", "written"), EXAMPLES)
def test_rule(rule, error, context, action, written):
    """Each rule decides about the scenario of its example."""
    verdict = classify(error, **context)
    assert (rule, action, written) == (verdict.rule.id, verdict.action, verdict.written)
    assert verdict.retriable == (verdict.action in RETRIABLE_ACTIONS)


def test_every_rule_has_an_example_and_can_be_reached():
    """No rule is dead, and no example names a rule that is gone."""
    assert set(ORDER) == {example[0] for example in EXAMPLES}
    assert len(set(ORDER)) == len(ORDER)


def test_every_rule_of_every_area_is_in_the_order():
    """A rule that ORDER does not name would never be tried."""
    written = [rule.info.id for area in AREAS for rule in area.RULES]
    assert sorted(ORDER) == sorted(written)


def test_every_rule_gives_scenario_reason_and_source():
    """The words are there, and the requests exist."""
    for rule in RULES:
        assert rule.info.sentence
        assert rule.info.scenario
        assert rule.info.source
        assert {api for api in rule.apis or () if api} <= set(API_KEYS), rule.info.id


# The deliberate differences from Java's flag, by the rule that makes them.
RETRIED_ALTHOUGH_FATAL = {
    "join-with-given-id",
    "not-attempted",
    "server-error-on-read",
    "start-from-bootstrap",
}
STOPPED_ALTHOUGH_RETRIABLE = {
    "answer-lost",
    "deleted-already",
    "disk-has-failed",
    "nothing-to-delete",
    "election-not-needed",
    "leader-lost-after-append",
    "not-waited-for-replicas",
    "replica-down-in-metadata",
}


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_every_row_of_the_table_has_a_verdict_for_every_request(code):
    """Each code with each request: the class is the code's or a named refinement."""
    for api in [None, *API_KEYS]:
        verdict = classify(code, api=api)
        cls = BY_CODE[code]
        refined = {rule.error_class for rule in RULES}
        assert verdict.error_class is cls or verdict.error_class in refined
        if verdict.retriable and not issubclass(cls, e.RetriableError):
            assert verdict.rule.id in RETRIED_ALTHOUGH_FATAL, (code, api)
        if issubclass(cls, e.RetriableError) and not verdict.retriable:
            assert verdict.rule.id in STOPPED_ALTHOUGH_RETRIABLE, (code, api)
        if verdict.action is Action.IN_DOUBT:
            assert api in CHANGES
            assert verdict.written == "maybe"


@given(
    st.integers(-300, 300),
    st.sampled_from([None, *API_KEYS]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, True, False]),
    st.booleans(),
    st.sampled_from([None, "enqueue", "single", "background", "commit", "abort"]),
    st.sampled_from([None, TopicFacts(), COMPACTED, TIERED]),
)
def test_every_combination_has_one_interned_verdict(
    code, api, null_key, idempotent, transactional, phase, facts
):
    """Whatever is asked, the answer is a verdict, the same one each time."""
    context = {
        "api": api,
        "null_key": null_key,
        "idempotent": idempotent,
        "transactional": transactional,
        "phase": phase,
        "facts": facts,
    }
    verdict = classify(code, **context)
    assert classify(code, **context) is verdict
    assert pickle.loads(pickle.dumps(verdict)) == verdict


def test_same_verdict_of_different_codes_is_shared_only_with_the_same_class():
    """Verdicts of different error classes are never the same object."""
    assert classify(15).rule is classify(16).rule
    assert classify(15).error_class is not classify(16).error_class


CODES_OF_ALL_CLIENTS = sorted(
    set(kafka_errors.kafka_errors) & set(aiokafka_errors.kafka_errors) & set(BY_CODE)
)


@pytest.mark.parametrize("code", CODES_OF_ALL_CLIENTS)
@pytest.mark.parametrize("api", ["Produce", "Fetch", "OffsetCommit"])
def test_whatever_the_client_the_same_answer_has_the_same_verdict(code, api):
    """A code, three clients' exceptions and a bare KafkaError agree."""
    expected = classify(code, api=api)
    spoken = [
        kafka_errors.for_code(code)("text"),
        KafkaException(KafkaError(code)),
        KafkaError(code),
    ]
    # aiokafka's -1 may be any code that it does not know.
    if code != -1:
        spoken.append(aiokafka_errors.for_code(code)("text"))
    for error in spoken:
        assert classify(error, api=api) is expected
        assert classify(error, api=api) is expected  # and from the second time on


def test_flags_that_are_never_set_do_not_matter():
    """retriable() is False outside transactions (confluent-kafka-python #1804)."""
    for code, action in ((6, "REFRESH"), (19, "RETRY"), (-192, "IN_DOUBT")):
        error = KafkaError(code)
        assert not error.retriable()
        assert action == classify(error).action
        assert action == classify(KafkaException(error)).action


def test_a_raised_kafka_error_is_understood_although_it_is_no_exception():
    """`raise KafkaError(10)` works, and `except Exception` misses it."""
    assert not isinstance(KafkaError(10), BaseException)
    assert classify(KafkaError(10), api="Produce").rule.id == "record-too-large"


def test_unknown_code_is_not_retriable_and_its_number_is_kept():
    """A code that Kafka 4.4 does not have is fatal, and keeps its number."""
    verdict = classify(kafka_errors.for_code(999)("new"), api="Fetch")
    assert not verdict.retriable
    assert verdict.rule.id == "unrecognised-code"
    assert verdict.error_class.code == 999


def test_classes_made_on_the_spot_do_not_pile_up():
    """kafka-python makes a new class for each unknown answer; none is remembered."""
    from kafkaguard._verdicts import signals

    classify(kafka_errors.for_code(998)("new"))
    before = len(signals._BY_CLASS)
    for _ in range(100):
        classify(kafka_errors.for_code(998)("new"))
    assert before == len(signals._BY_CLASS)


@pytest.mark.parametrize(
    "error",
    [
        kafka_errors.NodeNotReadyError(),
        kafka_errors.KafkaConnectionError("refused"),
        aiokafka_errors.NoBrokersAvailable(),
        aiokafka_errors.NodeNotReadyError(),
        aiokafka_errors.KafkaConnectionError("refused"),
        KafkaError(-195),
        KafkaError(-187),
        ConnectionRefusedError(),
    ],
    ids=repr,
)
def test_no_connection_is_one_family(error):
    """Each class for a lost connection is RETRY (kafka-python #1627)."""
    verdict = classify(error)
    assert verdict.action is Action.RETRY
    assert issubclass(verdict.error_class, e.ClientConnectionError)
    assert verdict.error_class.origin == "client"


@pytest.mark.parametrize("package", [kafka_errors, aiokafka_errors])
def test_unsupported_version_is_configuration_whoever_says_it(package):
    """UnsupportedVersion is CONFIGURE, whether a broker or the client raises it."""
    verdict = classify(package.UnsupportedVersionError("no such version"))
    assert verdict.action is Action.CONFIGURE


def test_denied_lookup_is_configuration_not_a_retry():
    """A denied DescribeConfigs is CONFIGURE (quix-streams #737)."""
    denied = kafka_errors.TopicAuthorizationFailedError("topic p")
    verdict = classify(denied, api="DescribeConfigs")
    assert (verdict.action, verdict.retriable) == (Action.CONFIGURE, False)


def test_tombstone_is_not_a_null_key():
    """A null value with a key is not refused as a null key (kafka-python #1663)."""
    tombstone = classify(87, api="Produce", null_key=False, facts=COMPACTED)
    assert tombstone.retriable
    assert tombstone.error_class is e.BatchMateRefusedError


def test_authorization_hidden_in_a_timeout_counts():
    """The authorization error that caused a timeout decides (kafka-python #2078)."""
    try:
        try:
            raise kafka_errors.TopicAuthorizationFailedError("t")
        except kafka_errors.KafkaError as cause:
            raise kafka_errors.KafkaTimeoutError("60 s") from cause
    except kafka_errors.KafkaTimeoutError as error:
        for _ in range(2):
            assert classify(error, api="Produce").action is Action.CONFIGURE


def test_explicit_causes_are_followed_through_foreign_exceptions():
    """`raise ... from error` says that the error is the reason."""
    try:
        try:
            raise KafkaException(KafkaError(16))
        except KafkaException as cause:
            raise RuntimeError("in the application") from cause
    except RuntimeError as error:
        assert classify(error).rule.id == "refresh-and-retry"


def raised_while_handling(error, handled):
    """Raise an exception in the except block of another one."""
    try:
        try:
            raise handled
        except KafkaException:
            raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("code", [-191, 46, -184, 6])
@pytest.mark.parametrize(
    "bug", [KeyError("bug"), MemoryError(), SystemExit(), asyncio.CancelledError()]
)
def test_a_bug_in_a_handler_is_not_the_error_that_was_handled(bug, code):
    """An implicit context never makes a bug or an exit retriable or ignored."""
    error = raised_while_handling(bug, KafkaException(KafkaError(code)))
    verdict = classify(error, api="Fetch")
    assert verdict.action is Action.REJECT
    assert verdict.written == "no"


def test_context_of_a_clients_own_exception_is_followed():
    """A client that raises a timeout while it handles a denial means the denial."""
    denied = KafkaException(KafkaError(29))
    error = raised_while_handling(kafka_errors.KafkaTimeoutError("60 s"), denied)
    assert classify(error).action is Action.CONFIGURE


def test_endless_cause_chain_ends():
    """A loop of causes is no endless loop here."""
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first).rule.id == "not-kafka"


def test_of_a_group_the_severest_member_counts():
    """A group may be tried again only if each of its members may."""
    retriable = ExceptionGroup("g", [kafka_errors.NotLeaderForPartitionError()])
    assert classify(retriable).action is Action.REFRESH
    mixed = ExceptionGroup("g", [retriable, KafkaException(KafkaError(29))])
    assert classify(mixed).action is Action.CONFIGURE


def test_severity_is_the_order_of_the_actions():
    """Stopping wins over going on, and nothing over a fenced id."""
    order = "IGNORE RETRY REFRESH WAIT REJOIN ABORT REJECT IN_DOUBT CONFIGURE RECREATE"
    assert [*order.split(), "FENCED"] == [action.value for action in Action]
    codes = {46: {}, 19: {}, 6: {"api": "Fetch"}, 89: {}, 27: {}, 120: {}, 10: {}}
    codes |= {7: {}, 29: {}, 45: {}, 82: {}}
    errors = [
        e.for_code(code)(**{"api": "Produce", **kw}) for code, kw in codes.items()
    ]
    assert list(Action) == [classify(error).action for error in errors]
    for less, more in itertools.combinations(errors, 2):
        for group in ((less, more), (more, less)):
            assert classify(ExceptionGroup("g", group)) is classify(more)


@pytest.mark.parametrize("flag", ["fatal", "txn_requires_abort"])
@pytest.mark.parametrize("code", [29, 31, 35, 53, 58, 90, -169, -181])
def test_flags_never_soften(flag, code):
    """Fenced stays fenced, and a wrong password is not mended by a new client."""
    plain = classify(KafkaError(code))
    assert plain.action in {Action.FENCED, Action.CONFIGURE}
    assert classify(flagged(code, **{flag: True})).action is plain.action


def test_our_own_errors_are_judged_by_what_they_carry():
    """Api and implied facts come from the exception."""
    assert classify(e.UnknownServerError(api="Fetch")).action is Action.RETRY
    for error in (
        e.InvalidRecordKeyError(topic="t"),
        e.BatchMateRefusedError(code=87, api="Produce"),
        e.RemoteStorageNotReadyError(code=9, api="ListOffsets"),
        e.RemoteStorageNotReadyError(),
    ):
        assert classify(error).error_class is type(error)
        assert error.verdict is classify(error)


@pytest.mark.parametrize(
    "timeout",
    [KafkaException(KafkaError(-195)), kafka_errors.KafkaTimeoutError("60 s")],
)
def test_causes_count_when_the_class_is_known_too(timeout):
    """The first time, and from the second time on."""
    classify(type(timeout)(*timeout.args))
    for hidden in ("__cause__", "__context__"):
        error = type(timeout)(*timeout.args)
        setattr(error, hidden, KafkaException(KafkaError(29)))
        assert classify(error, api="Fetch").action is Action.CONFIGURE


def test_our_own_error_with_a_clients_code_is_judged_as_the_clients():
    """Its number below -1 is librdkafka's; who is named goes before who is in it."""
    for code in (-1, -195, -150, 16):
        ours = e.for_code(code)(api="Fetch")
        assert classify(ours) is classify(KafkaError(code), api="Fetch")
    lost = e.UnknownServerError(client="aiokafka", api="Produce")
    assert classify(lost).rule.id == "code-not-kept"
    assert classify(lost, client="kafka-python").rule.id == "server-error-on-change"
    assert classify(lost, api="Fetch").rule.id == "server-error-on-read"


@pytest.mark.parametrize(
    "package", [kafka_errors, aiokafka_errors], ids=lambda package: package.__name__
)
def test_every_exception_of_a_client_is_known(package):
    """No class of theirs ends at the fall-back for want of a line in a table."""
    from kafkaguard._verdicts.signals import CONDITIONS

    theirs = {
        name
        for name, cls in vars(package).items()
        if isinstance(cls, type)
        and issubclass(cls, package.KafkaError)
        and getattr(cls, "errno", None) is None
    }
    children_of_known = {"InvalidReceiveError"}
    assert theirs - children_of_known <= set(CONDITIONS)


def test_numbers_that_are_no_plain_int_are_codes_too():
    """An IntEnum member is classified by its number."""
    code = enum.IntEnum("Code", {"NOT_COORDINATOR": 16}).NOT_COORDINATOR
    assert classify(code) is classify(16)


def test_subclass_of_kafka_error_is_understood():
    """It is told by what it can do, not by its module."""

    class MineError(KafkaError):
        pass

    assert classify(MineError(16)) is classify(KafkaError(16))


def test_deeply_nested_groups_are_no_recursion():
    """3,000 exception groups in one another are classified."""
    group = ExceptionGroup("g", [KafkaException(KafkaError(29))])
    for _ in range(3000):
        group = ExceptionGroup("g", [group])
    assert classify(group).action is Action.CONFIGURE


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("idempotent", "false"),
        ("transactional", "no"),
        ("transactional", None),
        ("null_key", "false"),
        ("client", 3),
        ("facts", "x"),
        ("facts", {"compacted": True}),
        ("facts", {}),
    ],
)
@pytest.mark.parametrize("error", [6, KafkaError(6), ValueError()], ids=repr)
def test_what_only_looks_like_a_fact_is_refused(error, name, value):
    """The text "false" is true in Python: it would turn a verdict round."""
    with pytest.raises(TypeError, match=rf"classify\(\): {name} takes "):
        classify(error, **{name: value})


@pytest.mark.parametrize("wrong", ["NOT_COORDINATOR", None, 1.5, True, object()])
def test_what_is_no_error_is_refused(wrong):
    """classify() raises TypeError for anything but a code or an exception."""
    with pytest.raises(TypeError, match="error code, an exception"):
        classify(wrong)


def test_wrong_names_are_answered_with_the_right_ones():
    """A misspelt request or phase is answered with the closest name."""
    with pytest.raises(ValueError, match="did you mean 'ListOffsets'"):
        classify(6, api="list_offsets")
    with pytest.raises(ValueError, match="the phases are abort, admin, background"):
        classify(6, phase="sending")


def test_own_errors_facts_are_added_to_those_that_are_given():
    """What the caller knows of the topic is not lost."""
    given = TopicFacts(tiered=True)
    context = (None, None, given, None, False, None)
    found = classification._with_own_facts(e.InvalidRecordKeyError(), context)
    assert found[2] == TopicFacts(compacted=True, tiered=True)


#: What is about a record whatever it answers: librdkafka's own words for its queue.
_OF_RECORDS = (
    *(e.SerializationFailedError, e.RecordPurgedError, e.BatchMateRefusedError),
    *(e.OffsetOutOfRangeError, e.ClientClosedError),
)


@pytest.mark.parametrize("api", sorted(API_KEYS.keys() - {"Produce", "Fetch"}))
def test_no_record_is_spoken_of_where_none_was_sent(api):
    """The next step after DescribeLogDirs or ListGroups is not to send a record."""
    conditions = (getattr(e, name) for name in special.__all__)
    for subject in (*BY_CODE, *LOCAL_CODES, *(cls() for cls in conditions)):
        verdict = classify(subject, api=api)
        allowed = issubclass(verdict.error_class, _OF_RECORDS)
        told = verdict.rule.sentence.replace("record or request", "")
        assert allowed or "record" not in told, (subject, told)


def test_memo_is_bounded(monkeypatch):
    """Callers who make up contexts do not fill the memory."""
    monkeypatch.setattr(classification, "_MEMO", {})
    monkeypatch.setattr(classification, "_MEMO_LIMIT", 10)
    for code in range(1000, 1100):
        classify(code)
    assert len(classification._MEMO) == 10


def test_local_codes_all_have_a_verdict_that_fits_their_class():
    """Every local code of librdkafka, in and out of the background."""
    for code, phase in itertools.product(LOCAL_CODES, (None, "background")):
        verdict = classify(KafkaError(code), phase=phase)
        assert issubclass(e.for_code(code), LOCAL_CODES[code][1])
        assert verdict.rule.id != "fatal" or LOCAL_CODES[code][1] is e.ClientStateError


@pytest.mark.parametrize(
    ("cause", "action"),
    [
        (ConnectionResetError, "RETRY"),
        (lambda: TimeoutError("timed out"), "RETRY"),
        (lambda: SchemaRegistryError(503), "RETRY"),
        (lambda: SchemaRegistryError(429), "RETRY"),
        (lambda: SchemaRegistryError(401), "CONFIGURE"),
        (lambda: SchemaRegistryError(404), "CONFIGURE"),
        (lambda: SchemaRegistryError(409), "CONFIGURE"),
        (lambda: SchemaRegistryError(422), "REJECT"),
        (lambda: TypeError("an int is needed"), "REJECT"),
        (lambda: KafkaException(KafkaError(29)), "CONFIGURE"),
    ],
)
@pytest.mark.parametrize("api", [None, "Produce", "Fetch"])
def test_errors_that_only_wrap_say_what_they_wrap(cause, action, api):
    """The cause of a (de)serialiser's error decides; nothing was sent."""
    verdict = classify(wrapped(cause()), api=api)
    assert (action, "no") == (verdict.action, verdict.written)
    for reading in (KeyDeserializationError, ValueDeserializationError):
        told = reading(exception=cause(), kafka_message=None)
        assert action == classify(told, api=api).action
    assert action == classify(KeySerializationError(cause()), api=api).action
    ours = e.SerializationFailedError("the value cannot be deserialized")
    ours.__cause__ = cause()
    assert action == classify(ours, api=api).action


NOT_OWNED = "Partition TopicPartition(topic='t', partition=40) is not assigned"


@pytest.mark.parametrize(
    "error",
    [
        kafka_errors.IllegalStateError(NOT_OWNED),
        aiokafka_errors.IllegalStateError(NOT_OWNED),
        kafka_errors.CommitFailedError("x"),
        aiokafka_errors.CommitFailedError("x"),
        kafka_errors.UnknownMemberIdError(),
        KafkaException(KafkaError(-142)),
    ],
)
def test_commit_for_partitions_that_are_not_owned_is_rejoin_in_each_client(error):
    """Each client's error for a partition that is not owned is REJOIN."""
    for api in ("OffsetCommit", None):
        assert classify(error, api=api).action == "REJOIN"


@pytest.mark.parametrize(
    "error",
    [kafka_errors.IllegalStateError("x"), KafkaException(KafkaError(-172))],
)
def test_state_that_a_commit_meets_is_rejoin(error):
    """A client's state error is REJOIN if the request is a commit."""
    assert classify(error, api="OffsetCommit").action == "REJOIN"


@pytest.mark.parametrize(
    "error",
    [
        KafkaException(KafkaError(-190)),
        ValueError("Unrecognized partition 2 for topic t"),
        AssertionError("Unrecognized partition"),
    ],
)
def test_partition_that_the_client_does_not_know_is_refresh_in_each_client(error):
    """It may have come a moment ago."""
    assert classify(error, api="Produce").action == "REFRESH"


def test_administrator_is_no_member():
    """Resetting and deleting the offsets of a group in use: stop its members first."""
    for code, context in (
        (25, {"phase": "admin"}),
        (25, {"api": "OffsetCommit", "phase": "admin"}),
        (25, {"api": "OffsetDelete"}),
        (68, {"api": "DeleteGroups"}),
        (86, {"api": "OffsetDelete"}),
        (68, {}),
        (86, {}),
    ):
        verdict = classify(code, **context)
        assert verdict.action == "CONFIGURE"
        assert "stop its members first" in verdict.rule.sentence
    assert classify(25, api="OffsetCommit").action == "REJOIN"


@pytest.mark.parametrize("context", [{}, {"api": "EndTxn"}, {"transactional": True}])
def test_abort_that_is_answered_with_abort_needs_a_new_producer(context):
    """To abort once more would go on for ever."""
    assert classify(120, phase="abort", **context).action == "RECREATE"
    assert classify(120, **context).action == "ABORT"


KEYLESS = {"api": "Produce", "null_key": True, "facts": COMPACTED}


@pytest.mark.parametrize(
    "error",
    [
        e.UnknownServerError("x", client="aiokafka"),
        aiokafka_errors.UnknownError("x"),
    ],
    ids=["of kafkaguard", "of the client"],
)
def test_facts_that_are_given_beside_an_exception_decide(error):
    """A compacted topic explains a code that the client has lost; another does not."""
    assert classify(error, **KEYLESS).rule.id == "null-key-behind-a-lost-code"
    for facts in (None, TIERED):
        other = classify(error, **{**KEYLESS, "facts": facts})
        assert other.rule.id == "code-not-kept"


@pytest.mark.parametrize(
    ("error", "client", "is_lost"),
    [
        (e.UnknownServerError("x", client="aiokafka"), "kafka-python", False),
        (e.UnknownServerError("x", client="kafka-python"), "aiokafka", True),
        (aiokafka_errors.UnknownError("x"), "kafka-python", False),
        (kafka_errors.UnknownError("x"), "aiokafka", True),
        (type("Own", (aiokafka_errors.UnknownError,), {})("x"), "kafka-python", False),
        (type("Own", (kafka_errors.UnknownError,), {})("x"), "aiokafka", True),
        (KafkaError(-1), "aiokafka", True),
        (-1, "aiokafka", True),
    ],
    ids=repr,
)
def test_the_client_that_is_named_counts_before_that_of_the_exception(
    error, client, is_lost
):
    """A wrapper knows better than the exception's class who has reported it."""
    rule = classify(error, client=client, **KEYLESS).rule
    assert (rule.id == "null-key-behind-a-lost-code") is is_lost
