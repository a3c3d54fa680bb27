"""What people who met the guarded producer for the first time ran into."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError, for_code

from kafkaguard import Action, errors, guard
from kafkaguard._delivery.counters import Counters
from kafkaguard._delivery.facts import Place, Refusal, Traits
from kafkaguard._delivery.judging import NOT_SENT, Judge, RefusalFacts
from kafkaguard._delivery.records import RecordOutcome
from kafkaguard._delivery.report import MAX_ERRORS
from kafkaguard.errors import (
    CallbackError,
    ClientConfigurationError,
    DeliveryFailed,
    StackingWarning,
)
from kafkaguard_adapters.kafka_python.errors import errors as client_errors


def producer_of(cluster, **settings):
    """A guarded producer with settings of one's own."""
    return guard(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **settings))


def test_flush_in_several_threads_waits_for_what_was_sent_before(
    kafka_cluster, kafka_topic
):
    """Records that other threads send meanwhile are not pending records of this flush."""
    with producer_of(kafka_cluster) as producer:

        def work(_):
            for _ in range(15):
                sent = [producer.send(kafka_topic, b"x" * 50) for _ in range(30)]
                producer.flush()
                assert all(future.is_done for future in sent)
            return True

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(work, range(4)))


def test_pending_records_are_in_doubt(kafka_faults, kafka_topic):
    """They may be written yet: whoever sends them again may write them twice."""
    kafka_faults.on("Produce", topic=kafka_topic).delay(3.0, before=False)
    with producer_of(kafka_faults) as producer:
        producer.send(kafka_topic, b"late")
        with pytest.raises(DeliveryFailed) as caught:
            producer.flush(0.3)
        assert caught.value.report.pending == 1
        assert caught.value.verdict.action is Action.IN_DOUBT
        assert caught.value.verdict.written == "maybe"


def test_a_callback_that_raises_says_nothing_against_the_record(
    kafka_cluster, kafka_topic
):
    """The record was written; sending it again would write it twice."""
    producer = producer_of(kafka_cluster, linger_ms=60_000)
    producer.send(kafka_topic, b"1").add_callback(lambda _: 1 / 0)
    with pytest.raises(CallbackError) as caught:
        producer.flush()
    assert caught.value.verdict.written == "yes"
    producer.close()


