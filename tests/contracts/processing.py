"""What every guarded consumer that handles records keeps, on a real broker.

A subclass implements how its client is opened and called. Handlers are plain functions
here; aiokafka's subclass runs them in threads, so they may sleep.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict

import confluent_kafka
import pytest
from confluent_kafka import Producer
from kafka import TopicPartition

import kafkaguard
from kafkaguard import events as ev
from kafkaguard._delivery.dialects import LetterFacts, letter_facts
from tests.contracts.producer import until

LETTERS = {"on_reject": "dead_letter"}


class Interrupt(BaseException):
    """As KeyboardInterrupt, which would also end the event loop of a test."""


def fill(cluster, topic, count, *, keys=10, partitions=None, **options):
    """Send numbered records; return their values by key, in order."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    sent = defaultdict(list)
    for n in range(count):
        key, value = b"k%d" % (n % keys), b"%d" % n
        place = {} if partitions is None else {"partition": n % keys % partitions}
        producer.produce(topic, value, key=key, **place, **options)
        sent[key].append(value)
        producer.poll(0)
    producer.flush()
    return sent


def ends(cluster, topic, partitions):
    """Return the ends of a topic's logs."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "ends"}
    )
    try:
        return [
            consumer.get_watermark_offsets(
                confluent_kafka.TopicPartition(topic, n), timeout=10
            )[1]
            for n in range(partitions)
        ]
    finally:
        consumer.close()


def committed(cluster, group, topic, partitions):
    """Return the committed offsets of a group; None: there is none."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group}
    )
    places = [confluent_kafka.TopicPartition(topic, n) for n in range(partitions)]
    try:
        offsets = [each.offset for each in consumer.committed(places, timeout=30)]
    finally:
        consumer.close()
    return [None if offset < 0 else offset for offset in offsets]


class Seen:
    """A handler that remembers what it got, and checks the order of each key."""

    def __init__(self, read, seconds=0.0):
        self.read = read
        self.seconds = seconds
        self.values = Counter()
        self.by_key = defaultdict(list)
        self._lock = threading.Lock()

    def __call__(self, record):
        """Handle a record."""
        if self.seconds:
            time.sleep(self.seconds)
        key, value = self.read(record)
        with self._lock:
            self.values[value] += 1
            self.by_key[key].append(value)

    def wait_for(self, count, timeout=60.0):
        """Wait until so many different records were handled."""
        end = time.monotonic() + timeout
        while len(self.values) < count:
            assert time.monotonic() < end, f"{len(self.values)} of {count}"
            time.sleep(0.02)


