"""The contract of guarded consumers, which the tests of each client inherit.

A subclass implements how its client is built and called; the tests are the same for all
clients. If a client makes something impossible, its subclass has a flag with the
reason.
"""

from __future__ import annotations

import json
import os
import pickle
import threading
import time
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from kafkaguard import Action, errors
from kafkaguard._consuming import events as ev
from kafkaguard.testing import FaultProxy
from kafkaguard_adapters import stand_in

if TYPE_CHECKING:
    from collections.abc import Mapping

PARTITIONS = pytest.mark.kafka_topic(partitions=3)
#: Seconds that a writer has to deliver everything, after a broker was restarted.
FLUSH_S = 120.0


class Reader:
    """A guarded consumer with the same blocking methods for all clients."""

    #: Seconds that a poll waits for records.
    slice_s = 0.2
    #: The same while it joins a group. A poll of kafka-python that ends meanwhile can
    #: leave it without heartbeats for good.
    join_s = 2.0
    #: The assignment after the last poll by ``both``.
    owned = ()

    def __init__(self, guarded, events):
        self.guarded = guarded
        self.events = events
        self.read = []

    def poll(self, seconds):
        """Poll once; return the records, as (partition, offset, value)."""
        raise NotImplementedError

    def poll_in_child(self):
        """Poll in a forked child."""
        self.poll(5)

    def read_in_child(self, place, count):
        """Assign and read in a forked child, which has its own client."""
        self.assign([place])
        self.read = []
        self.read_until(lambda: len(self.read) >= count)
        self.close()
        return [value.decode() for _, _, value in self.read]

    def call(self, name, *args):
        """Call a method, and wait for what it returns."""
        return getattr(self.guarded, name)(*args)

    def assign(self, places):
        """Assign partitions."""
        raise NotImplementedError

    def start_at(self, topic, partition, offset):
        """Assign one partition, and start at an offset."""
        self.assign([(topic, partition)])
        self.seek(topic, partition, offset)

    def subscribe(self, topic):
        """Subscribe to a topic, as a member of the group."""
        raise NotImplementedError

    def assigned(self):
        """List the partitions that are assigned."""
        return sorted(each.partition for each in self.guarded.assignment())

    def commit(self, offsets, timeout, **more):
        """Commit offsets by (topic, partition), and wait."""
        raise NotImplementedError

    def commit_async(self, offsets):
        """Commit offsets, and do not wait."""
        raise NotImplementedError

    def committed(self, topic, partition):
        """Return the committed offset, or None."""
        raise NotImplementedError

    def seek(self, topic, partition, offset):
        """Set the position."""
        raise NotImplementedError

    def pause(self, topic, partition):
        """Pause a partition as the user does."""
        raise NotImplementedError

    def resume(self, topic, partition):
        """Resume a partition as the user does."""
        raise NotImplementedError

    def lag(self, *args, **kwargs):
        """Return the lag."""
        return self.guarded.lag(*args, **kwargs)

    def close(self):
        """Close the consumer."""
        self.guarded.close()

    def read_until(self, done, timeout=20.0):
        """Poll until a condition holds; fail after `timeout` seconds."""
        end = time.monotonic() + timeout
        while not done():
            assert time.monotonic() < end, self.progress()
            self.read += self.poll(self.slice_s)

    def progress(self):
        """Say how far each partition was read, and what the reader was told."""
        last = {number: offset for number, offset, _ in self.read}
        return f"read {len(self.read)}, up to {last}; told {self.events[-5:]}"

    def values(self, partition):
        """List the values that were read from a partition, in order."""
        return [value for number, _, value in self.read if number == partition]

    def told(self, kind):
        """List the events of a kind."""
        return [each for each in self.events if isinstance(each, kind)]


