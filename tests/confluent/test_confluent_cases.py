"""Public reports of what goes wrong with confluent-kafka's producers, each mended."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, SerializingProducer
from confluent_kafka.aio import AIOProducer
from confluent_kafka.serialization import StringSerializer

from kafkaguard import Action, TopicFacts, errors, guard
from kafkaguard._retries.events import RetryEvent
from kafkaguard.errors import DeliveryFailed
from tests.contracts.attempts import PATIENT
from tests.contracts.producer import COMPACTED, SMALL, TOO_LARGE, read, until

OPEN = TopicFacts(compacted=False)


def build(cluster, topic, *, factory=Producer, **settings):
    """Guard a producer that the guard builds."""
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": 10,
        **settings,
    }
    return guard(factory=factory, config=config, topics={topic: OPEN})


def test_a_failure_without_a_callback_is_raised_and_a_callback_looks_at_it(
    kafka_cluster,
):
    """The user's own is called once, and then nothing is raised."""
    # Of one topic, the second one would be refused by produce().
    topic, other = (kafka_cluster.create_topic(config=SMALL) for _ in range(2))
    told = []
    with build(kafka_cluster, topic) as producer:
        producer.produce(
            topic, TOO_LARGE, b"k", on_delivery=lambda e, _: told.append(e)
        )
        assert producer.flush(30) == 0
        producer.produce(other, TOO_LARGE, b"k")
        with pytest.raises(DeliveryFailed, match=r"\(10\)") as caught:
            producer.flush(30)
    (error,) = told
    assert isinstance(error, KafkaError)
    assert (error.code(), error.verdict.action) == (10, Action.REJECT)
    assert isinstance(error.error, KafkaException)
    assert isinstance(caught.value, KafkaException)


def test_a_partition_that_is_not_there_keeps_the_clients_code(
    kafka_cluster, kafka_topic
):
    """In the outcome of a record, or raised once the client knows the topic."""
    told = []
    with build(kafka_cluster, kafka_topic) as producer:
        for _ in range(2):
            try:
                producer.produce(
                    kafka_topic, b"v", b"k", 99, on_delivery=lambda e, _: told.append(e)
                )
            except KafkaException as error:
                told.append(error.args[0])
            producer.flush(30)
    assert [each.code() for each in told] == [KafkaError._UNKNOWN_PARTITION] * 2


def test_a_full_queue_is_waited_for(kafka_cluster, kafka_topic):
    """A thousand records through a queue of ten: all once, in their order."""
    told = []
    settings = {"queue.buffering.max.messages": 10}
    with build(kafka_cluster, kafka_topic, **settings) as producer:
        for n in range(1000):
            producer.produce(
                kafka_topic,
                b"%d" % n,
                b"k",
                on_delivery=lambda error, message: told.append(error),
            )
        assert told == []  # they are called in the application's own poll and flush
        assert producer.flush(60) == 0
    assert told == [None] * 1000
    there = [int(value) for _, value in read(kafka_cluster, kafka_topic)]
    assert list(range(1000)) == there


def test_a_queue_that_stays_full_is_told_in_time(kafka_topic, kafka_faults):
    """Not accepted, so it may be sent later; also a BufferError."""
    kafka_faults.on("Produce").drop()
    config = {
        "bootstrap.servers": kafka_faults.bootstrap_servers,
        "enable.idempotence": True,
        "queue.buffering.max.messages": 1,
    }
    producer = guard(
        factory=Producer,
        # The record that fills the queue has more time than a call may wait.
        config={**config, "delivery.timeout.ms": 300_000},
        topics={kafka_topic: OPEN},
        policy={"deadline": 1.0},
    )
    producer.produce(kafka_topic, b"v", b"k", on_delivery=lambda *_: None)
    with pytest.raises(BufferError) as caught:
        producer.produce(kafka_topic, b"w", b"k")
    assert isinstance(caught.value, errors.ClientQueueFullError)
    assert isinstance(caught.value, KafkaException)
    assert caught.value.verdict.written == "no"
    producer.close(1)


def test_a_record_without_metadata_is_sent_again_as_the_policy_says(
    kafka_cluster, kafka_faults
):
    """It was in no partition's queue, so it was certainly not sent."""
    events = []
    config = {
        "bootstrap.servers": kafka_faults.bootstrap_servers,
        "enable.idempotence": True,
        "delivery.timeout.ms": 6000,  # enough for a busy machine to connect
        "request.timeout.ms": 3000,
        "reconnect.backoff.max.ms": 200,
    }
    options = {"policy": PATIENT, "on_event": events.append}
    with guard(factory=Producer, config=config, **options) as producer:
        producer.list_topics(timeout=30)
        kafka_topic = kafka_cluster.create_topic()  # so the client knows nothing of it
        with kafka_faults.without(0):
            for value in (b"0", b"1"):
                producer.produce(kafka_topic, value, b"k")
            until(lambda: producer.poll(0.1) or has_kind(events, RetryEvent), 60)
        assert producer.flush(60) == 0
        assert producer.report().delivered == 2
    assert read(kafka_cluster, kafka_topic) == [(b"k", b"0"), (b"k", b"1")]


def has_kind(events, kind):
    """Return whether there is an event of a kind."""
    return any(isinstance(event, kind) for event in events)