def test_a_callback_that_raises_says_nothing_in_favour_of_the_record(kafka_cluster):
    """The record was refused: no word of delivery, and the counts are there."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})
    with producer_of(kafka_cluster) as producer:
        producer.send(topic, b"x" * 5000).add_errback(lambda _: 1 / 0)
        with pytest.raises(CallbackError, match="delivered 0, failed 1") as caught:
            producer.flush(10)
    assert caught.value.report.failed == 1
    assert caught.value.verdict.action is Action.CONFIGURE
    assert caught.value.verdict.written == "maybe"


@pytest.mark.parametrize("method", ["flush", "close"])
def test_waiting_in_a_callback_is_refused(kafka_cluster, kafka_topic, method):
    """It would wait for the thread that it runs on; the record is delivered."""
    raised = []

    def wait(_):
        with pytest.raises(errors.ClientStateError, match=f"{method}.. in a callback"):
            getattr(producer, method)(5)
        raised.append(method)

    # Nothing leaves before the flush, so the callback runs on the client's thread.
    with producer_of(kafka_cluster, linger_ms=60_000) as producer:
        producer.send(kafka_topic, b"v").add_callback(wait)
        assert producer.flush(10).delivered == 1
    assert raised == [method]


def test_without_rescue_what_was_not_sent_may_be_sent_again(kafka_cluster):
    """The guard builds the producer again, so nobody is told to do that."""
    topic = kafka_cluster.create_topic(config={"max.message.bytes": 20_000})
    client = KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=50
    )
    with guard(client, policy={"extends": "default", "rescue": "never"}) as producer:
        big = producer.send(topic, b"x" * 30_000, key=b"big")
        others = [producer.send(topic, b"%d" % n, key=b"k") for n in range(100)]
        for future in (big, *others):
            with suppress(KafkaError):
                future.get(20)
        assert isinstance(big.exception, errors.MessageTooLargeError)
        verdicts = {f.exception.verdict.action for f in others if f.failed()}
        assert verdicts <= {Action.RETRY, Action.IN_DOUBT}
        assert producer.send(topic, b"next", key=b"k").get(20).offset >= 0


def test_more_failures_than_are_kept_are_told_as_such():
    """1,000 errors are kept; the text says that there were more, and what each asks."""
    counters = Counters()
    for _ in range(MAX_ERRORS + 5):
        error = errors.ClientTimeoutError(topic="t", verdict=NOT_SENT)
        counters.count_outcome(RecordOutcome("failed", error), "t")
    text = DeliveryFailed.describe(counters.report(0))
    assert "1000 x CLIENT_TIMEOUT on topic t: RETRY" in text
    assert "of the first 1000 that were not checked" in text
    assert "failed 1005" in text


def test_settings_of_a_policy_that_mean_nothing_here_are_named(kafka_cluster, caplog):
    """Actions of overrides are not obeyed: nobody shall believe they are."""
    own = {"overrides": [{"when": {"code": 29}, "action": "RETRY"}], "rescue": "never"}
    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with caplog.at_level("WARNING", "kafkaguard.guard"), guard(client, policy=own):
        pass
    (said,) = [r.getMessage() for r in caplog.records if r.name == "kafkaguard.guard"]
    assert "sets overrides.action, which a guarded KafkaProducer does not use" in said


def test_overrides_that_only_say_on_reject_are_obeyed(kafka_cluster, caplog):
    """So they are no cause for a warning; nor is a dead-letter topic."""
    own = {
        "dead_letter": {"topic": "refused"},
        "overrides": [{"when": {"code": 10}, "on_reject": "dead_letter"}],
    }
    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with caplog.at_level("WARNING", "kafkaguard.guard"), guard(client, policy=own):
        pass
    assert [r for r in caplog.records if r.name == "kafkaguard.guard"] == []


@pytest.mark.parametrize("preset", ["default", "idempotent-producer", "low-latency"])
def test_presets_are_no_cause_for_that_warning(kafka_cluster, caplog, preset):
    """No warning is logged for settings of a preset, which is written for all uses."""
    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StackingWarning)
        guarded = guard(client, policy=preset)
    guarded.close()
    said = [r.getMessage() for r in caplog.records if r.name == "kafkaguard.guard"]
    assert not any("does not use" in text for text in said)


def test_acks_0_is_warned_of_and_strict_refuses_it(kafka_cluster):
    """What the broker refuses would count as delivered."""
    settings = {"acks": 0, "enable_idempotence": False, "retries": 0}
    with pytest.warns(StackingWarning, match="acks=0"):
        producer_of(kafka_cluster, **settings).close()
    with (
        KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, **settings
        ) as client,
        pytest.raises(ClientConfigurationError, match="acks=0"),
    ):
        guard(client, strict=True)


def test_declared_facts_of_a_wrong_type_are_refused(kafka_cluster):
    """`topics={"t": True}` raises TypeError: a value is a TopicFacts."""
    with (
        KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as client,
        pytest.raises(TypeError, match="takes TopicFacts"),
    ):
        guard(client, topics={"t": True})


def test_one_client_has_one_guard(kafka_cluster):
    """Two would both count, and send again, the records of a batch that they share."""
    client = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)
    with guard(client), pytest.raises(TypeError, match="guarded already"):
        guard(client)


def test_a_producer_that_nobody_uses_any_more_is_closed(kafka_cluster, kafka_topic):
    """As the bare client is, by the garbage collector."""
    before = set(threading.enumerate())
    producer = producer_of(kafka_cluster)
    producer.send(kafka_topic, b"v", b"k").get(10)
    mine = set(threading.enumerate()) - before
    del producer
    gc.collect()
    for thread in mine:
        thread.join(10)
    assert not any(thread.is_alive() for thread in mine)


def test_a_time_that_cannot_be_encoded_is_refused_by_send(kafka_cluster, kafka_topic):
    """The client would find it when it sends the batch, and never end it."""
    with producer_of(kafka_cluster) as producer:
        for wrong in (1 << 63, 1 << 70, -(1 << 63) - 1):
            with pytest.raises(ValueError, match="in 64 bits"):
                producer.send(kafka_topic, b"v", b"k", timestamp_ms=wrong)
        assert producer.send(kafka_topic, b"v", b"k").get(10).offset == 0


def test_a_batch_that_cannot_be_encoded_ends_in_time(kafka_cluster, kafka_topic):
    """So does everything that waits for it; the next records are delivered."""
    with producer_of(
        kafka_cluster, delivery_timeout_ms=1_500, request_timeout_ms=1_000
    ) as producer:
        client = producer.client
        client.send(kafka_topic, b"v", b"k", timestamp_ms=1 << 63)
        with pytest.raises(DeliveryFailed) as caught:
            producer.flush(30)
        assert (caught.value.report.failed, caught.value.report.pending) == (1, 0)
        assert producer.send(kafka_topic, b"v", b"k").get(30).offset == 0


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_future_cannot_be_copied(kafka_cluster, kafka_topic, take):
    """Copying or pickling a guarded future raises an error with the reason."""
    with producer_of(kafka_cluster) as producer:
        future = producer.send(kafka_topic, b"v", b"k")
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            take(future)


@pytest.mark.parametrize("code", [10, 18])
@pytest.mark.parametrize("count", [1, 45])
def test_a_batch_that_was_too_large_says_nothing_about_its_records(code, count):
    """The client does not split it when its time is over; none of them is to blame."""
    refusal = Refusal(
        token=None, index=0, cause=for_code(code)(), blame="batch", sent="answered"
    )
    for transactional in (False, True):
        traits = Traits("kafka-python", 1.0, "t", transactional=transactional)
        known = RefusalFacts(Place("t", 0), count)
        error = Judge(traits, client_errors).judge(refusal, known).error
        assert error.verdict.written == "no"
        assert (error.verdict.action == "REJECT") == (count == 1 and not transactional)