class ConsumerContract:
    """A guarded consumer."""

    client_class: type
    client_name: str
    client_error: type[BaseException]
    #: The methods that a closed client answers from memory.
    answers_closed: frozenset[str]
    #: What the client raises for a commit of a partition that is not assigned, if it
    #: notices.
    not_owned_error: type[BaseException]
    #: The setting with which a group without a commit begins at the end.
    latest: Mapping[str, str] = MappingProxyType({"auto_offset_reset": "latest"})
    #: Whether the client itself commits for partitions that are not assigned.
    commits_unassigned = True
    #: The client reports the result of each read, so the guard sees all codes.
    sees_answers = True
    #: What polling raises without the guard if a deserializer raises an `OwnError`.
    undecoded_error: type[BaseException]

    def open(self, servers, *, assign=None, **options):
        """Return a context manager of a `Reader`; `assign` is a list of partitions.

        Without `assign` it has no partitions yet. It reads from the earliest offset,
        and commits nothing by itself unless `auto_commit` is given (seconds). `factory`
        says whether the guard builds the client. `kind` is the class, `on_event` a
        hook.
        """
        raise NotImplementedError

    # --- standing in ------------------------------------------------------------------

    def test_every_name_of_the_client_is_there(self, kafka_cluster):
        """`isinstance` is true, and no attribute of the client is missing."""
        with self.open(kafka_cluster.bootstrap_servers) as reader:
            assert isinstance(reader.guarded, self.client_class)
            names = [n for n in dir(self.client_class) if not n.startswith("__")]
            assert [n for n in names if not hasattr(reader.guarded, n)] == []

    def test_a_consumer_cannot_be_pickled_and_says_so(self, kafka_cluster):
        """Pickling fails, and the error says what to do instead."""
        with (
            self.open(kafka_cluster.bootstrap_servers) as reader,
            pytest.raises(TypeError, match="where it is used"),
        ):
            pickle.dumps(reader.guarded)

    def test_a_subclass_keeps_its_own_attributes(self, kafka_cluster, kafka_topic):
        """Attributes that a user's class adds are there, before and after wrapping."""

        class Own(self.client_class):
            marker = "of the class"

            def twice(self, number):
                return 2 * number

        fill(kafka_cluster, kafka_topic, 1, partitions=[0])
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, assign=[(kafka_topic, 0)], kind=Own) as reader:
            reader.guarded.client.added = "of the instance"
            assert isinstance(reader.guarded, Own)
            assert (reader.guarded.marker, reader.guarded.added) == (
                "of the class",
                "of the instance",
            )
            assert reader.guarded.twice(4) == 8
            reader.read_until(lambda: reader.values(0) == [b"0"])

    def test_a_consumer_is_true(self, kafka_cluster):
        """`bool(consumer)` is True, so `consumer or default()` keeps the consumer."""
        with self.open(kafka_cluster.bootstrap_servers) as reader:
            assert reader.guarded

    @PARTITIONS
    def test_a_hook_that_raises_is_logged_and_breaks_no_read(
        self, kafka_cluster, kafka_topic, kafka_faults, caplog
    ):
        """The partition waits and is read again, as with a hook that does not raise."""

        def broken(event):
            raise ValueError("a hook's own bug")

        fill(kafka_cluster, kafka_topic, 3)
        servers = kafka_faults.bootstrap_servers
        with self.open(servers, assign=three(kafka_topic), on_event=broken) as reader:
            with kafka_faults.on("Fetch", topic=kafka_topic, partition=1).fail(6):
                self.read_for(reader, 3.0)
            reader.read_until(lambda: len(reader.read) == 9)
        assert "a hook's own bug" in caplog.text

    # --- partitions that wait alone ---------------------------------------------------

    @PARTITIONS
    def test_a_partition_that_cannot_be_read_waits_alone(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """Code 9 for 5 s: others are read on, there are few requests, order is kept."""
        self.check_waits_alone(kafka_cluster, kafka_topic, kafka_faults, 6.0)

    def check_waits_alone(self, cluster, topic, proxy, seconds):
        """Read under load while one of three partitions answers 9 for 5 s."""
        with (
            self.open(proxy.bootstrap_servers, assign=three(topic)) as reader,
            writing(cluster, topic) as written,
        ):
            reader.read_until(lambda: all(reader.values(n) for n in range(3)))
            proxy.journal.clear()
            fault = proxy.on("Fetch", topic=topic, partition=1).fail(9)
            self.read_for(reader, 5.0)
            known = {n: len(written[n]) for n in (0, 2)}
            self.read_for(reader, 0.7)
            fault.remove()
            refused = refusals(proxy, topic, 1)
            for number, count in known.items():
                assert count <= len(reader.values(number))
            assert 0 < len(refused) <= 15
            reader.read_until(lambda: reader.told(ev.PartitionResumesEvent), 15)
            written.stop()
            total = sum(map(len, written.values()))
            reader.read_until(lambda: len(reader.read) >= total)
            for number in range(3):
                assert written[number] == reader.values(number)
            (waits,) = reader.told(ev.PartitionWaitsEvent)
            (resumes,) = reader.told(ev.PartitionResumesEvent)
            assert (topic, 1) == (waits.topic, waits.partition)
            assert (topic, 1) == (resumes.topic, resumes.partition)
            assert waits.error.code == 9
            assert waits.error.verdict.retriable
            assert isinstance(waits.error, self.client_error)
            return waits

    def read_for(self, reader, seconds):
        """Poll for some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            reader.read += reader.poll(0.1)

    @PARTITIONS
    def test_a_partition_that_waits_is_in_the_lag(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """`lag()` without a group is about the assignment: by position and commit."""
        fill(kafka_cluster, kafka_topic, 10)
        with self.open(
            kafka_faults.bootstrap_servers, assign=three(kafka_topic), group=kafka_topic
        ) as reader:
            reader.read_until(lambda: len(reader.read) == 30)
            reader.commit({(kafka_topic, 0): 4}, 10)
            with kafka_faults.on("Fetch", topic=kafka_topic, partition=2).fail(6):
                fill(kafka_cluster, kafka_topic, 2, partitions=[2])
                reader.read_until(lambda: reader.told(ev.PartitionWaitsEvent))
                (group,) = reader.lag().groups.values()
            assert {0, 1, 2} == {each.partition for each in group.partitions.values()}
            first, second, third = (group.partitions[kafka_topic, n] for n in range(3))
            assert (
                first.committed,
                first.position,
                first.lag,
                first.position_lag,
            ) == (4, 10, 6, 0)
            assert (
                second.committed,
                second.position,
                second.lag,
                second.position_lag,
            ) == (None, 10, None, 0)
            assert isinstance(third.read_error, errors.NotLeaderOrFollowerError)
            assert third.position_lag == 2
            assert first.read_error is None

    @PARTITIONS
    def test_a_consumer_without_a_group_has_a_lag_by_position(
        self, kafka_cluster, kafka_topic
    ):
        """There is no commit, so the lag is measured by the position."""
        fill(kafka_cluster, kafka_topic, 3)
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, assign=three(kafka_topic)) as reader:
            reader.read_until(lambda: len(reader.read) == 9)
            (group,) = reader.lag().groups.values()
            lags = [each.position_lag for each in group.partitions.values()]
            assert lags == [0, 0, 0]

    @PARTITIONS
    def test_the_users_own_pauses_are_never_touched(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """A partition that the user paused while it waited stays paused."""
        fill(kafka_cluster, kafka_topic, 5)
        with self.open(
            kafka_faults.bootstrap_servers, assign=three(kafka_topic)
        ) as reader:
            with kafka_faults.on("Fetch", topic=kafka_topic, partition=1).fail(6):
                reader.read_until(lambda: reader.told(ev.PartitionWaitsEvent))
                reader.pause(kafka_topic, 1)
            self.read_for(reader, 2.0)
            assert reader.values(1) == []
            reader.resume(kafka_topic, 1)
            reader.read_until(lambda: len(reader.read) == 15)

    def test_a_rebalance_forgets_what_is_revoked_and_holds_what_still_waits(
        self, kafka_cluster, kafka_faults
    ):
        """Two members: each waits only for its own partition, and finally reads it."""
        topic = kafka_cluster.create_topic(partitions=2)
        fill(kafka_cluster, topic, 5, partitions=[0, 1])
        servers = kafka_faults.bootstrap_servers
        fault = kafka_faults.on("Fetch", topic=topic).fail(6)
        with (
            self.open(servers, group=topic) as first,
            self.open(servers, group=topic) as second,
        ):
            first.slice_s, second.slice_s = first.join_s, second.join_s
            first.subscribe(topic)
            first.read_until(lambda: len(first.told(ev.PartitionWaitsEvent)) == 2, 40)
            second.subscribe(topic)
            self.both(
                first,
                second,
                lambda: (
                    len(first.owned) == len(second.owned) == 1
                    and len(waiting(first)) == len(waiting(second)) == 1
                ),
            )
            assert first.owned + second.owned in ([0, 1], [1, 0])
            for reader in (first, second):
                assert reader.owned == waiting(reader)
            kafka_faults.journal.clear()
            end = time.monotonic() + 3
            self.both(first, second, lambda: time.monotonic() > end)
            for partition in (0, 1):
                assert len(refusals(kafka_faults, topic, partition)) <= 15
            fault.remove()
            self.both(first, second, lambda: len(first.read + second.read) >= 10)
            for reader in (first, second):
                (own,) = reader.owned
                assert reader.values(own) == [b"%d" % n for n in range(5)]
                assert waiting(reader) == []
                assert reader.told(ev.PartitionResumesEvent)[-1].partition == own

    def both(self, first, second, done, timeout=60.0):
        """Poll two readers, each in a thread of its own, until a condition holds."""
        over = threading.Event()

        def poll(reader):
            while not over.is_set():
                reader.read += reader.poll(reader.slice_s)
                reader.owned = reader.assigned()

        threads = [threading.Thread(target=poll, args=[r]) for r in (first, second)]
        for each in threads:
            each.start()
        try:
            end = time.monotonic() + timeout
            while not done():
                assert time.monotonic() < end, (first.owned, second.owned)
                time.sleep(0.05)
        finally:
            over.set()
            for each in threads:
                each.join(30)

    def test_a_pause_outlives_a_rebalance_where_the_policy_says_so(self, kafka_cluster):
        """A partition that comes back is still paused, until it is resumed."""
        topic = kafka_cluster.create_topic(partitions=2)
        servers = kafka_cluster.bootstrap_servers
        policy = {"keep_pauses": True}
        with self.open(servers, group=topic, policy=policy) as first:
            first.subscribe(topic)
            first.read_until(lambda: first.assigned() == [0, 1], 40)
            for partition in (0, 1):
                first.pause(topic, partition)
            with self.open(servers, group=topic, policy=policy) as second:
                second.subscribe(topic)
                self.both(first, second, lambda: len(first.owned) == 1)
            first.read_until(lambda: first.assigned() == [0, 1], 60)
            fill(kafka_cluster, topic, 5, partitions=[0, 1])
            self.read_for(first, 2.0)
            assert first.read == []
            first.resume(topic, 0)
            first.read_until(lambda: len(first.read) == 5)
            assert {number for number, _, _ in first.read} == {0}

    def test_a_pause_of_the_users_is_not_taken_for_a_partition_that_waits(
        self, kafka_cluster, kafka_faults
    ):
        """A partition that waited meanwhile is neither resumed nor paused for good."""
        topic = kafka_cluster.create_topic(partitions=2)
        fill(kafka_cluster, topic, 5, partitions=[0, 1])
        places = [(topic, 0), (topic, 1)]
        with self.open(kafka_faults.bootstrap_servers, assign=places) as reader:
            reader.pause(topic, 0)
            with kafka_faults.on("Fetch", topic=topic).fail(6):
                reader.read_until(lambda: reader.told(ev.PartitionWaitsEvent))
                assert waiting(reader) == [1]
            reader.read_until(lambda: len(reader.values(1)) == 5)
            self.read_for(reader, 1.0)
            assert reader.values(0) == []
            reader.resume(topic, 0)
            reader.read_until(lambda: len(reader.values(0)) == 5)

    # --- static members ---------------------------------------------------------------

    def test_a_fenced_static_member_says_so_and_never_takes_its_place_back(
        self, kafka_cluster, kafka_topic
    ):
        """Each consumer ends when the next one joins with its id, twice in a row."""
        fill(kafka_cluster, kafka_topic, 3, partitions=[0])
        servers = kafka_cluster.bootstrap_servers
        with ExitStack() as stack:
            earlier = None
            for _ in range(3):
                reader = stack.enter_context(
                    self.open(servers, group=kafka_topic, **self.static("the-id"))
                )
                reader.slice_s = reader.join_s
                reader.subscribe(kafka_topic)
                reader.read_until(lambda reader=reader: len(reader.read) == 3)
                if earlier is not None:
                    self.check_fenced(earlier, kafka_topic)
                earlier = reader
            fill(kafka_cluster, kafka_topic, 1, partitions=[0])
            reader.read_until(lambda: len(reader.read) == 4)
            assert reader.told(ev.ReadFailedEvent) == []

    def check_fenced(self, reader, topic):
        """Poll until the error; it is raised again, told once, and commits have it."""
        with pytest.raises(errors.FencedInstanceIdError) as caught:
            reader.read_until(lambda: False)
        calls = [lambda: reader.poll(0.1)] * 2
        calls.append(lambda: reader.commit({(topic, 0): 1}, 5))
        for call in calls:
            with pytest.raises(errors.FencedInstanceIdError):
                call()
        assert isinstance(caught.value, self.client_error)
        assert caught.value.verdict.action is Action.FENCED
        assert "'the-id'" in str(caught.value)
        (event,) = reader.told(ev.ReadFailedEvent)
        assert (event.error.code, event.raised) == (82, True)

    def static(self, instance):
        """Return the settings of a static member with frequent heartbeats."""
        return {"group_instance_id": instance, "heartbeat_interval_ms": 300}

    # --- records that cannot be decoded -----------------------------------------------

    def open_decoding(self, servers, decode, **options):
        """Open a reader whose values are decoded by a function."""
        return self.open(servers, value_deserializer=decode, **options)

    def test_records_that_cannot_be_decoded_are_raised_once_and_passed(
        self, kafka_cluster
    ):
        """Two in a row, the last one, and records of other partitions between them."""
        topic = kafka_cluster.create_topic(partitions=2)
        write(kafka_cluster, topic, b"0 bad1 bad2 3 bad4", key=b"k")
        fill(kafka_cluster, topic, 3, partitions=[1])
        servers, places = kafka_cluster.bootstrap_servers, [(topic, 0), (topic, 1)]
        with self.open_decoding(servers, decode, assign=places) as reader:
            raised = read_all(reader, 8)
            (group,) = reader.lag().groups.values()
            assert [each.position_lag for each in group.partitions.values()] == [0, 0]
        assert reader.values(0) == [b"0", b"3"]
        assert reader.values(1) == [b"0", b"1", b"2"]
        assert [(each.offset, each.value) for each in raised] == [
            (1, b"bad1"),
            (2, b"bad2"),
            (4, b"bad4"),
        ]
        for error in raised:
            assert isinstance(error, errors.SerializationFailedError)
            assert isinstance(error, self.undecoded_error)
            assert (error.topic, error.partition, error.key) == (topic, 0, b"k")
            assert error.headers in ([("h", b"1")], (("h", b"1"),))
            assert "bad" not in str(error)
            assert f"offset {error.offset}" in str(error)
            assert error.verdict.action is Action.REJECT
            assert pickle.loads(pickle.dumps(error)).value == error.value

    @pytest.mark.parametrize("raises", [0, 1], ids=["before", "after"])
    def test_no_commit_skips_a_record_that_was_not_handed_out(
        self, kafka_cluster, kafka_topic, raises
    ):
        """The next owner of the partition begins with what the first has not had."""
        write(kafka_cluster, kafka_topic, b"0 bad1 2 bad3")
        servers, where = kafka_cluster.bootstrap_servers, [(kafka_topic, 0)]
        group = {"group": kafka_topic, "auto_commit": 0.05}
        with self.open_decoding(servers, decode, assign=where, **group) as first:
            assert raises == len(read_all(first, 1 + raises))
        with self.open_decoding(servers, decode, assign=where, **group) as second:
            found = [each.offset for each in read_all(second, 3 - raises)]
        assert first.values(0) == [b"0"]
        assert second.values(0) == [b"2"]
        assert ([1, 3] if raises == 0 else [3]) == found

    def test_a_seek_behind_a_record_that_cannot_be_decoded_succeeds(
        self, kafka_cluster, kafka_topic
    ):
        """Also in the middle of its batch; and a seek to it raises again."""
        write(kafka_cluster, kafka_topic, b"bad0 bad1 2 3")
        servers = kafka_cluster.bootstrap_servers
        with self.open_decoding(servers, decode) as reader:
            reader.start_at(kafka_topic, 0, 2)
            reader.read_until(lambda: reader.values(0) == [b"2", b"3"])
            reader.seek(kafka_topic, 0, 1)
            assert [each.offset for each in read_all(reader, 3)] == [1]
            assert reader.values(0) == [b"2", b"3"] * 2

    def test_a_class_of_error_that_allows_no_subclass_is_only_the_cause(
        self, kafka_cluster, kafka_topic
    ):
        """Such as those of libraries that are not written in Python."""
        write(kafka_cluster, kafka_topic, b"0")
        servers = kafka_cluster.bootstrap_servers

        def refuse(*_):
            raise FinalError

        with self.open_decoding(servers, refuse, assign=[(kafka_topic, 0)]) as reader:
            (error,) = read_all(reader, 1)
        assert isinstance(error, errors.SerializationFailedError)
        assert isinstance(error, self.client_error)

    # --- where reading begins ---------------------------------------------------------

    def test_where_a_new_group_begins_at_the_end_is_committed_at_once(
        self, kafka_cluster, kafka_topic
    ):
        """Else the next owner would begin at a later end, and nobody read what came."""
        fill(kafka_cluster, kafka_topic, 5, partitions=[0])
        servers = kafka_cluster.bootstrap_servers
        group = {"group": kafka_topic, "auto_commit": 600}
        with self.open(servers, **group, **self.latest) as reader:
            reader.subscribe(kafka_topic)
            reader.read_until(lambda: reader.committed(kafka_topic, 0) == 5)
            fill(kafka_cluster, kafka_topic, 3, partitions=[0])
            reader.read_until(lambda: len(reader.read) == 3)
            assert reader.committed(kafka_topic, 0) == 5

    def test_a_new_group_that_commits_nothing_by_itself_is_warned_once(
        self, kafka_cluster, kafka_topic, caplog
    ):
        """It begins at the end, and its first commit may come too late."""
        servers = kafka_cluster.bootstrap_servers
        text = "nobody reads what has arrived by then"
        for _ in range(2):
            with self.open(servers, group=kafka_topic, **self.latest) as reader:
                reader.subscribe(kafka_topic)
                reader.read_until(lambda: reader.assigned() and text in caplog.text)
                for _ in range(3):
                    reader.poll(0.2)
            assert caplog.text.count(text) == 1
            caplog.clear()

    @PARTITIONS
    @pytest.mark.parametrize("code", [14, 15, 16])
    @pytest.mark.parametrize("is_member", [False, True], ids=["assign", "subscribe"])
    def test_a_refused_look_up_of_the_commit_is_repeated(
        self, kafka_cluster, kafka_topic, kafka_faults, code, is_member
    ):
        """A coordinator that is not ready: all records are read within seconds."""
        fill(kafka_cluster, kafka_topic, 3)
        kafka_faults.on("OffsetFetch").fail(code, times=1)
        servers = kafka_faults.bootstrap_servers
        with self.open(servers, group=kafka_topic) as reader:
            if is_member:
                reader.subscribe(kafka_topic)
            else:
                reader.assign(three(kafka_topic))
            reader.read_until(lambda: len(reader.read) == 9, 30)
            for number in range(3):
                assert reader.values(number) == [b"0", b"1", b"2"]
            first, *_ = kafka_faults.requests("OffsetFetch")
            assert [code] == [each.code for each in first.errors]
            self.read_for(reader, 1.0)  # so that all events are told
            waits = reader.told(ev.PartitionWaitsEvent)
            assert {code} >= {each.error.code for each in waits}
            assert len(waits) == len(reader.told(ev.PartitionResumesEvent))
            assert reader.told(ev.ReadFailedEvent) == []

    @PARTITIONS
    def test_a_join_that_outlives_a_poll_is_finished(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """A topic gets a partition, and the new assignment comes after some polls."""
        fill(kafka_cluster, kafka_topic, 3)
        servers = kafka_faults.bootstrap_servers
        with self.open(servers, group=kafka_topic, **{self.refresh: 1000}) as reader:
            reader.subscribe(kafka_topic)
            reader.read_until(lambda: len(reader.read) == 9, 30)
            kafka_faults.on("SyncGroup").delay(1.0)
            add_partition(kafka_cluster, kafka_topic, 4)
            # Without a commit, the others are read again from the start.
            reader.read_until(lambda: reader.values(3) == [b"new"], 30)

    # --- what is raised ---------------------------------------------------------------

    def test_a_denied_topic_is_raised_with_its_place(self, kafka_users):
        """The error has both classes, verdict and partition; polling continues."""
        topic = kafka_users.create_topic()
        kafka_users.grant("bob", "READ", "GROUP", "confluent-consumers")
        config = {"users": kafka_users}
        with (
            self.open(None, assign=[(topic, 0)], **config) as reader,
            pytest.raises(errors.TopicAuthorizationFailedError) as caught,
        ):
            reader.read_until(lambda: False, 15)
        error = caught.value
        assert isinstance(error, self.client_error)
        assert (29, topic, Action.CONFIGURE) == (
            error.code,
            error.topic,
            error.verdict.action,
        )
        assert self.client_name == error.client
        again = pickle.loads(pickle.dumps(error))
        assert (again.code, again.topic, again.verdict) == (29, topic, error.verdict)
        assert isinstance(again, type(error))

    # --- offsets out of range ----------------------------------------------------------

    def test_a_position_within_the_log_is_not_reset(self, kafka_cluster, kafka_faults):
        """After one answer "out of range" an existing offset is read again."""
        topic = kafka_cluster.create_topic()
        fill(kafka_cluster, topic, 10, partitions=[0])
        with self.open(kafka_faults.bootstrap_servers, assign=[(topic, 0)]) as reader:
            reader.read_until(lambda: len(reader.read) == 10)
            kafka_faults.on("Fetch", topic=topic, partition=0).fail(1, times=1)
            fill(kafka_cluster, topic, 5, partitions=[0])
            reader.read_until(lambda: len(reader.read) == 15)
            assert list(range(15)) == [offset for _, offset, _ in reader.read]
            (event,) = reader.told(ev.OffsetResetEvent)
            assert (event.outcome, event.earliest, event.lost) == ("kept", 0, 0)
            assert event.earliest <= event.position <= event.latest

    @PARTITIONS
    def test_under_load_no_record_is_skipped_or_read_twice(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """Records that the client has prefetched are not lost."""
        with (
            self.open(
                kafka_faults.bootstrap_servers, assign=three(kafka_topic)
            ) as reader,
            writing(kafka_cluster, kafka_topic, 0.002) as written,
        ):
            reader.read_until(lambda: len(reader.values(1)) > 50)
            for _ in range(3):
                time.sleep(0.2)  # so that the client can prefetch records
                kafka_faults.on("Fetch", topic=kafka_topic, partition=1).fail(
                    1, times=1
                )
                self.read_for(reader, 1.0)
            written.stop()
            end = time.monotonic() + 30
            total = sum(map(len, written.values()))
            while len(reader.read) < total and time.monotonic() < end:
                self.read_for(reader, 0.5)
            for partition in range(3):
                assert written[partition] == reader.values(partition)
            outcomes = {each.outcome for each in reader.told(ev.OffsetResetEvent)}
            assert outcomes <= {"kept"}  # clients ignore stale answers

    def test_a_lost_position_is_reset_by_the_client_and_told_with_the_loss(
        self, kafka_cluster, kafka_topic, caplog
    ):
        """Retention removed offsets that were not read: an event, and one WARNING."""
        with self.behind(kafka_cluster, kafka_topic) as reader:
            reader.read_until(lambda: len(reader.read) == 4)
            assert [offset for _, offset, _ in reader.read] == [6, 7, 8, 9]
            (event,) = reader.told(ev.OffsetResetEvent)
            assert (
                event.outcome,
                event.position,
                event.earliest,
                event.latest,
                event.lost,
                event.skipped,
            ) == ("reset", 2, 6, 10, 4, 0)
            lines = [r for r in caplog.records if r.name == "kafkaguard.consumer"]
            warned = [r.getMessage() for r in lines if "out of range" in r.getMessage()]
            assert warned == [event.sentence]

    def test_a_lost_position_that_is_reset_to_the_end_was_committed(
        self, kafka_cluster, kafka_topic, caplog
    ):
        """What is skipped is told; that the group had no commit would be untrue."""
        fill(kafka_cluster, kafka_topic, 10, partitions=[0])
        servers = kafka_cluster.bootstrap_servers
        group = {"group": kafka_topic, **self.latest}
        with self.open(servers, assign=[(kafka_topic, 0)], **group) as reader:
            reader.commit({(kafka_topic, 0): 2}, 20.0)
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.delete_records({TopicPartition(kafka_topic, 0): 6})
        caplog.clear()
        with self.open(servers, **group) as reader:
            reader.subscribe(kafka_topic)
            reader.read_until(lambda: reader.told(ev.OffsetResetEvent))
            self.read_for(reader, 2.0)  # librdkafka resets a moment later
            fill(kafka_cluster, kafka_topic, 1, partitions=[0])
            reader.read_until(lambda: reader.read)
            (event,) = reader.told(ev.OffsetResetEvent)
            assert (event.lost, event.skipped) == (4, 4)
            assert "no committed offset" not in caplog.text

    def test_a_lost_position_is_raised_where_the_policy_says_so(
        self, kafka_cluster, kafka_topic
    ):
        """No record is skipped; after a `seek` reading continues."""
        policy = {"on_offset_reset": "raise"}
        with self.behind(kafka_cluster, kafka_topic, policy=policy) as reader:
            with pytest.raises(errors.OffsetOutOfRangeError, match="6 to 10") as caught:
                reader.read_until(lambda: reader.read)
            assert isinstance(caught.value, self.client_error)
            assert reader.read == []
            reader.seek(kafka_topic, 0, 8)
            reader.read_until(lambda: len(reader.read) == 2)

    @contextmanager
    def behind(self, cluster, topic, **options):
        """Return a reader at offset 2 of a log from 6 to 10."""
        fill(cluster, topic, 10, partitions=[0])
        servers = cluster.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.delete_records({TopicPartition(topic, 0): 6})
        with self.open(servers, **options) as reader:
            reader.start_at(topic, 0, 2)
            yield reader

    # --- commits ----------------------------------------------------------------------

    def test_a_commit_for_a_deleted_topic_ends_and_commits_the_others(
        self, kafka_cluster, kafka_topic
    ):
        """The existing topic is committed, the deleted one is reported with code 3."""
        gone = kafka_cluster.create_topic()
        fill(kafka_cluster, kafka_topic, 5, partitions=[0])
        places = [(kafka_topic, 0), (gone, 0)]
        servers = kafka_cluster.bootstrap_servers
        with self.open(
            servers, assign=places, group=kafka_topic, policy={"deadline": 3.0}
        ) as reader:
            reader.read_until(lambda: len(reader.read) == 5)
            delete(kafka_cluster, gone)
            started = time.monotonic()
            with pytest.raises(errors.UnknownTopicOrPartitionError) as caught:
                reader.commit({(kafka_topic, 0): 5, (gone, 0): 0}, 3.0)
            assert time.monotonic() - started < 30
            assert (3, gone, 0) == (
                caught.value.code,
                caught.value.topic,
                caught.value.partition,
            )
            assert isinstance(caught.value, self.client_error)
            assert reader.committed(kafka_topic, 0) == 5
            (event,) = reader.told(ev.CommitFailedEvent)
            assert ("sync", {(gone, 0)}) == (event.kind, set(event.errors))

    def test_a_commit_that_is_refused_for_now_is_tried_again_alone(
        self, kafka_cluster, kafka_faults
    ):
        """The second request has only the refused partition, and succeeds."""
        topic = kafka_cluster.create_topic(partitions=2)
        fill(kafka_cluster, topic, 5, partitions=[0, 1])
        with self.open(
            kafka_faults.bootstrap_servers, assign=[(topic, 0), (topic, 1)], group=topic
        ) as reader:
            kafka_faults.on("OffsetCommit", topic=topic, partition=1).fail(14, times=2)
            reader.commit({(topic, 0): 3, (topic, 1): 4}, 10)
            assert (reader.committed(topic, 0), reader.committed(topic, 1)) == (3, 4)
            assert reader.events == [], reader.events
            if self.sees_answers:
                asked = [r.partitions for r in kafka_faults.requests("OffsetCommit")]
                assert list(map(len, asked)) == [2, 1, 1]

    def test_a_commit_without_an_answer_ends_in_time(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """It is RETRY, since a commit may be repeated, and the event says so as well."""
        with self.open(
            kafka_faults.bootstrap_servers,
            assign=[(kafka_topic, 0)],
            group=kafka_topic,
            policy={"deadline": 4},
            **self.impatient,
        ) as reader:
            reader.commit({(kafka_topic, 0): 3}, 20)  # now there is a coordinator
            kafka_faults.on("OffsetCommit").drop()
            started = time.monotonic()
            with pytest.raises(errors.KafkaGuardError) as caught:
                reader.commit({(kafka_topic, 0): 4}, 4)
            assert time.monotonic() - started < 30
            assert isinstance(caught.value, self.client_error)
            assert (Action.RETRY, kafka_topic, 0) == (
                caught.value.verdict.action,
                caught.value.topic,
                caught.value.partition,
            )
            (event,) = reader.told(ev.CommitFailedEvent)
            assert ("sync", {(kafka_topic, 0)}) == (event.kind, set(event.errors))

    @pytest.mark.parametrize("code", [22, 25, 27])
    def test_a_group_that_has_moved_on_is_told_and_not_asked_again(
        self, kafka_cluster, kafka_faults, code
    ):
        """REJOIN: one request, an error of the client's class, and an event."""
        topic = kafka_cluster.create_topic()
        with self.open(
            kafka_faults.bootstrap_servers, assign=[(topic, 0)], group=topic
        ) as reader:
            kafka_faults.on("OffsetCommit").fail(code)
            with pytest.raises(errors.KafkaGuardError) as caught:
                reader.commit({(topic, 0): 3}, 5)
            assert caught.value.verdict.action == Action.REJOIN
            assert isinstance(caught.value, self.rejoin_error)
            assert len(kafka_faults.requests("OffsetCommit")) == 1
            (event,) = reader.told(ev.CommitFailedEvent)
            assert (Action.REJOIN, {(topic, 0)}) == (event.action, set(event.errors))

    def test_a_commit_for_a_partition_that_another_member_owns_is_refused(
        self, kafka_cluster
    ):
        """The broker would move back the owner's offset, and the caller learn nothing."""
        topic = kafka_cluster.create_topic(partitions=2)
        fill(kafka_cluster, topic, 9, partitions=[0, 1])
        servers = kafka_cluster.bootstrap_servers
        with (
            self.open(servers, group=topic) as first,
            self.open(servers, group=topic) as second,
        ):
            for reader in (first, second):
                reader.subscribe(topic)
            self.both(first, second, lambda: len(first.owned) == len(second.owned) == 1)
            ((own,), (other,)) = first.owned, second.owned
            second.commit({(topic, other): 9}, 10)
            for call in (
                lambda: first.commit({(topic, other): 2}, 10),
                lambda: first.commit({(topic, own): 5, (topic, other): 2}, 10),
            ):
                with pytest.raises(errors.ClientStateError) as caught:
                    call()
                assert isinstance(caught.value, self.not_owned_error)
                assert caught.value.verdict.action is Action.REJOIN
                assert (caught.value.topic, caught.value.partition) == (topic, other)
                assert f"does not own {topic}-{other}," in str(caught.value)
            if self.commits_unassigned:
                with pytest.raises(errors.ClientStateError):
                    first.commit_async({(topic, other): 2})
            assert first.committed(topic, other) == 9
            first.commit({(topic, own): 5}, 10)
            assert second.committed(topic, own) == 5
            if self.commits_unassigned:
                first.commit({(topic, other): 2}, 10, allow_unassigned=True)
                assert second.committed(topic, other) == 2

    def test_a_consumer_that_subscribes_to_nothing_commits_for_a_group(
        self, kafka_cluster
    ):
        """It takes no part in the group; aiokafka alone commits for no others."""
        topic = kafka_cluster.create_topic(partitions=2)
        with self.open(kafka_cluster.bootstrap_servers, group=topic) as reader:
            if not self.commits_unassigned:
                reader.assign([(topic, 0)])
                with pytest.raises(self.not_owned_error):
                    reader.commit({(topic, 1): 2}, 10)
                return
            reader.commit({(topic, 1): 2}, 10)
            assert reader.committed(topic, 1) == 2
            reader.assign([(topic, 0)])
            reader.commit({(topic, 1): 3}, 10)
            assert reader.committed(topic, 1) == 3

    def test_a_commit_that_nobody_waits_for_is_an_event_when_it_fails(
        self, kafka_cluster, kafka_faults
    ):
        """The failure is not only in a debug log, and the next poll works as usual."""
        topic = kafka_cluster.create_topic()
        fill(kafka_cluster, topic, 5, partitions=[0])
        kafka_faults.on("OffsetCommit").fail(22, times=1)
        with self.open(
            kafka_faults.bootstrap_servers, assign=[(topic, 0)], group=topic
        ) as reader:
            reader.read_until(lambda: len(reader.read) == 5)
            reader.commit_async({(topic, 0): 3})
            reader.read_until(lambda: reader.told(ev.CommitFailedEvent))
            (event,) = reader.told(ev.CommitFailedEvent)
            assert {(topic, 0)} == set(event.errors)
            assert event.action == Action.REJOIN
            assert event.error.code == 22

    def test_an_automatic_commit_that_fails_is_an_event(
        self, kafka_cluster, kafka_faults
    ):
        """The failure hides no records, and is not only in a debug log."""
        topic = kafka_cluster.create_topic()
        fill(kafka_cluster, topic, 5, partitions=[0])
        kafka_faults.on("OffsetCommit").fail(29)
        with self.open(
            kafka_faults.bootstrap_servers,
            assign=[(topic, 0)],
            group=topic,
            auto_commit=0.2,
        ) as reader:
            reader.read_until(lambda: len(reader.read) == 5)
            self.read_until_raised(reader, lambda: reader.told(ev.CommitFailedEvent))
            event = reader.told(ev.CommitFailedEvent)[0]
            assert (event.kind, event.action) == ("auto", Action.CONFIGURE)
            assert {(topic, 0)} == set(event.errors)

    def read_until_raised(self, reader, done):
        """Poll until a condition holds; the client's own errors are allowed."""
        try:
            reader.read_until(done)
        except errors.KafkaGuardError:
            assert done()

    # --- the end ----------------------------------------------------------------------

    def test_a_closed_consumer_says_so_at_once(self, kafka_cluster, kafka_topic):
        """No call hangs, and each error has both classes."""
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, assign=[(kafka_topic, 0)]) as reader:
            reader.close()
            started = time.monotonic()
            with pytest.raises(errors.KafkaGuardError) as caught:
                reader.poll(60)
            assert time.monotonic() - started < 30
            assert isinstance(caught.value, errors.ClientClosedError)
            assert isinstance(caught.value, self.closed_error)

    def test_every_call_of_a_closed_consumer_says_so(self, kafka_cluster, kafka_topic):
        """Only what the client still knows is answered; nothing is done in silence."""
        servers = kafka_cluster.bootstrap_servers
        with self.open(servers, assign=[(kafka_topic, 0)], group=kafka_topic) as reader:
            reader.close()
            names = {
                name
                for name in dir(self.client_class)
                if name[0] != "_" and callable(getattr(self.client_class, name))
            }
            names -= {"close", "stop"}
            answered = {name for name in names if not self.is_closed_for(reader, name)}
            assert self.answers_closed == answered

    def is_closed_for(self, reader, name):
        """Return whether a call fails because the client is closed."""
        for arguments in ((), (None,), (None, None)):
            try:
                reader.call(name, *arguments)
            except errors.ClientClosedError as error:
                assert isinstance(error, self.closed_error)
                return True
            except Exception:  # the client looks at its arguments
                continue
        return False

    def test_slow_answers_are_awaited(self, kafka_cluster, kafka_topic, kafka_faults):
        """A join, look-ups, a commit and a close that take a second each succeed."""
        fill(kafka_cluster, kafka_topic, 5, partitions=[0])
        for api in ("JoinGroup", "OffsetFetch", "LeaveGroup"):
            kafka_faults.on(api).delay(1.1, times=1)
        kafka_faults.on("OffsetCommit").delay(1.1)
        servers = kafka_faults.bootstrap_servers
        with self.open(servers, group=kafka_topic, auto_commit=60) as reader:
            reader.slice_s = reader.join_s
            reader.subscribe(kafka_topic)
            reader.read_until(lambda: len(reader.read) == 5, 60)
            reader.commit({(kafka_topic, 0): 2}, 20)
            assert len(kafka_faults.requests("OffsetCommit")) == 1
            reader.close()
            assert reader.events == []
        for api, count in (("OffsetCommit", 2), ("LeaveGroup", 1)):
            assert len(kafka_faults.requests(api)) == count
        kafka_faults.clear()
        with self.open(servers, group=kafka_topic) as reader:
            assert reader.committed(kafka_topic, 0) == 5

    def test_closing_ends_in_time_where_the_broker_is_away(
        self, kafka_cluster, kafka_topic, monkeypatch
    ):
        """The time limit holds, whatever the client waits for."""
        monkeypatch.setattr(stand_in, "CLOSE_S", 5.0)
        with (
            FaultProxy(kafka_cluster) as proxy,
            self.open(
                proxy.bootstrap_servers,
                assign=[(kafka_topic, 0)],
                group=kafka_topic,
                auto_commit=60,
            ) as reader,
        ):
            fill(kafka_cluster, kafka_topic, 3, partitions=[0])
            reader.read_until(lambda: len(reader.read) == 3)
            proxy.stop()
            started = time.monotonic()
            try:
                reader.close()
            except errors.KafkaGuardError as error:
                assert isinstance(error, self.client_error)
            assert time.monotonic() - started < 30

    def test_a_forked_child_is_told_to_build_its_own(self, kafka_cluster, kafka_topic):
        """In the child each call fails at once; the parent continues."""
        fill(kafka_cluster, kafka_topic, 3, partitions=[0])
        servers = kafka_cluster.bootstrap_servers
        place = (kafka_topic, 0)
        with self.open(servers, assign=[place], factory=False) as reader:
            reader.read_until(lambda: len(reader.read) == 3)
            said = in_child(reader.poll_in_child)
            assert "ClientStateError" in said["kind"]
            assert "fork" in said["text"]
            assert "-> RECREATE: " in said["text"]
            assert said["took"] < 20
            fill(kafka_cluster, kafka_topic, 3, partitions=[0])
            reader.read_until(lambda: len(reader.read) == 6)

    def test_a_forked_child_builds_its_own_where_a_factory_was_given(
        self, kafka_cluster, kafka_topic
    ):
        """The first call in the child builds its client; the parent continues."""
        fill(kafka_cluster, kafka_topic, 3, partitions=[0])
        servers = kafka_cluster.bootstrap_servers
        place = (kafka_topic, 0)
        with self.open(servers, assign=[place], factory=True) as reader:
            reader.read_until(lambda: len(reader.read) == 3)
            said = in_child(lambda: reader.read_in_child(place, 3))
            assert said.get("answer") == ["0", "1", "2"], said
            fill(kafka_cluster, kafka_topic, 3, partitions=[0])
            reader.read_until(lambda: len(reader.read) == 6)


