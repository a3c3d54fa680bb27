"""Public reports that policies and the engine mend, each named after its number.

The clients' own exceptions are raised; requests are counted.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import time

import aiokafka.errors
import kafka.errors
import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka import KafkaProducer

from kafkaguard import Action, RetryPolicy, classify, errors, guard, load_policy
from kafkaguard._errors.generated import BY_CODE, RETRIABLE_CODES
from kafkaguard._retries.machine import Machine
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard.policies import CallContext, StopReason, outcome_of
from kafkaguard_policies.reading.sources import presets
from kafkaguard_policies.running.retrier import Retrier
from tests.policies.helpers import FakeTime, Script, retrier

FIXED = {"kind": "fixed", "base": 1, "jitter": "none"}


def ended(one, fn, **more):
    """Let a call fail for good and return how it ended."""
    with pytest.raises(Exception) as caught:
        one.run(fn, **more)
    return outcome_of(caught.value)


@pytest.mark.parametrize(
    "refusal",
    [kafka.errors.InvalidRecordError(), KafkaException(KafkaError(87))],
)
def test_a_refused_record_is_not_sent_again(refusal):
    """smallrye-reactive-messaging #2270: one request, one exception, no wait."""
    time, send = FakeTime(), Script(refusal)
    context = CallContext(api="Produce", null_key=True)
    outcome = ended(retrier(RetryPolicy(max_attempts=10), time, context=context), send)
    assert (outcome.reason, send.calls, time.waits) == (StopReason.REJECTED, 1, [])


def test_denials_can_be_ridden_out_by_an_override():
    """See librdkafka #2544: code 29 ends a call; an override retries it, bounded."""
    denied = kafka.errors.TopicAuthorizationFailedError
    send = Script(denied(), denied(), denied(), "written")
    assert (
        StopReason.CONFIGURE
        is ended(retrier(RetryPolicy(), api="Produce"), send).reason
    )
    assert send.calls == 1
    patient = RetryPolicy(
        backoff=FIXED,
        overrides=[{"when": {"code": 29}, "action": "RETRY", "deadline": 10}],
    )
    send = Script(denied(), denied(), denied(), "written")
    assert retrier(patient, api="Produce").run(send) == "written"
    assert send.calls == 4
    for_ever = Script(denied())
    longer = patient.replace(max_attempts="unbounded")
    outcome = ended(retrier(longer, api="Produce"), for_ever)
    assert StopReason.DEADLINE is outcome.reason
    assert sum(attempt.wait for attempt in outcome.attempts) == 9
    assert len(outcome.attempts) == for_ever.calls == 10


#: Where a guard does not follow Kafka's table, by rule.
FATAL_BUT_REPEATED = {
    "join-with-given-id",  # 79 is the first step of joining
    "not-attempted",  # 55: it was a neighbour's fault
    "server-error-on-read",  # -1 of a read: once more does no harm
    "start-from-bootstrap",  # 129: the client has to begin anew
}
RETRIABLE_BUT_NOT_REPEATED = {
    "answer-lost",  # 7 and 13 of a write
    "disk-has-failed",  # 56 of DescribeLogDirs: the disk does not come back
    "election-not-needed",  # 84 in ElectLeaders is not a failure
    "leader-lost-after-append",  # 6 of a write
    "not-waited-for-replicas",  # 20 of a write
    "nothing-to-delete",  # 3 and 100 of DeleteTopics: the controller knows all topics
    "replica-down-in-metadata",  # 9 in Metadata is not a failure
}


def test_what_is_repeated_is_what_kafkas_table_says():
    """franz-go 65ca0bd: each code and request; deviations are few and have reasons."""
    against = {True: set(), False: set()}
    policy = load_policy("default")
    for code, api in itertools.product([*BY_CODE, 999], [*API_KEYS, None]):
        verdict = classify(code, api=api)
        ruling = policy.ruling(verdict, CallContext(api=api), code)
        step = Machine(0, lambda: 0.0).failed(verdict, ruling, 0)
        if (step.kind == "again") != (code in RETRIABLE_CODES):
            against[code in RETRIABLE_CODES].add(verdict.rule.id)
    assert against == {True: RETRIABLE_BUT_NOT_REPEATED, False: FATAL_BUT_REPEATED}


def test_fenced_is_fenced_under_every_preset():
    """The very code of the report, 90: no request, no preset repeats it."""
    for name in presets():
        script = Script(errors.ProducerFencedError())
        repairs = dict.fromkeys(Action, lambda: None)
        one = retrier(load_policy(name), api="Produce", repairs=repairs)
        assert StopReason.FENCED is ended(one, script).reason
        assert script.calls == 1


def test_a_topic_that_is_not_there_takes_the_deadline_once(kafka_cluster):
    """kafka-python #607, #2240: five attempts of a second each, but 3 s in all."""
    producer = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, max_block_ms=1_000
    )
    one = Retrier(
        RetryPolicy(max_attempts=5, backoff={"base": 0.01}),
        CallContext(api="Produce", phase="enqueue"),
    )
    start = time.monotonic()
    try:
        outcome = ended(
            one, producer.send, args=("topic-not-there", b"v"), deadline=2.5
        )
    finally:
        producer.close(timeout=5)
    assert StopReason.DEADLINE is outcome.reason
    assert len(outcome.attempts) == 3  # of five
    assert time.monotonic() - start < 60


