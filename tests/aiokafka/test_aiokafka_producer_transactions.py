"""aiokafka's transactions: committed, aborted, or told truthfully what is left."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from kafka import KafkaConsumer, TopicPartition

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as Place
from kafkaguard import Action, TopicFacts, errors, guard
from kafkaguard_adapters.aiokafka._private.producing import transactions as inside
from tests.contracts.producer import COMPACTED

#: Seconds that nothing here may take, on the busiest machine.
LIMIT_S = 60.0


def settings(where, **others):
    """Return settings of a transactional producer that gives up soon."""
    return {
        "bootstrap_servers": where.bootstrap_servers,
        "transactional_id": f"t-{secrets.token_hex(4)}",
        "request_timeout_ms": 8_000,
        **others,
    }


def guarded(where, *, topics=None, policy="default", **others):
    """Build a client and guard it; it must be stopped."""
    producer = AIOKafkaProducer(**settings(where, **others))
    return guard(producer, topics=topics, policy=policy)


def committed(where, topic):
    """Read the values that a reader of committed records sees now."""
    place = TopicPartition(topic, 0)
    with KafkaConsumer(
        bootstrap_servers=where.bootstrap_servers,
        isolation_level="read_committed",
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        found = []
        while consumer.position(place) < end:
            for batch in consumer.poll(timeout_ms=500).values():
                found += [record.value for record in batch]
        return found


async def send(producer, topic, *values):
    """Send records with a key; return their futures."""
    return [await producer.send(topic, value, b"k") for value in values]


async def begin_and_write(producer, topic):
    """Begin a transaction, and write a record of it."""
    await producer.begin_transaction()
    await send(producer, topic, b"v")
    await producer.flush()


class TestBlock:
    """`async with producer.transaction():`."""

    async def test_it_commits(self, kafka_cluster, kafka_topic):
        """The block commits each time, and its body gets the producer."""
        async with guarded(kafka_cluster) as producer:
            for n in range(2):
                async with producer.transaction() as inner:
                    assert inner is producer
                    await send(inner, kafka_topic, b"%d" % n)
            report = await producer.flush()
        assert report.delivered == 2
        assert committed(kafka_cluster, kafka_topic) == [b"0", b"1"]

    async def test_an_exception_of_the_body_aborts(self, kafka_cluster, kafka_topic):
        """It is raised as it is; the next transaction works."""

        async def fail():
            async with producer.transaction():
                await send(producer, kafka_topic, b"bad")
                raise ZeroDivisionError

        async with guarded(kafka_cluster) as producer:
            with pytest.raises(ZeroDivisionError):
                await fail()
            async with producer.transaction():
                await send(producer, kafka_topic, b"good")
        assert committed(kafka_cluster, kafka_topic) == [b"good"]

    async def test_a_refused_record_aborts_all(self, kafka_cluster, kafka_topic):
        """The bare client commits the others without a word."""
        topic = kafka_cluster.create_topic(config={"max.message.bytes": 1000})

        async def fail():
            async with producer.transaction():
                await send(producer, kafka_topic, b"bad")
                await producer.send(topic, b"x" * 5000, b"k")

        async with guarded(kafka_cluster) as producer:
            with pytest.raises(errors.KafkaGuardError) as caught:
                await fail()
            assert caught.value.verdict.action == Action.ABORT
            assert caught.value.__cause__.code == 10
            bare = producer.client
            async with producer.transaction():
                await send(producer, kafka_topic, b"good")
                await send(producer, topic, b"good")
            assert bare is producer.client
            producer.report()
        assert committed(kafka_cluster, kafka_topic) == [b"good"]
        assert committed(kafka_cluster, topic) == [b"good"]

    async def test_a_null_key_refused_by_the_call_spoils_it(self, kafka_cluster):
        """Even where the application goes on as if nothing had happened."""
        topic = kafka_cluster.create_topic(config=COMPACTED)
        facts = {topic: TopicFacts(compacted=True)}

        async def go_on():
            async with producer.transaction():
                await send(producer, topic, b"v")
                with pytest.raises(errors.InvalidRecordKeyError):
                    await producer.send(topic, b"v")

        async with guarded(kafka_cluster, topics=facts) as producer:
            with pytest.raises(errors.KafkaGuardError) as caught:
                await go_on()
            assert caught.value.verdict.action == Action.ABORT
        assert committed(kafka_cluster, topic) == []

    async def test_b22_a_commit_whose_answer_is_lost_is_asked_again(
        self, kafka_topic, kafka_faults
    ):
        """Carried out once."""
        async with guarded(kafka_faults) as producer:
            kafka_faults.on("EndTxn").close(times=1, written=True)
            async with producer.transaction():
                await send(producer, kafka_topic, b"v")
            async with producer.transaction():
                await send(producer, kafka_topic, b"w")
        assert committed(kafka_faults, kafka_topic) == [b"v", b"w"]

    async def test_concurrent_transactions_are_waited_out(
        self, kafka_topic, kafka_faults
    ):
        """Code 51 costs time only."""
        async with guarded(kafka_faults) as producer:
            kafka_faults.on("EndTxn").fail("CONCURRENT_TRANSACTIONS", times=2)
            async with producer.transaction():
                await send(producer, kafka_topic, b"v")
        assert committed(kafka_faults, kafka_topic) == [b"v"]

    async def test_a_commit_answered_120_is_aborted(self, kafka_topic, kafka_faults):
        """Aiokafka's sender ends of it: a new producer of the same id aborts."""

        async def fail():
            async with producer.transaction():
                await send(producer, kafka_topic, b"bad")

        async with guarded(kafka_faults) as producer:
            kafka_faults.on("EndTxn").fail("TRANSACTION_ABORTABLE", times=1)
            with pytest.raises(errors.KafkaGuardError) as caught:
                await fail()
            assert caught.value.code == 120
            assert caught.value.verdict.action == Action.ABORT
            async with producer.transaction():
                await send(producer, kafka_topic, b"good")
        assert committed(kafka_faults, kafka_topic) == [b"good"]