class AnswersContract(ConsumerContract):
    """A guarded consumer of a client that reports the result of each read."""

    def test_a_corrupt_batch_is_raised_and_read_once_it_is_whole(
        self, kafka_cluster, kafka_topic, kafka_faults
    ):
        """Twice in a row; the record before it comes first, and no poll hangs."""
        write(kafka_cluster, kafka_topic, b"0")
        servers = kafka_faults.bootstrap_servers
        with self.open(servers, assign=[(kafka_topic, 0)]) as reader:
            reader.read_until(lambda: reader.values(0) == [b"0"])
            with kafka_faults.on("Fetch", topic=kafka_topic).edit(spoil_records):
                write(kafka_cluster, kafka_topic, b"1 2")
                raised = read_all(reader, 2)
            assert reader.values(0) == [b"0"]
            while len(reader.read) < 3:
                raised += read_all(reader, 1)
            assert reader.values(0) == [b"0", b"1", b"2"]
        for error in raised:
            assert isinstance(error, errors.CorruptMessageError)
            assert isinstance(error, self.client_error)

    def test_a_partition_without_a_start_waits_alone(self, kafka_cluster, kafka_faults):
        """The start cannot be looked up: few requests, and the others are read on."""
        topic = kafka_cluster.create_topic(partitions=3)
        fill(kafka_cluster, topic, 5)
        fault = kafka_faults.on("ListOffsets", topic=topic, partition=1).fail(9)
        with self.open(kafka_faults.bootstrap_servers, assign=three(topic)) as reader:
            reader.read_until(lambda: len(reader.read) == 10)
            assert reader.values(1) == []
            reader.read_until(lambda: reader.told(ev.PartitionWaitsEvent))
            assert waiting(reader) == [1]
            kafka_faults.journal.clear()
            self.read_for(reader, 4.0)
            asked = [
                each
                for each in kafka_faults.requests("ListOffsets")
                if any(e.partition == 1 for e in each.errors)
            ]
            assert 0 < len(asked) <= 15
            fault.remove()
            reader.read_until(lambda: len(reader.read) == 15)
            (waits,) = reader.told(ev.PartitionWaitsEvent)
            assert (waits.partition, waits.error.code) == (1, 9)
            assert waits.error.api == "ListOffsets"
            reader.read_until(lambda: reader.told(ev.PartitionResumesEvent))

    def test_a_failed_broker_is_asked_again_with_growing_gaps(
        self, kafka_cluster, kafka_faults
    ):
        """Fetch is retried after code -1, and then returns records."""
        topic = kafka_cluster.create_topic()
        with self.open(
            kafka_faults.bootstrap_servers,
            assign=[(topic, 0)],
            policy={"backoff": {"base": 0.3, "jitter": "none"}},
        ) as reader:
            fill(kafka_cluster, topic, 3, partitions=[0])
            kafka_faults.on("Fetch", topic=topic, partition=0).fail(-1, times=3)
            reader.read_until(lambda: len(reader.read) == 3)
            times = [each.at for each in refusals(kafka_faults, topic, 0)]
            first, second = (after - at for at, after in pairwise(times))
            assert 0.3 <= first < second

    def test_a_failed_broker_that_stays_so_is_raised_in_the_end(
        self, kafka_cluster, kafka_faults
    ):
        """After the policy's attempts, poll raises the error with its partition."""
        topic = kafka_cluster.create_topic()
        kafka_faults.on("Fetch", topic=topic).fail(-1)
        with self.open(
            kafka_faults.bootstrap_servers,
            assign=[(topic, 0)],
            policy={"max_attempts": 3},
        ) as reader:
            with pytest.raises(errors.UnknownServerError) as caught:
                reader.read_until(lambda: False, 15)
            assert (topic, 0) == (caught.value.topic, caught.value.partition)
            assert isinstance(caught.value, self.client_error)
            assert len(refusals(kafka_faults, topic, 0)) == 3

    @PARTITIONS
    def test_a_broker_that_is_away_is_told_once(self, kafka_cluster, kafka_topic):
        """Its partitions wait, and all records are read when it is back."""
        fill(kafka_cluster, kafka_topic, 3)
        with (
            FaultProxy(kafka_cluster) as proxy,
            self.open(proxy.bootstrap_servers, assign=three(kafka_topic)) as reader,
        ):
            reader.read_until(lambda: len(reader.read) == 9)
            with proxy.without(proxy_broker(proxy)):
                self.read_for(reader, 2.0)
            fill(kafka_cluster, kafka_topic, 3)
            reader.read_until(lambda: len(reader.read) == 18)
            waits = reader.told(ev.PartitionWaitsEvent)
            assert len(waits) == len({each.partition for each in waits})