def test_a_callback_may_produce_and_poll(kafka_cluster, kafka_topic):
    """A chain of five, one from the callback of the other."""
    told = []

    def tell(error, message):
        told.append(error)
        if len(told) < 5:
            producer.produce(kafka_topic, b"%d" % len(told), b"k", on_delivery=tell)
            producer.poll(0)

    with build(kafka_cluster, kafka_topic) as producer:
        producer.produce(kafka_topic, b"0", b"k", on_delivery=tell)
        while len(told) < 5:
            assert producer.flush(10) == 0
    assert told == [None] * 5


def test_each_class_has_its_own_order_of_arguments(kafka_cluster):
    """A SerializingProducer takes the key first; its null key is refused."""
    topic = kafka_cluster.create_topic(config=COMPACTED)
    text = {
        "key.serializer": StringSerializer(),
        "value.serializer": StringSerializer(),
    }
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers, **text}
    config |= {"enable.idempotence": True}
    with guard(factory=SerializingProducer, config=config) as producer:
        with pytest.raises(errors.InvalidRecordKeyError):
            producer.produce(topic, None, "v")
        producer.produce(topic, "k", "v")
        producer.produce(topic, "k", None)
        assert producer.flush(30) == 0
    assert read(kafka_cluster, topic) == [(b"k", b"v"), (b"k", None)]


def test_a_code_from_the_future_keeps_its_number(kafka_topic, kafka_faults):
    """No name, no retry, and no crash."""
    kafka_faults.on("Produce").fail(999, times=1)
    told = []
    with build(kafka_faults, kafka_topic) as producer:
        producer.produce(
            kafka_topic, b"v", b"k", on_delivery=lambda e, _: told.append(e)
        )
        producer.flush(30)
    assert [(error.code(), error.error.code) for error in told] == [(999, 999)]


def test_an_aio_producer_settles_its_future_and_says_what_it_ignores(
    kafka_cluster, kafka_topic
):
    """A null key is refused before it is buffered; what fails has a verdict."""
    compacted = kafka_cluster.create_topic(config=COMPACTED)
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    config |= {"enable.idempotence": True}

    async def run():
        async with guard(factory=AIOProducer, config=config) as producer:
            future = await producer.produce(kafka_topic, b"v", b"k")
            message = await asyncio.wait_for(future, 30)
            with pytest.raises(TypeError, match="await the future"):
                await producer.produce(kafka_topic, b"v", on_delivery=print)
            with pytest.raises(NotImplementedError):
                await producer.produce(kafka_topic, b"v", headers={"h": b"1"})
            with pytest.raises(errors.InvalidRecordKeyError):
                await producer.produce(compacted, b"v")
            return message.offset()

    assert asyncio.run(run()) == 0


def test_an_aio_producer_takes_no_policy_that_would_lose_records(kafka_cluster):
    """Nobody follows the outcome, so no refused record is set aside."""
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    config |= {"enable.idempotence": True}

    async def run():
        client = AIOProducer(config)
        for lost in ("drop", "dead_letter"):
            with pytest.raises(
                errors.ClientConfigurationError, match="on_reject: raise"
            ):
                guard(client, config=config, policy={"on_reject": lost})
        await client.close()

    asyncio.run(run())


def test_settings_with_which_something_would_be_lost_are_refused(kafka_cluster):
    """Only errors reported, or a callback that the guard cannot know of."""
    servers = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    servers |= {"enable.idempotence": True}
    only_errors = {**servers, "delivery.report.only.error": True}
    with pytest.raises(errors.ClientConfigurationError, match="factory="):
        guard(Producer(only_errors), config=only_errors)
    with pytest.raises(errors.ClientConfigurationError, match="config="):
        guard(Producer({**servers, "on_delivery": lambda error, message: None}))


def test_callbacks_for_errors_only_are_called_for_errors_only(kafka_cluster):
    """The guard hears of each record; the application does not."""
    topic = kafka_cluster.create_topic(config=SMALL)
    told = []
    settings = {
        "delivery.report.only.error": True,
        "on_delivery": lambda error, message: told.append(message.value()),
    }
    with build(kafka_cluster, topic, **settings) as producer:
        producer.produce(topic, b"v", b"k")
        producer.produce(topic, TOO_LARGE, b"big")
        assert producer.flush(30) == 0
        report = producer.report()
    assert (report.delivered, report.failed) == (1, 1)
    assert told == [TOO_LARGE]


def test_close_in_a_callback_is_refused_at_once(kafka_cluster, kafka_topic):
    """It would wait for the poll that runs the callback."""
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    config |= {"enable.idempotence": True}
    with guard(factory=Producer, config=config) as producer:
        raised = []

        def close(error, message):
            with pytest.raises(
                errors.ClientStateError, match="in a callback"
            ) as caught:
                producer.close()
            raised.append(caught.value)

        producer.produce(kafka_topic, b"v", on_delivery=close)
        assert producer.flush(60) == 0
        assert len(raised) == 1
        producer.produce(kafka_topic, b"w")
        assert producer.flush(60) == 0


async def test_a_closed_aio_producer_refuses_records(kafka_cluster, kafka_topic):
    """The client alone returns a future that never ends."""
    config = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    config |= {"enable.idempotence": True}
    producer = guard(AIOProducer(config), config=config)
    await (await producer.produce(kafka_topic, value=b"v", key=b"k"))
    await producer.close()
    await producer.close()
    with pytest.raises(errors.ClientClosedError, match="nothing was sent"):
        await producer.produce(kafka_topic, value=b"v", key=b"k")