class TestCalls:
    """The client's own calls beside it."""

    async def test_they_work_as_the_clients(self, kafka_cluster, kafka_topic):
        """Begin, commit, begin, abort."""
        async with guarded(kafka_cluster) as producer:
            await producer.begin_transaction()
            await send(producer, kafka_topic, b"kept")
            await producer.commit_transaction()
            await producer.begin_transaction()
            await send(producer, kafka_topic, b"gone")
            await producer.abort_transaction()
        assert committed(kafka_cluster, kafka_topic) == [b"kept"]

    async def test_calls_in_a_wrong_order_say_what_comes_first(
        self, kafka_cluster, kafka_topic
    ):
        """No client is dead of it."""
        async with guarded(kafka_cluster) as producer:
            for call in (producer.commit_transaction, producer.abort_transaction):
                with pytest.raises(errors.ClientStateError, match="begin_transaction"):
                    await call()
            with pytest.raises(errors.ClientStateError, match="begin_transaction"):
                await producer.send(kafka_topic, b"v", b"k")
            await producer.begin_transaction()
            with pytest.raises(errors.ClientStateError, match=r"call .* first"):
                await producer.begin_transaction()
            await send(producer, kafka_topic, b"v")
            await producer.commit_transaction()
        assert committed(kafka_cluster, kafka_topic) == [b"v"]

    async def test_another_producer_has_no_transactions(self, kafka_cluster):
        """It says what is missing."""
        producer = guard(
            AIOKafkaProducer(
                bootstrap_servers=kafka_cluster.bootstrap_servers,
                enable_idempotence=True,
            )
        )
        async with producer:
            for call in (
                producer.begin_transaction(),
                producer.commit_transaction(),
                producer.abort_transaction(),
                producer.send_offsets_to_transaction({}, "g"),
            ):
                with pytest.raises(errors.ClientStateError, match="transactional_id"):
                    await call

    async def test_fenced_is_final(self, kafka_cluster, kafka_topic):
        """The newer instance goes on; this one never fences it back."""
        config = settings(kafka_cluster)
        old = guard(AIOKafkaProducer(**config))
        await old.start()
        await old.begin_transaction()
        await send(old, kafka_topic, b"old")
        await old.flush()
        async with guard(AIOKafkaProducer(**config)) as new:
            with pytest.raises(errors.KafkaGuardError) as caught:
                await old.commit_transaction()
            assert caught.value.verdict.action == Action.FENCED
            bare = old.client
            for call in (old.begin_transaction, old.abort_transaction):
                with pytest.raises(errors.KafkaGuardError) as caught:
                    await call()
                assert caught.value.verdict.action == Action.FENCED
            assert bare is old.client
            await old.stop()
            async with new.transaction():
                await send(new, kafka_topic, b"new")
        assert committed(kafka_cluster, kafka_topic) == [b"new"]

    async def test_code_90_is_final(self, kafka_topic, kafka_faults):
        """Another call gets the same answer."""
        producer = guarded(kafka_faults)
        await producer.start()
        await begin_and_write(producer, kafka_topic)
        kafka_faults.on("EndTxn").fail("PRODUCER_FENCED")
        for _ in range(2):
            with pytest.raises(errors.KafkaGuardError) as caught:
                await producer.commit_transaction()
            assert caught.value.verdict.action == Action.FENCED
        await producer.stop()

    async def test_a_commit_without_any_answer_is_in_doubt(
        self, kafka_topic, kafka_faults
    ):
        """It may be asked for again, and is never replayed."""
        async with guarded(kafka_faults, request_timeout_ms=1500) as producer:
            await begin_and_write(producer, kafka_topic)
            lost = kafka_faults.on("EndTxn").drop()
            async with asyncio.timeout(LIMIT_S):
                with pytest.raises(errors.KafkaGuardError) as caught:
                    await producer.commit_transaction()
            assert caught.value.verdict.action == Action.IN_DOUBT
            lost.remove()
            async with asyncio.timeout(LIMIT_S):
                await producer.commit_transaction()
        assert committed(kafka_faults, kafka_topic) == [b"v"]

    async def test_a_commit_that_was_carried_out_meanwhile_can_be_asked_for(
        self, kafka_topic, kafka_faults
    ):
        """Aiokafka has repeated it by itself: the second call returns."""
        async with guarded(kafka_faults, request_timeout_ms=1500) as producer:
            await begin_and_write(producer, kafka_topic)
            lost = kafka_faults.on("EndTxn").drop()
            with pytest.raises(errors.KafkaGuardError) as caught:
                await producer.commit_transaction()
            assert caught.value.verdict.action == Action.IN_DOUBT
            lost.remove()
            ended = inside.ended(producer.client)
            async with asyncio.timeout(LIMIT_S):
                await ended
            with pytest.raises(errors.ClientStateError, match="call commit_trans"):
                await producer.abort_transaction()
            await producer.commit_transaction()
        assert committed(kafka_faults, kafka_topic) == [b"v"]

    async def test_stop_says_that_a_commit_is_in_doubt(self, kafka_topic, kafka_faults):
        """Not that the transaction is open: it was committed."""
        producer = guarded(kafka_faults, request_timeout_ms=1500)
        await producer.start()
        await begin_and_write(producer, kafka_topic)
        kafka_faults.on("EndTxn").drop()
        with pytest.raises(errors.KafkaGuardError):
            await producer.commit_transaction()
        with pytest.raises(errors.ClientStateError, match="unknown whether") as caught:
            await producer.stop(2)
        assert caught.value.verdict.action == Action.IN_DOUBT
        assert "still open" not in str(caught.value)

    async def test_a_late_close_does_not_hide_an_open_transaction(
        self, kafka_topic, kafka_faults, monkeypatch
    ):
        """Where no broker answers, both take too long."""
        producer = guarded(kafka_faults)
        await producer.start()
        await begin_and_write(producer, kafka_topic)
        kafka_faults.on("EndTxn").drop(written=False)
        close = producer._shell.close

        async def close_late(within):
            await close(within)
            raise TimeoutError

        monkeypatch.setattr(producer._shell, "close", close_late)
        with pytest.raises(errors.ClientStateError, match="still open") as caught:
            await producer.stop(1)
        (note,) = caught.value.__notes__
        assert "did not close" in note

    async def test_a_commit_that_waits_for_records_was_not_requested(
        self, kafka_topic, kafka_faults
    ):
        """RETRY, not in doubt; it can be aborted."""
        async with guarded(kafka_faults, request_timeout_ms=1500) as producer:
            await producer.begin_transaction()
            held = kafka_faults.on("Produce").delay(4.0)
            await send(producer, kafka_topic, b"v")
            with pytest.raises(errors.ClientTimeoutError) as caught:
                await producer.commit_transaction()
            assert caught.value.verdict.action == Action.RETRY
            assert caught.value.verdict.written == "no"
            assert not kafka_faults.requests("EndTxn")
            held.remove()
            async with asyncio.timeout(LIMIT_S):
                await producer.abort_transaction()

    async def test_an_abort_answered_120_ends_in_recreate(
        self, kafka_topic, kafka_faults
    ):
        """After one try; begin_transaction() goes on with a new producer."""
        async with guarded(kafka_faults) as producer:
            await producer.begin_transaction()
            await send(producer, kafka_topic, b"bad")
            await producer.flush()
            kafka_faults.on("EndTxn").fail("TRANSACTION_ABORTABLE", times=1)
            for _ in range(2):
                with pytest.raises(errors.KafkaGuardError) as caught:
                    await producer.abort_transaction()
                assert caught.value.verdict.action == Action.RECREATE
            async with producer.transaction():
                await send(producer, kafka_topic, b"good")
        assert committed(kafka_faults, kafka_topic) == [b"good"]

    async def test_stop_aborts_what_is_open(self, kafka_cluster, kafka_topic):
        """The error of stop() says that the transaction was aborted."""
        producer = guarded(kafka_cluster)
        await producer.start()
        await producer.begin_transaction()
        await send(producer, kafka_topic, b"v")
        with pytest.raises(errors.ClientStateError, match="was aborted"):
            await producer.stop()
        assert committed(kafka_cluster, kafka_topic) == []

    async def test_stop_says_that_a_transaction_is_still_open(
        self, kafka_topic, kafka_faults
    ):
        """Where the abort fails for good."""
        producer = guarded(kafka_faults)
        await producer.start()
        await begin_and_write(producer, kafka_topic)
        kafka_faults.on("EndTxn").fail("TRANSACTION_ABORTABLE")
        with pytest.raises(errors.ClientStateError, match="still open"):
            await producer.stop()

    async def test_offsets_are_committed_with_it(self, kafka_cluster, kafka_topic):
        """Offsets of a transaction that is aborted are not committed."""
        group = f"g-{secrets.token_hex(4)}"
        place = Place(kafka_topic, 0)
        async with guarded(kafka_cluster) as producer:
            async with producer.transaction():
                await send(producer, kafka_topic, b"v")
                await producer.send_offsets_to_transaction({place: 1}, group)
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({place: 7}, group)
            await producer.abort_transaction()
            lag = await producer.lag(group)
        (found,) = lag.groups[group].partitions.values()
        assert found.committed == 1

    @pytest.mark.parametrize("has_topic", [False, True])
    async def test_unconfirmed_offsets_do_not_hold_up_the_abort(
        self, kafka_cluster, kafka_topic, has_topic
    ):
        """The client asks for them for ever; the same client goes on after the abort.

        The topic is missing, or the partition.
        """
        place = Place(kafka_topic, 99) if has_topic else Place("gone", 0)

        async def fail():
            async with producer.transaction():
                await send(producer, kafka_topic, b"bad")
                await producer.send_offsets_to_transaction({place: 1}, "g")

        async with guarded(kafka_cluster, request_timeout_ms=2000) as producer:
            bare = producer.client
            with pytest.raises(errors.KafkaGuardError, match="not confirmed") as caught:
                await fail()
            said = str(caught.value)
            assert "abort_transaction()" not in said
            assert "RETRY: the transaction was aborted: begin another one" in said
            assert not hasattr(caught.value, "__notes__")
            async with producer.transaction():
                await send(producer, kafka_topic, b"good")
            assert bare is producer.client
        assert committed(kafka_cluster, kafka_topic) == [b"good"]

    @pytest.mark.kafka_topic(partitions=2)
    async def test_offsets_confirmed_after_all_do_not_end_the_client(
        self, kafka_topic, kafka_faults
    ):
        """Their answer comes while the abort waits for it."""
        places = {Place(kafka_topic, 0): 1, Place(kafka_topic, 1): 1}
        async with guarded(kafka_faults) as producer:
            bare = producer.client
            await producer.begin_transaction()
            await send(producer, kafka_topic, b"bad")
            held = kafka_faults.on("TxnOffsetCommit").delay(1.0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(
                    producer.send_offsets_to_transaction(places, "g"), 0.3
                )
            await producer.abort_transaction()
            held.remove()
            async with producer.transaction():
                await send(producer, kafka_topic, b"good")
                await producer.send_offsets_to_transaction(places, "g")
            assert bare is producer.client
        assert committed(kafka_faults, kafka_topic) == [b"good"]

    async def test_dead_letters_are_refused(self, kafka_cluster):
        """They would be aborted with the record."""
        client = AIOKafkaProducer(**settings(kafka_cluster))
        with pytest.raises(errors.ClientConfigurationError, match="transactional"):
            guard(client, policy={"on_reject": "dead_letter"})
        await client.stop()


class TestSecondEpisodes:
    """What happened to one transaction, or to one client, is over with it."""

    async def test_each_of_two_gaps_is_closed_by_a_new_producer_at_begin(
        self, kafka_topic, kafka_faults
    ):
        """Numbers are missing: the broker would refuse the next transaction, too."""
        async with asyncio.timeout(LIMIT_S), guarded(kafka_faults) as producer:
            for number in range(2):
                client = producer.client
                kafka_faults.on("Produce").fail("OUT_OF_ORDER_SEQUENCE_NUMBER", times=1)
                await producer.begin_transaction()
                (lost,) = await send(producer, kafka_topic, b"lost")
                with pytest.raises(errors.KafkaGuardError):
                    await lost
                await producer.abort_transaction()
                async with producer.transaction():
                    await send(producer, kafka_topic, b"%d" % number)
                assert producer.client is not client
                client = producer.client
                async with producer.transaction():
                    await send(producer, kafka_topic, b"%d again" % number)
                assert producer.client is client
        values = [b"0", b"0 again", b"1", b"1 again"]
        assert committed(kafka_faults, kafka_topic) == values

    async def test_answers_that_take_a_second_are_awaited(
        self, kafka_topic, kafka_faults
    ):
        """At the start, at the end of a transaction, and when the producer stops."""
        kafka_faults.on("InitProducerId").delay(1.2, times=1)
        kafka_faults.on("EndTxn").delay(1.2, times=2)
        producer = guarded(kafka_faults)
        async with asyncio.timeout(LIMIT_S):
            await producer.start()
            async with producer.transaction():
                await send(producer, kafka_topic, b"1")
            await producer.begin_transaction()
            await send(producer, kafka_topic, b"2")
            with pytest.raises(errors.ClientStateError, match="was aborted"):
                await producer.stop()
        assert committed(kafka_faults, kafka_topic) == [b"1"]

    async def test_an_interrupted_block_is_aborted_and_the_next_one_works(
        self, kafka_cluster, kafka_topic
    ):
        """A task that is cancelled in its block leaves no open transaction."""
        async with asyncio.timeout(LIMIT_S), guarded(kafka_cluster) as producer:
            is_sent = asyncio.Event()

            async def wait_for_ever():
                async with producer.transaction():
                    await send(producer, kafka_topic, b"lost")
                    is_sent.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(wait_for_ever())
            await is_sent.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            async with producer.transaction():
                await send(producer, kafka_topic, b"v")
        assert committed(kafka_cluster, kafka_topic) == [b"v"]