def proxy_broker(proxy):
    """Return the id of the only broker behind a proxy."""
    (broker,) = proxy.brokers
    return broker


def three(topic):
    """List three partitions of a topic."""
    return [(topic, n) for n in range(3)]


def waiting(reader):
    """List the partitions that cannot be read."""
    places = reader.guarded.cluster_view.read_errors
    return sorted(place.partition for place in places)


class OwnError(ValueError):
    """What an application's deserializer raises."""


class _NoSubclass(type):
    def __new__(cls, name, bases, namespace):
        if any(isinstance(each, _NoSubclass) for each in bases):
            raise TypeError("this class is final")
        return super().__new__(cls, name, bases, namespace)


class FinalError(Exception, metaclass=_NoSubclass):
    """An error whose class cannot be a parent."""


def decode(value, *_):
    """Refuse bad values, with a text that contains them."""
    if value.startswith(b"bad"):
        raise OwnError(f"cannot decode {value!r}")
    return value


def read_all(reader, count):
    """Poll until so many records were read or raised; return the errors."""
    raised, end, start = [], time.monotonic() + 20, len(reader.read)
    while len(raised) + len(reader.read) - start < count:
        assert time.monotonic() < end, (raised, reader.read)
        try:
            reader.read += reader.poll(reader.slice_s)
        except errors.KafkaGuardError as error:
            raised.append(error)
    return raised