class Member:
    """A guarded consumer, and the run of ``process()`` in a thread of its own."""

    def __init__(self):
        self.events = []
        self.on_event = self.events.append
        self.stop = threading.Event()
        self.outcome = None
        self.error = None
        self._thread = None

    def hear(self, event):
        """Hear of an event."""
        self.on_event(event)

    def process(self, handler, **options):
        """Run until it ends, and return the report."""
        raise NotImplementedError

    def close(self):
        """Close the consumer, in any thread."""
        raise NotImplementedError

    def progress(self):
        """Return the progress."""
        return self.guarded.progress()

    def start(self, handler, **options):
        """Begin a run in a thread."""

        def run():
            try:
                self.outcome = self.process(handler, stop=self.stop, **options)
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def end(self, timeout=40.0):
        """Stop the run, and return its report."""
        self.stop.set()
        return self.join(timeout)

    def join(self, timeout=40.0):
        """Wait for the run, and return its report."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the run does not end"
        if self.error is not None:
            raise self.error
        return self.outcome

    def told(self, kind):
        """Return the events of a class."""
        return [each for each in self.events if isinstance(each, kind)]


class ProcessContract:
    """Tests for each client."""

    def open(
        self, cluster, topic, *, group=None, policy="default", given=False, **more
    ):
        """Open a member; ``more`` are settings by librdkafka's names.

        Args:
            cluster: The cluster.
            topic: What it subscribes to.
            group: Its group; the topic's name by default.
            policy: The policy.
            given: Whether the client is built here, and not by a factory.
            more: Settings, with ``_`` for each dot.
        """
        raise NotImplementedError

    def read(self, record):
        """Return key and value of a record."""
        raise NotImplementedError

    #: What a header without a value becomes in a letter.
    null_header = None
    #: What a client that commits by itself is told to write.
    setting = ""

    def test_a_client_that_commits_by_itself_is_refused(
        self, kafka_cluster, kafka_topic
    ):
        """Its commits would be of records that nobody has handled."""
        with (
            self.open(kafka_cluster, kafka_topic, given=True) as member,
            pytest.raises(kafkaguard.errors.ClientConfigurationError) as caught,
        ):
            member.process(Seen(self.read), until_end=True)
        assert self.setting in str(caught.value)

    def test_where_a_new_group_begins_at_the_end_is_committed_before_a_record_is_read(
        self, kafka_cluster, kafka_topic
    ):
        """If this member dies first, the next one reads what has come since."""
        fill(kafka_cluster, kafka_topic, 5)
        latest = {"auto_offset_reset": "latest"}
        with self.open(kafka_cluster, kafka_topic, **latest) as member:
            member.start(Seen(self.read))
            until(
                lambda: committed(kafka_cluster, kafka_topic, kafka_topic, 1) == [5], 30
            )
            assert member.end().committed == 0

    def test_nothing_is_committed_before_it_is_handled(
        self, kafka_cluster, kafka_topic
    ):
        """With a factory, the guard switches the client's own commits off."""
        fill(kafka_cluster, kafka_topic, 5)
        free = threading.Event()

        def handle(_):
            free.wait(20)

        with self.open(
            kafka_cluster, kafka_topic, auto_commit_interval_ms=100
        ) as member:
            member.start(handle)
            time.sleep(4)
            assert committed(kafka_cluster, kafka_topic, kafka_topic, 1)[0] in (None, 0)
            free.set()
            time.sleep(1)
            report = member.end()
        assert report.processed == report.committed == 5
        assert committed(kafka_cluster, kafka_topic, kafka_topic, 1) == [5]

    @pytest.mark.parametrize(
        ("workers", "order"), [(1, "partition"), (4, "key"), (3, "none")]
    )
    def test_each_record_is_handled_once_in_its_order(
        self, kafka_cluster, workers, order
    ):
        """At rest, what is committed is the end of each log."""
        topic = kafka_cluster.create_topic(partitions=3)
        sent = fill(kafka_cluster, topic, 3000, keys=30)
        seen = Seen(self.read)
        with self.open(kafka_cluster, topic) as member:
            report = member.process(seen, workers=workers, order=order, until_end=True)
        assert set(seen.values.values()) == {1}
        assert (report.processed, report.committed) == (3000, 3000)
        assert committed(kafka_cluster, topic, topic, 3) == ends(
            kafka_cluster, topic, 3
        )
        if order != "none":
            assert seen.by_key == sent

    def test_holes_in_the_log_stop_no_commit(self, kafka_cluster, kafka_topic):
        """Aborted records and the markers of transactions are no records."""
        producer = Producer(
            {
                "bootstrap.servers": kafka_cluster.bootstrap_servers,
                "transactional.id": kafka_topic,
            }
        )
        producer.init_transactions(30)
        for n in range(6):
            producer.begin_transaction()
            producer.produce(kafka_topic, b"%d" % n)
            producer.flush()
            (producer.abort_transaction if n % 2 else producer.commit_transaction)(30)
        seen = Seen(self.read)
        with self.open(
            kafka_cluster, kafka_topic, isolation_level="read_committed"
        ) as member:
            member.process(seen, until_end=True)
        assert sorted(seen.values) == [b"0", b"2", b"4"]
        assert committed(kafka_cluster, kafka_topic, kafka_topic, 1) == ends(
            kafka_cluster, kafka_topic, 1
        )

    def test_a_rejected_record_is_in_its_dead_letter_topic(
        self, kafka_cluster, kafka_topic
    ):
        """As it was read: bytes, null apart from empty, headers; and where it was."""
        kafka_cluster.create_topic(f"{kafka_topic}.dlq")
        producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
        records = [(None, b"x"), (b"", b""), (b"k", None)]
        for key, value in records:
            producer.produce(
                kafka_topic, value, key=key, headers=[("h", b"1"), ("n", None)],
                timestamp=1_700_000_000_000,
            )  # fmt: skip
        producer.flush()

        def handle(_):
            raise TypeError("not for me")

        with self.open(kafka_cluster, kafka_topic, policy=LETTERS) as member:
            report = member.process(handle, until_end=True)
        assert (report.dead_lettered, report.committed) == (3, 3)
        assert len(member.told(ev.RecordSetAsideEvent)) == 3
        letters = self.read_raw(kafka_cluster, f"{kafka_topic}.dlq", 3)
        assert records == [(each.key(), each.value()) for each in letters]
        for offset, each in enumerate(letters):
            assert each.timestamp()[1] == 1_700_000_000_000
            assert each.headers()[:2] == [("h", b"1"), ("n", self.null_header)]
            assert letter_facts(each.headers()) == LetterFacts(
                "HANDLER_FAILED",
                kafka_topic,
                0,
                offset,
                1_700_000_000_000,
                kafka_topic,
                exception="builtins.TypeError",
                message="not for me",
            )

    def read_raw(self, cluster, topic, count):
        """Read messages without a guard."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "raw",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        try:
            return consumer.consume(count, 20)
        finally:
            consumer.close()

    def test_a_missing_dead_letter_topic_is_asked_for_at_the_call(
        self, kafka_cluster, kafka_topic
    ):
        """Not when the first record is rejected, perhaps at night."""
        with (
            self.open(kafka_cluster, kafka_topic, policy=LETTERS) as member,
            pytest.raises(
                kafkaguard.errors.ClientConfigurationError, match=f"{kafka_topic}.dlq"
            ),
        ):
            member.process(Seen(self.read), until_end=True)

    def open_decoding(self, cluster, topic, decode, **options):
        """Open a member whose client has a deserialiser for values."""
        raise NotImplementedError

    def test_a_record_that_cannot_be_decoded_is_a_letter_with_its_bytes(
        self, kafka_cluster, kafka_topic
    ):
        """The others are handled, decoded."""
        kafka_cluster.create_topic(f"{kafka_topic}.dlq")
        fill(kafka_cluster, kafka_topic, 9)
        seen, threads = Seen(self.read), set()

        def decode(value):
            threads.add(threading.get_ident())
            if value == b"4":
                raise ValueError("four")
            return int(value)

        with self.open_decoding(
            kafka_cluster, kafka_topic, decode, policy=LETTERS
        ) as member:
            report = member.process(seen, until_end=True)
        assert sorted(seen.values) == [0, 1, 2, 3, 5, 6, 7, 8]
        assert threading.get_ident() not in threads  # it polls
        assert (report.processed, report.dead_lettered) == (8, 1)
        (letter,) = self.read_raw(kafka_cluster, f"{kafka_topic}.dlq", 1)
        assert (letter.key(), letter.value()) == (b"k4", b"4")

    def test_the_handler_learns_of_its_attempts(self, kafka_cluster, kafka_topic):
        """The number of the attempt, and where the record is."""
        fill(kafka_cluster, kafka_topic, 3)
        attempts = []

        def handle(_):
            now = kafkaguard.handling()
            attempts.append((now.offset, now.attempt, now.first_failure is None))
            assert (now.topic, now.partition) == (kafka_topic, 0)
            if now.first_failure is not None:
                assert begin <= now.first_failure <= time.time()
            if now.offset == 1 and now.attempt < 3:
                raise OSError

        begin = time.time()
        with self.open(kafka_cluster, kafka_topic) as member:
            report = member.process(handle, until_end=True)
        assert attempts == [
            (0, 1, True), (1, 1, True), (1, 2, False), (1, 3, False), (2, 1, True),
        ]  # fmt: skip
        assert (report.processed, report.retried) == (3, 2)

    def check_members(self, cluster, *, order="key", **settings):
        """Check that members may come and go while records are handled."""
        topic = cluster.create_topic(partitions=4)
        sent = fill(cluster, topic, 1600, keys=24, partitions=4)
        seen, of_second = Seen(self.read, 0.05), []
        names = [
            {"group_instance_id": f"{topic}-{n}"}
            if settings.pop(f"static{n}", 0)
            else {}
            for n in (1, 2)
        ]

        def second_handler(record):
            of_second.append(1)
            seen(record)

        with self.open(cluster, topic, **settings, **names[0]) as first:
            first.start(seen, workers=4, order=order)
            seen.wait_for(40)
            seen.seconds = 0.3  # so that something is left for the second one
            with self.open(cluster, topic, **settings, **names[1]) as second:
                second.start(second_handler, workers=4, order=order)
                end = time.monotonic() + 60
                while len(of_second) < 40 and time.monotonic() < end:
                    time.sleep(0.05)
                seen.seconds = 0.03
                one = second.end()
            seen.wait_for(1600)
            time.sleep(0.5)
            two = first.end()
        assert one.processed >= 40
        assert (one.late, two.late, one.abandoned, two.abandoned) == (0, 0, 0, 0)
        assert {value: n for value, n in seen.values.items() if n > 1} == {}
        assert committed(cluster, topic, topic, 4) == ends(cluster, topic, 4)
        assert seen.by_key == sent

    def test_members_come_and_go(self, kafka_cluster):
        """Each record is handled once, in the order of its key."""
        self.check_members(kafka_cluster)

    def test_static_members_come_and_go(self, kafka_cluster):
        """As others."""
        self.check_members(kafka_cluster, static1=1, static2=1, session_timeout_ms=6000)

    def pause(self, member, topic, partition):
        """Pause a partition, as the application does it."""
        member.guarded.pause(TopicPartition(topic, partition))

    def resume(self, member, topic, partition):
        """Resume it."""
        member.guarded.resume(TopicPartition(topic, partition))

    def test_the_applications_pauses_stay_its_own(self, kafka_cluster):
        """Also when the run pauses and resumes all partitions, and after rebalances.

        The run's own pauses end with a rebalance.
        """
        topic = kafka_cluster.create_topic(partitions=4)
        policy = {
            "keep_pauses": True,
            "handler": {"max_in_flight": 4, "drain_timeout": 0.2},
        }
        free, seen = threading.Event(), defaultdict(set)
        free.set()

        def handle(record):
            free.wait(40)
            _, partition, offset = self.place(record)
            seen[partition].add(offset)

        def fill_all():
            fill(kafka_cluster, topic, 40, keys=4, partitions=4)

        def wait_for(*counts):
            until(lambda: [len(seen[n]) for n in range(4)] == [*counts], 40)

        with self.open(kafka_cluster, topic, policy=policy) as first:
            first.start(handle, workers=2)
            fill_all()
            wait_for(10, 10, 10, 10)
            self.pause(first, topic, 1)
            free.clear()
            fill_all()
            time.sleep(7)  # after 5 s without room, the run pauses all
            self.pause(first, topic, 2)
            with self.open(kafka_cluster, topic, policy=policy) as second:
                second.start(lambda _: free.wait(40))
                until(lambda: len(second.guarded.assignment()) == 2, 30)
                second.end()
            until(lambda: len(first.guarded.assignment()) == 4, 30)
            free.set()
            until(lambda: len(seen[0]) == len(seen[3]) == 20, 30)
            time.sleep(1)
            assert len(seen[1]) == 10
            assert len(seen[2]) < 20
            self.resume(first, topic, 1)
            self.resume(first, topic, 2)
            wait_for(20, 20, 20, 20)
            assert first.end().abandoned == 0

    def test_a_static_member_that_is_fenced_ends_once(self, kafka_cluster, kafka_topic):
        """With the error; the member that took its place goes on."""
        fill(kafka_cluster, kafka_topic, 400)
        seen, of_second = Seen(self.read, 0.05), Seen(self.read)
        static = {"group_instance_id": kafka_topic, "session_timeout_ms": 6000}
        with self.open(kafka_cluster, kafka_topic, **static) as first:
            first.start(seen)
            seen.wait_for(20)
            with self.open(kafka_cluster, kafka_topic, **static) as second:
                second.start(of_second)
                with pytest.raises(kafkaguard.errors.FencedInstanceIdError):
                    first.join()
                until(lambda: len(seen.values | of_second.values) == 400, 40)
                report = second.end()
        assert report.processed == len(of_second.values)
        assert committed(kafka_cluster, kafka_topic, kafka_topic, 1) == [400]

    def test_a_handler_that_outlasts_a_revocation_is_late(self, kafka_cluster):
        """Its record is not committed, and the next owner handles it again."""
        topic = kafka_cluster.create_topic(partitions=2)
        fill(kafka_cluster, topic, 40, keys=4, partitions=2)
        policy = {"handler": {"drain_timeout": 0.5}}
        free = threading.Event()
        stuck, seen = Seen(self.read), Seen(self.read)

        def hang(record):
            free.wait(30)
            stuck(record)

        with self.open(kafka_cluster, topic, policy=policy) as first:
            first.start(hang, workers=2)
            time.sleep(5)
            with self.open(kafka_cluster, topic, policy=policy) as second:
                second.start(seen)
                seen.wait_for(20, 40)
                free.set()
                stuck.wait_for(20, 40)
                time.sleep(0.5)
                report = first.end()
                second.end()
        assert report.late >= 1
        assert len(seen.values | stuck.values) == 40
        assert committed(kafka_cluster, topic, topic, 2) == ends(
            kafka_cluster, topic, 2
        )

    def test_a_slow_handler_keeps_its_partitions(self, kafka_cluster, kafka_topic):
        """The client is polled while it runs, for three times the interval."""
        fill(kafka_cluster, kafka_topic, 3)
        seen = Seen(self.read, 18.5)
        with self.open(
            kafka_cluster, kafka_topic, policy={"deadline": 4},
            max_poll_interval_ms=6000, session_timeout_ms=6000,
        ) as member:  # fmt: skip
            member.start(seen, workers=3, order="none")
            seen.wait_for(3)
            time.sleep(1)
            report = member.end()
        assert set(seen.values.values()) == {1}
        assert (report.processed, report.committed, report.late) == (3, 3, 0)

    def test_close_in_another_thread_ends_the_run(self, kafka_cluster, kafka_topic):
        """What runs may end, what is done is committed, nothing hangs."""
        fill(kafka_cluster, kafka_topic, 500)
        seen = Seen(self.read, 0.05)
        with self.open(kafka_cluster, kafka_topic) as member:
            member.start(seen, workers=2, order="key")
            seen.wait_for(20)
            assert member.progress().in_flight > 100
            assert member.progress().last_poll_age < 3
            member.close()
            report = member.join()
        assert (report.processed, report.abandoned) == (len(seen.values), 0)
        assert set(seen.values.values()) == {1}
        # Of keys that run beside each other, one may be ahead of the prefix.
        (done,) = committed(kafka_cluster, kafka_topic, kafka_topic, 1)
        assert 0 < done <= len(seen.values)

    def test_a_run_that_is_idle_ends(self, kafka_cluster, kafka_topic):
        """For jobs that handle what is there."""
        fill(kafka_cluster, kafka_topic, 5)
        with self.open(kafka_cluster, kafka_topic) as member:
            report = member.process(Seen(self.read), idle_timeout=6)
        assert report.committed == 5

    def test_an_interrupt_in_a_handler_ends_the_run(self, kafka_cluster, kafka_topic):
        """What is no Exception is not tried again; what is done is committed."""
        fill(kafka_cluster, kafka_topic, 10)

        def handle(record):
            if self.read(record)[1] == b"7":
                raise Interrupt

        with (
            self.open(kafka_cluster, kafka_topic) as member,
            pytest.raises(Interrupt),
        ):
            member.process(handle)
        assert committed(kafka_cluster, kafka_topic, kafka_topic, 1) == [7]

    def test_a_dependency_that_is_down_stops_reading(self, kafka_cluster, kafka_topic):
        """The member keeps its partitions, and one event tells each change."""
        fill(kafka_cluster, kafka_topic, 30)
        until = time.monotonic() + 8

        def handle(_):
            if time.monotonic() < until:
                raise kafkaguard.Unavailable(after=0.5)

        policy = {"deadline": 4, "handler": {"max_attempts": 1}}
        with self.open(
            kafka_cluster, kafka_topic, policy=policy, max_poll_interval_ms=6000,
            session_timeout_ms=6000,
        ) as member:  # fmt: skip
            report = member.process(handle, until_end=True)
        assert (report.processed, report.retried) == (30, 0)
        states = [each.state for each in member.told(ev.DependencyEvent)]
        assert states == ["down", "back"]

    def test_batches_are_lists(self, kafka_cluster, kafka_topic):
        """A bad record is found by splitting the batch."""
        kafka_cluster.create_topic(f"{kafka_topic}.dlq")
        fill(kafka_cluster, kafka_topic, 100)
        sizes = []

        def handle(records):
            sizes.append(len(records))
            if b"42" in [self.read(each)[1] for each in records]:
                raise ValueError

        policy = LETTERS | {"handler": {"reject_on": "ValueError"}}
        with self.open(kafka_cluster, kafka_topic, policy=policy) as member:
            report = member.process(handle, batch=16, until_end=True)
        assert (report.processed, report.dead_lettered) == (99, 1)
        assert max(sizes) <= 16
        assert 1 in sizes

    def test_letters_are_handled_again_by_their_group(self, kafka_cluster, kafka_topic):
        """As the records that were first read; those of other groups are passed."""
        letters = f"{kafka_topic}.dlq"
        kafka_cluster.create_topic(letters)
        fill(kafka_cluster, kafka_topic, 6)
        broken = {b"1", b"4"}
        seen = Seen(self.read)

        def handle(record):
            _, value = self.read(record)
            if value in broken:
                raise TypeError
            seen(record)

        for group in ("one", "two"):
            with self.open(
                kafka_cluster, kafka_topic, policy=LETTERS, group=group
            ) as member:
                assert member.process(handle, until_end=True).dead_lettered == 2
        broken.remove(b"4")
        with self.open(
            kafka_cluster, kafka_topic, policy=LETTERS, group="one"
        ) as member:
            seen.values.clear()
            report = member.process(handle, letters=letters)
            assert (report.dead_lettered, list(seen.values)) == (1, [b"4"])
            assert report.processed == 1  # the others' letters are not counted
            broken.clear()
            places = []
            report = member.process(
                lambda record: places.append(self.place(record)), letters=letters
            )
        assert places == [(kafka_topic, 0, 1)]
        *_, last = self.read_raw(kafka_cluster, letters, 5)
        facts = letter_facts(last.headers())
        assert (facts.topic, facts.partition, facts.offset) == (kafka_topic, 0, 1)
        assert committed(kafka_cluster, "one.letters", letters, 1) == [5]

    def test_letters_that_do_not_name_their_group_are_refused(
        self, kafka_cluster, kafka_topic
    ):
        """They may be those of another group."""
        policy = LETTERS | {"dead_letter": {"headers": "connect"}}
        refusal = pytest.raises(
            kafkaguard.errors.ClientConfigurationError, match="do not say which group"
        )
        with self.open(kafka_cluster, kafka_topic, policy=policy) as member, refusal:
            member.process(print, letters=f"{kafka_topic}.dlq")

    def test_a_letter_of_nothing_is_nothing_again(
        self, kafka_cluster, kafka_topic, caplog
    ):
        """Not an empty value, which is another record. No run warns of its letters."""
        letters = f"{kafka_topic}.dlq"
        kafka_cluster.create_topic(letters)
        producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers})
        records = [(None, None), (None, b""), (b"", b""), (b"k", None)]
        for key, value in records:
            producer.produce(kafka_topic, value, key=key, headers=[("h", b"1")])
        producer.flush()

        def reject(_):
            raise TypeError

        seen = []
        policy = LETTERS | {"handler": {"max_attempts": 2}}
        with self.open(kafka_cluster, kafka_topic, policy=policy) as member:
            assert member.process(reject, until_end=True).dead_lettered == 4
            assert member.process(reject, letters=letters).dead_lettered == 4
            member.process(
                lambda record: seen.append((self.read(record), self.headers(record))),
                letters=letters,
            )
        assert seen == [(each, [("h", b"1")]) for each in records]
        assert "does not use" not in caplog.text

    def headers(self, record):
        """Return the headers of a record."""
        return list(record.headers)

    def place(self, record):
        """Return topic, partition and offset of a record."""
        return record.topic, record.partition, record.offset