def test_the_guarded_producer_says_that_the_topic_is_unknown(kafka_cluster):
    """At the first attempt: it is to be created, which no repetition does."""
    topic = "topic-nowhere"
    policy = RetryPolicy(max_attempts=5, backoff={"base": 0.01})
    client = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, max_block_ms=1_000
    )
    start = time.monotonic()
    with (
        guard(client) as producer,
        pytest.raises(
            kafka.errors.KafkaTimeoutError, match=f"do not know topic {topic}"
        ) as caught,
    ):
        policy.call(producer.send, topic, b"v", deadline=3.5)
    assert time.monotonic() - start < 60
    assert caught.value.verdict.action is Action.CONFIGURE
    assert len(outcome_of(caught.value).attempts) == 1
    assert topic == caught.value.topic


@pytest.mark.parametrize(
    "lost",
    [
        kafka.errors.RequestTimedOutError,
        kafka.errors.KafkaTimeoutError,
        aiokafka.errors.KafkaTimeoutError,
        lambda: KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT)),
        lambda: KafkaException(KafkaError(7)),
    ],
)
@pytest.mark.parametrize("idempotent", [True, False, None])
def test_a_write_that_timed_out_is_not_sent_again(lost, idempotent):
    """Aiokafka #197, kafka-python #2092, faststream #423: one request, in doubt."""
    context = CallContext(api="Produce", idempotent=idempotent)
    send = Script(lost(), "written")
    outcome = ended(retrier(RetryPolicy(max_attempts=3), context=context), send)
    assert (outcome.reason, send.calls) == (StopReason.IN_DOUBT, 1)


def test_sending_it_again_is_opted_in_to_and_marked():
    """With in_doubt there is a second request, and the result says so."""
    policy = RetryPolicy(in_doubt="resend", backoff=FIXED)
    events = []
    one = retrier(policy, api="Produce", hooks=[events.append])
    assert one.run(Script(kafka.errors.KafkaTimeoutError(), "written")) == "written"
    assert events[-1].possible_duplicate
    outcome = ended(one, Script(kafka.errors.KafkaTimeoutError()))
    assert outcome.possible_duplicate
    assert "may have been written twice" in str(outcome)


@pytest.mark.parametrize(
    "away",
    [
        kafka.errors.NodeNotReadyError(),
        kafka.errors.UnrecognizedBrokerVersion(),
        aiokafka.errors.NodeNotReadyError(),
        aiokafka.errors.NoBrokersAvailable(),
        KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN)),
    ],
)
def test_one_readiness_race_is_one_family(away):
    """kafka-python #1627, #2135: whatever class it has, it is tried again."""
    send = Script(away, "written")
    assert retrier(RetryPolicy(backoff=FIXED), api="Produce").run(send) == "written"
    assert send.calls == 2


@pytest.mark.parametrize(
    "refused",
    [
        kafka.errors.UnsupportedVersionError(),
        kafka.errors.IncompatibleBrokerVersion(),
        aiokafka.errors.IncompatibleBrokerVersion(),
    ],
)
def test_a_version_that_does_not_fit_is_not_tried_again(refused):
    """Made by the client or said by the broker: configuration."""
    call = Script(refused)
    outcome = ended(retrier(RetryPolicy(), api="Fetch"), call)
    assert (outcome.reason, call.calls) == (StopReason.CONFIGURE, 1)


@pytest.fixture
def closing_server():
    """A server that reads a request, counts it and hangs up."""
    server = socket.create_server(("127.0.0.1", 0))
    requests = []

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                requests.append(connection.recv(1_000))

    thread = threading.Thread(target=serve)
    thread.start()
    yield server.getsockname(), requests
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join(5)


def test_a_removed_version_is_tried_twice_at_most(closing_server):
    """kafka-python #2679, KIP-896: a broker that hangs up on DescribeLogDirs v0."""
    address, requests = closing_server

    def describe_log_dirs_v0():
        frame = struct.pack(">hhihi", 35, 0, 1, -1, -1)
        with socket.create_connection(address, timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            if not connection.recv(4):
                raise kafka.errors.KafkaConnectionError("closed")

    policy = load_policy("admin")
    outcome = ended(retrier(policy, api="DescribeLogDirs"), describe_log_dirs_v0)
    assert (outcome.reason, len(requests)) == (StopReason.ATTEMPTS, 2)


def test_a_broker_that_says_so_is_asked_once():
    """Code 35 is configuration, under every preset."""
    for name in presets():
        call = Script(kafka.errors.UnsupportedVersionError())
        outcome = ended(retrier(load_policy(name), api="DescribeLogDirs"), call)
        assert (outcome.reason, call.calls) == (StopReason.CONFIGURE, 1)