def write(cluster, topic, values, **given):
    """Write values into the first partition, as one batch."""
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, linger_ms=200
    ) as producer:
        for value in values.split():
            headers = [("h", b"1")]
            producer.send(topic, value, partition=0, headers=headers, **given)
        producer.flush(30)


def spoil_records(answer):
    """Change the last byte of all records in the answer to a Fetch."""
    for topic in answer.responses:
        for partition in topic.partitions:
            if partition.records:
                whole = bytes(partition.records)
                partition.records = whole[:-1] + bytes([whole[-1] ^ 1])


def refusals(proxy, topic, partition):
    """List the reads of a partition that were refused."""
    return [
        each
        for each in proxy.requests("Fetch")
        if any((e.topic, e.partition) == (topic, partition) for e in each.errors)
    ]


def fill(cluster, topic, count, partitions=range(3)):
    """Write some records into each partition."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(count):
            for partition in partitions:
                producer.send(topic, b"%d" % n, partition=partition)
        producer.flush(30)


def add_partition(cluster, topic, count):
    """Give a topic one more partition, with a record in it."""
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_partitions({topic: count})
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(topic, b"new", partition=count - 1).get(30)


def delete(cluster, topic):
    """Delete a topic, and wait until it is gone."""
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_topics([topic])
        end = time.monotonic() + 20
        while topic in admin.list_topics():
            assert time.monotonic() < end


class Written(dict):
    """The written values by partition, to which a thread adds."""

    def __init__(self):
        super().__init__({n: [] for n in range(3)})
        self.done = threading.Event()
        self.left = None
        self.failed = []

    def stop(self):
        """Stop writing, and wait until all records are delivered."""
        self.done.set()
        self.thread.join(2 * FLUSH_S)
        assert (self.left, self.failed) == (0, [])


@contextmanager
def writing(cluster, topic, pause=0.005):
    """Write numbered records into three partitions until the block ends."""
    written = Written()

    def told(error, message):
        if error is not None:
            written.failed.append(error)

    def write():
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        number = 0
        while not written.done.wait(pause):
            for partition in range(3):
                value = b"%d" % number
                producer.produce(topic, value, partition=partition, on_delivery=told)
                written[partition].append(value)
            producer.poll(0)
            number += 1
        written.left = producer.flush(FLUSH_S)

    written.thread = threading.Thread(target=write)
    written.thread.start()
    try:
        yield written
    finally:
        written.stop()


def in_child(call):
    """Call a function in a forked child; return what it raised and its duration."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        started, said = time.monotonic(), {"kind": "nothing", "text": ""}
        try:
            said["answer"] = call()
        except BaseException as error:
            kinds = [cls.__name__ for cls in type(error).__mro__]
            said = {"kind": kinds, "text": str(error)}
        said["took"] = time.monotonic() - started
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text)
