"""The contract of guarded producers about transactions."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from kafka import KafkaConsumer, TopicPartition

from kafkaguard import Action, errors
from tests.contracts.producer import (
    COMPACTED,
    LIMIT,
    SMALL,
    TOO_LARGE,
    records,
    stale_topic,
    until,
)

#: Less than the time of a record.
SOON_S = 20.0


class TransactionsContract:
    """A guarded producer with a `transactional.id`.

    The writer of a subclass has the client's `init()`, `commit()`, `abort()`,
    `transaction()` and `send_offsets()`, all blocking; `transaction()` is a context
    manager.
    """

    client_error: type[BaseException]

    def open_transactional(
        self,
        servers,
        name,
        *,
        topics=None,
        policy="default",
        timeout=60.0,
        patience=10.0,
    ):
        """Return a context manager of a `Writer` that is not initialised yet.

        Its `transactional.id` is `id-` and the name; after `timeout` seconds the
        coordinator aborts a transaction by itself. A call ends after `patience` seconds
        if the client has a setting for that. It is closed at the end. An error of
        this close is ignored if the test has already closed the writer or has left a
        transaction open.
        """
        raise NotImplementedError

    def commit_with_successor(self, servers, name):
        """Commit one record with a new producer that takes over the id of a writer."""
        with self.open_transactional(servers, name) as successor:
            successor.init()
            with successor.transaction():
                successor.forget(name, b"seen", b"k")

    def test_a_block_is_committed(self, kafka_cluster, kafka_topic):
        """Two after another; readers of committed records see both."""
        servers = kafka_cluster.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            for n in range(2):
                with writer.transaction():
                    writer.forget(kafka_topic, b"%d" % n, b"k")
        assert committed(kafka_cluster, kafka_topic) == [b"0", b"1"]

    def test_a_block_that_raises_is_aborted(self, kafka_cluster, kafka_topic):
        """Its exception goes on as it is, and the next block works."""
        servers = kafka_cluster.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            with pytest.raises(ZeroDivisionError) as caught:
                run(writer, lambda: sent(writer, kafka_topic, b"never seen"), fail)
            assert getattr(caught.value, "__notes__", []) == []
            with writer.transaction():
                writer.forget(kafka_topic, b"seen", b"k")
        assert committed(kafka_cluster, kafka_topic) == [b"seen"]

    @pytest.mark.parametrize("by_the_call", [True, False])
    def test_a_refused_record_aborts_its_transaction(self, kafka_cluster, by_the_call):
        """ABORT, done already: the block may be run again without that record."""
        topic, stale = stale_topic(kafka_cluster)
        if by_the_call:
            stale = {}
        servers = kafka_cluster.bootstrap_servers
        with self.open_transactional(servers, topic, topics=stale) as writer:
            writer.init()
            with pytest.raises(errors.KafkaGuardError) as caught:
                run(
                    writer,
                    lambda: writer.forget(topic, b"never seen", b"k"),
                    lambda: writer.forget(topic, b"no key"),
                )
            assert isinstance(caught.value, self.client_error)
            assert caught.value.verdict.action is Action.ABORT
            with writer.transaction():
                writer.forget(topic, b"seen", b"k")
        assert committed(kafka_cluster, topic) == [b"seen"]

    def test_a_record_that_is_too_large_is_to_blame(self, kafka_cluster):
        """Also in a transaction: its code, size and limit; its mates are told apart."""
        topic = kafka_cluster.create_topic(config=SMALL)
        servers = kafka_cluster.bootstrap_servers
        with self.open_transactional(servers, topic) as writer:
            writer.init()
            for mates in (0, 2):
                small = [lambda: forget_if_taken(writer, topic)] * mates
                start = time.monotonic()
                with pytest.raises(errors.KafkaGuardError) as caught:
                    run(
                        writer,
                        *small,
                        lambda: writer.forget(topic, TOO_LARGE, b"k"),
                        *small,
                    )
                assert time.monotonic() - start < SOON_S
                assert caught.value.verdict.action is Action.ABORT
                assert "abort_transaction()" not in str(caught.value)
                record = caught.value.__cause__
                assert isinstance(record, errors.MessageTooLargeError)
                assert record.code == 10
                assert "makes a batch of 50" in str(record)
                assert f"max.message.bytes of topic {topic} is {LIMIT}" in str(record)
            with writer.transaction():
                writer.forget(topic, b"seen", b"k")
        assert committed(kafka_cluster, topic) == [b"seen"]

    def test_records_count_as_delivered_once_they_are_committed(
        self, kafka_cluster, kafka_topic
    ):
        """Those of an aborted transaction count as aborted, flushed or not."""
        servers = kafka_cluster.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            for end in (
                lambda: writer.flush(60),
                lambda: sent(writer, kafka_topic, b"-"),
            ):
                with pytest.raises(ZeroDivisionError):
                    run(writer, lambda: sent(writer, kafka_topic, b"-"), end, fail)
            report = writer.guarded.report()
            assert (report.delivered, report.aborted) == (0, 3)
            run(writer, *[lambda: writer.forget(kafka_topic, b"+", b"k")] * 2)
            report = writer.guarded.report()
            assert (report.delivered, report.aborted) == (2, 0)
            block = writer.transaction()
            block.__enter__()
            sent(writer, kafka_topic, b"-")
            with pytest.raises(errors.ClientStateError, match="aborted 1 since"):
                writer.close(10)
        assert committed(kafka_cluster, kafka_topic) == [b"+"] * 2

    def test_a_block_that_ctrl_c_ends_is_aborted_and_the_next_one_works(
        self, kafka_cluster, kafka_topic
    ):
        """Its records are seen by nobody, and hold up no reader."""
        servers = kafka_cluster.bootstrap_servers

        def interrupt():
            raise KeyboardInterrupt

        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            for number in range(2):
                with pytest.raises(KeyboardInterrupt):
                    run(writer, lambda: sent(writer, kafka_topic, b"-"), interrupt)
                run(
                    writer, lambda n=number: writer.forget(kafka_topic, b"%d" % n, b"k")
                )
        assert committed(kafka_cluster, kafka_topic) == [b"0", b"1"]

    @pytest.mark.parametrize("by_hand", [True, False])
    def test_the_failures_of_an_aborted_transaction_are_known(
        self, kafka_cluster, kafka_topic, by_hand
    ):
        """The application aborted it, or got its error: close() raises nothing."""
        servers = kafka_cluster.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            if by_hand:
                block = writer.transaction()
                block.__enter__()
                writer.forget(kafka_topic, b"never seen", b"k")
                writer.abort()
            else:
                with pytest.raises(ZeroDivisionError):
                    run(writer, lambda: writer.forget(kafka_topic, b"-", b"k"), fail)
            with writer.transaction():
                writer.forget(kafka_topic, b"seen", b"k")
            writer.close(30)
        assert committed(kafka_cluster, kafka_topic) == [b"seen"]

    def test_a_refusal_that_the_block_told_is_known(self, kafka_cluster):
        """The broker refused the record; its error was the error of the block."""
        topic, stale = stale_topic(kafka_cluster)
        servers = kafka_cluster.bootstrap_servers
        with self.open_transactional(servers, topic, topics=stale) as writer:
            writer.init()
            with pytest.raises(errors.KafkaGuardError):
                run(writer, lambda: writer.forget(topic, b"no key"))
            writer.close(30)

    def test_calls_in_a_wrong_order_say_what_comes_first(
        self, kafka_cluster, kafka_topic
    ):
        """Nothing is dead after them, and they fail no transaction."""
        servers = kafka_cluster.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            for call in (
                writer.abort,
                lambda: writer.send(kafka_topic, b"early", b"k"),
            ):
                with pytest.raises(errors.ClientStateError) as caught:
                    call()
                assert "call begin_transaction() first" in str(caught.value)
                assert caught.value.verdict.action is Action.REJECT
            with pytest.raises(errors.ClientStateError) as caught:
                run(writer, lambda: run(writer))
            assert "call commit_transaction() or abort_transaction()" in str(
                caught.value
            )
            assert caught.value.verdict.action is Action.REJECT
            with writer.transaction():
                writer.forget(kafka_topic, b"seen", b"k")
        assert committed(kafka_cluster, kafka_topic) == [b"seen"]

    def test_b22_a_commit_whose_answer_is_lost_is_asked_again(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """It was carried out; the block ends without an error."""
        servers = kafka_faults.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            with writer.transaction():
                assert writer.outcome(writer.send(kafka_topic, b"v", b"k")) == 0
                kafka_faults.on("EndTxn").close(times=1)
            assert len(kafka_faults.requests("EndTxn")) >= 2
            with writer.transaction():
                writer.forget(kafka_topic, b"w", b"k")
        assert committed(kafka_cluster, kafka_topic) == [b"v", b"w"]

    def test_b23_a_transaction_that_is_still_ending_is_waited_for(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """Code 51, a few times."""
        servers = kafka_faults.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            kafka_faults.on("EndTxn").fail("CONCURRENT_TRANSACTIONS", times=2)
            with writer.transaction():
                writer.forget(kafka_topic, b"v", b"k")
        assert committed(kafka_cluster, kafka_topic) == [b"v"]

    def test_b18_a_fenced_commit_is_final(self, kafka_cluster, kafka_topic):
        """Nothing is aborted, and nobody is fenced back: the other one goes on."""
        servers = kafka_cluster.bootstrap_servers
        with (
            self.open_transactional(servers, kafka_topic) as stale,
            self.open_transactional(servers, kafka_topic) as other,
        ):
            stale.init()
            with pytest.raises(errors.KafkaGuardError) as caught:
                run(stale, lambda: sent(stale, kafka_topic, b"stale"), other.init)
            assert isinstance(caught.value, self.client_error)
            assert caught.value.verdict.action is Action.FENCED
            with other.transaction():
                other.forget(kafka_topic, b"other", b"k")
        assert committed(kafka_cluster, kafka_topic) == [b"other"]

    def test_a_record_of_a_fenced_producer_leaves_it_fenced(
        self, kafka_cluster, kafka_topic
    ):
        """FENCED, not "begin again without it"; nor does close() say to start anew."""
        servers = kafka_cluster.bootstrap_servers

        def late():
            with suppress(errors.KafkaGuardError):
                writer.outcome(writer.send(kafka_topic, b"late", b"k"))

        with (
            self.open_transactional(servers, kafka_topic) as writer,
            self.open_transactional(servers, kafka_topic) as other,
        ):
            writer.init()
            with pytest.raises(errors.KafkaGuardError) as caught:
                run(writer, lambda: sent(writer, kafka_topic, b"-"), other.init, late)
            assert caught.value.verdict.action is Action.FENCED
            for call in (lambda: run(writer), writer.abort):
                with pytest.raises(errors.KafkaGuardError) as caught:
                    call()
                assert caught.value.verdict.action is Action.FENCED
            with other.transaction():
                other.forget(kafka_topic, b"other", b"k")
            writer.close(30)
            with other.transaction():
                other.forget(kafka_topic, b"again", b"k")
        assert committed(kafka_cluster, kafka_topic) == [b"other", b"again"]

    def test_b20_two_instances_with_one_id_do_not_fence_each_other_for_ever(
        self, kafka_cluster, kafka_topic
    ):
        """The older one stops, whatever is called, and names the id; the other goes on."""
        servers = kafka_cluster.bootstrap_servers
        with (
            self.open_transactional(servers, kafka_topic) as older,
            self.open_transactional(servers, kafka_topic) as other,
        ):
            older.init()
            with older.transaction():
                older.forget(kafka_topic, b"older", b"k")
            other.init()
            for n in range(5):
                with pytest.raises(errors.KafkaGuardError) as caught:
                    run(older, lambda: older.send(kafka_topic, b"never seen", b"k"))
                assert isinstance(caught.value, self.client_error)
                assert caught.value.verdict.action is Action.FENCED
                assert f"id-{kafka_topic}" in str(caught.value)
                with other.transaction():
                    other.forget(kafka_topic, b"%d" % n, b"k")
        there = [b"older", b"0", b"1", b"2", b"3", b"4"]
        assert committed(kafka_cluster, kafka_topic) == there

    @pytest.mark.filterwarnings(
        "ignore:the coordinator aborts:kafkaguard.errors.StackingWarning"
    )
    @pytest.mark.parametrize("sends_late", [False, True])
    def test_b24_a_transaction_that_was_open_for_too_long_is_told(
        self, kafka_cluster, kafka_topic, kafka_faults, sends_late
    ):
        """The coordinator has aborted it: no other instance is blamed for it."""
        servers = kafka_faults.bootstrap_servers

        def late():
            if sends_late:
                with suppress(errors.KafkaGuardError):
                    writer.outcome(writer.send(kafka_topic, b"late", b"k"))

        with self.open_transactional(servers, kafka_topic, timeout=1.0) as writer:
            writer.init()
            with pytest.raises(errors.KafkaGuardError) as caught:
                run(
                    writer,
                    lambda: sent(writer, kafka_topic, b"never seen"),
                    lambda: until(lambda: is_aborted(kafka_cluster, kafka_topic), 60),
                    late,
                )
            assert isinstance(caught.value, self.client_error)
            for call in (lambda: run(writer), writer.abort):
                assert "transaction.timeout" in str(caught.value).replace("_", ".")
                assert "another instance uses" not in str(caught.value)
                assert caught.value.verdict.action is Action.RECREATE
                with pytest.raises(errors.KafkaGuardError) as caught:
                    call()
            assert caught.value.verdict.action is Action.RECREATE
        self.commit_with_successor(servers, kafka_topic)
        assert committed(kafka_cluster, kafka_topic) == [b"seen"]

    def test_an_abort_that_fails_for_good_says_recreate(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """After one try, not "call abort" for ever; close() says that it is open."""
        servers = kafka_faults.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            fault = kafka_faults.on("EndTxn").fail("TRANSACTION_ABORTABLE")
            with pytest.raises(ZeroDivisionError) as caught:
                run(writer, lambda: sent(writer, kafka_topic, b"never seen"), fail)
            (note,) = caught.value.__notes__
            assert "was not aborted" in note
            with pytest.raises(errors.KafkaGuardError) as refused:
                writer.abort()
            assert refused.value.verdict.action is Action.RECREATE
            with pytest.raises(errors.ClientStateError, match="still open") as closed:
                writer.close(5)
            assert closed.value.verdict.action is Action.RECREATE
            fault.remove()
        self.commit_with_successor(servers, kafka_topic)
        assert committed(kafka_cluster, kafka_topic) == [b"seen"]

    @pytest.mark.filterwarnings(
        "ignore:the coordinator aborts:kafkaguard.errors.StackingWarning"
    )
    @pytest.mark.parametrize(
        ("api", "code", "is_passing"),
        [
            ("AddOffsetsToTxn", "NOT_COORDINATOR", True),
            ("AddOffsetsToTxn", "INVALID_GROUP_ID", False),
            ("TxnOffsetCommit", "NOT_COORDINATOR", True),
            ("TxnOffsetCommit", "ILLEGAL_GENERATION", False),
        ],
    )
    def test_no_commit_without_offsets_that_could_not_be_sent(
        self, kafka_topic, kafka_faults, api, code, is_passing
    ):
        """The commit says ABORT, or what ended the client; none is requested."""
        servers = kafka_faults.bootstrap_servers
        with self.open_transactional(
            servers, kafka_topic, timeout=6.0, patience=2.0
        ) as writer:
            writer.init()
            block = writer.transaction()
            block.__enter__()
            sent(writer, kafka_topic, b"never seen")
            kafka_faults.on(api).fail(code)
            with pytest.raises(errors.KafkaGuardError):
                writer.send_offsets(kafka_topic, f"g-{kafka_topic}")
            for _ in range(2):
                with pytest.raises(errors.KafkaGuardError) as caught:
                    writer.commit()
                assert isinstance(caught.value, self.client_error)
                assert caught.value.verdict.written == "no"
                if is_passing:
                    assert caught.value.verdict.action is Action.ABORT
                    assert "abort_transaction()" in str(caught.value)
            assert not kafka_faults.requests("EndTxn")

    @pytest.mark.parametrize("api", ["AddOffsetsToTxn", "TxnOffsetCommit"])
    def test_records_of_a_transaction_whose_offsets_failed_are_aborted(
        self, kafka_topic, kafka_faults, api
    ):
        """The next commit does not commit them: the coordinator gets the abort."""
        servers = kafka_faults.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            kafka_faults.on(api).fail("GROUP_AUTHORIZATION_FAILED", times=1)
            steps = (
                lambda: sent(writer, kafka_topic, b"aborted"),
                lambda: writer.send_offsets(kafka_topic, f"g-{kafka_topic}"),
            )
            with pytest.raises(errors.KafkaGuardError):
                run(writer, *steps)
            run(writer, lambda: sent(writer, kafka_topic, b"seen"))
        assert committed(kafka_faults, kafka_topic) == [b"seen"]

    @pytest.mark.parametrize("code", ["UNKNOWN_SERVER_ERROR", "INVALID_TXN_STATE"])
    def test_a_commit_whose_answer_leaves_its_result_open_is_in_doubt(
        self, kafka_topic, kafka_faults, code
    ):
        """The coordinator has committed, and then fails or says that nothing is open."""
        servers = kafka_faults.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            kafka_faults.on("EndTxn").fail(code, times=1, written=True)
            with pytest.raises(errors.KafkaGuardError) as caught:
                run(writer, lambda: sent(writer, kafka_topic, b"committed"))
        assert caught.value.verdict.written == "maybe"
        assert committed(kafka_faults, kafka_topic) == [b"committed"]

    def test_a_transaction_that_is_open_at_close_is_aborted_and_told(
        self, kafka_cluster, kafka_topic
    ):
        """Readers of what is committed do not wait for its time to run out."""
        servers = kafka_cluster.bootstrap_servers
        with self.open_transactional(servers, kafka_topic) as writer:
            writer.init()
            block = writer.transaction()
            block.__enter__()
            writer.outcome(writer.send(kafka_topic, b"never seen", b"k"))
            with pytest.raises(errors.ClientStateError, match="was aborted") as caught:
                writer.close(10)
            assert caught.value.verdict.action is Action.ABORT
        self.commit_with_successor(servers, kafka_topic)
        assert committed(kafka_cluster, kafka_topic) == [b"seen"]

    def test_policies_that_set_records_aside_are_refused(self, kafka_cluster):
        """Half a transaction would be committed, or the dead letter aborted."""
        kafka_cluster.create_topic(config=COMPACTED)
        servers = kafka_cluster.bootstrap_servers
        for policy in ({"on_reject": "dead_letter"}, {"on_reject": "drop"}):
            with (
                pytest.raises(errors.ClientConfigurationError, match="transactional"),
                self.open_transactional(servers, "aside", policy=policy),
            ):
                pass


def run(writer, *steps):
    """Run steps in a transaction."""
    with writer.transaction():
        for step in steps:
            step()


def sent(writer, topic, value):
    """Send a record and wait for it."""
    assert isinstance(writer.outcome(writer.send(topic, value, b"k")), int)


def forget_if_taken(writer, topic):
    """Send a small record; its transaction may have failed already."""
    with suppress(errors.KafkaGuardError):
        writer.forget(topic, b"mate", b"k")


def fail():
    """Raise an error that is not about Kafka."""
    raise ZeroDivisionError


def is_aborted(cluster, topic):
    """Tell whether a transaction of one record has ended, which nobody can read."""
    place = TopicPartition(topic, 0)
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        return consumer.end_offsets([place])[place] > 1


def committed(cluster, topic):
    """Read the records that consumers of committed records get."""
    seen = records(cluster, topic, isolation_level="read_committed")
    return [record.value for record in seen]
