"""Tiered storage for real: a broker is restarted under load, clients ask meanwhile."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import ExitStack
from itertools import pairwise

import confluent_kafka
import pytest
from kafka import KafkaProducer

from kafkaguard import errors
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard.cluster import AsyncReportCalls, RemoteStorageWatch
from kafkaguard.testing import FaultProxy, KafkaCluster
from kafkaguard_adapters.asking import remote_storage
from kafkaguard_adapters.asking.cluster_view import ClusterView
from tests.asking.cluster_clients import CLIENTS, admin_of, commit, words_of

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("remote-storage")]


TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": 1048576,
    "local.retention.ms": 1000,
}
RECORDS = 300
#: Seconds, on a busy machine; without a bound a call would take 30.
BOUND_S = 15


@pytest.fixture(scope="module")
def tiered():
    """A broker with tiered storage."""
    with KafkaCluster(tiered=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def topics(tiered):
    """A topic whose first segments are remote, and a plain one."""
    remote = tiered.create_topic(config=TIERED)
    plain = tiered.create_topic()
    with KafkaProducer(bootstrap_servers=tiered.bootstrap_servers) as producer:
        for _ in range(RECORDS):
            producer.send(remote, b"x" * 8000)
        producer.send(plain, b"x")
    wait_until(lambda: list(tiered.remote_storage.rglob("*.log")))
    commit(tiered.bootstrap_servers, remote, {(remote, 0): 0, (plain, 0): 0})
    return remote, plain


def wait_until(condition, seconds=60.0):
    """Ask again and again until a condition holds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "not within time"
        threading.Event().wait(0.05)
    return found


class Load:
    """Writes all the time, through every restart."""

    def __init__(self, bootstrap, topic):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(bootstrap, topic))

    def _work(self, bootstrap, topic):
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
        while not self._stop.wait(0.02):
            producer.produce(topic, b"x" * 100)
            producer.poll(0)
        producer.flush(10)

    def __enter__(self):
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_):
        """Stop."""
        self._stop.set()
        self._thread.join()


@pytest.mark.timeout(400)
def test_restart_under_load_keeps_only_the_partition_concerned_waiting(tiered, topics):
    """The broker itself answers 9 or -1; the plain topic has its offset meanwhile."""
    remote, plain = topics
    times = {(remote, 0): 0, (plain, 0): 0}
    seen = {client: [] for client in CLIENTS}
    with ExitStack() as stack:
        admins = {
            client: stack.enter_context(
                admin_of(client, tiered.client_config(client=client))
            )
            for client in CLIENTS
        }
        stack.enter_context(Load(tiered.bootstrap_servers, plain))
        for admin in admins.values():
            # Looks the topics' settings up, as an application that runs has them.
            assert admin.max_timestamp_offsets([(remote, 0)]).complete
        for _ in range(6):
            restart_and_ask(tiered, admins, times, seen)
            if all(seen.values()):
                break
        for admin in admins.values():
            assert admin.offsets_for_times(times).offsets == dict.fromkeys(times, 0)
    # The broker is not ready for some tenths of a second; not every client asks in them.
    assert any(seen.values()), "six restarts, and remote storage was ready each time"
    for report in (each for reports in seen.values() for each in reports):
        (error,) = report.errors
        assert error.code in (9, -1)
        assert (error.topic, error.partition) == (remote, 0)
        assert error.verdict.action == "RETRY"
        assert report.offsets == {(plain, 0): 0}


def restart_and_ask(tiered, admins, times, seen):
    """Restart the broker; keep what each client is told until all have all offsets."""
    broker = tiered.broker(0)
    broker.stop()
    starter = threading.Thread(target=broker.start)
    starter.start()
    waiting = dict(admins)
    deadline = time.monotonic() + 90
    while waiting and time.monotonic() < deadline:
        for client, admin in list(waiting.items()):
            try:
                report = admin.offsets_for_times(times, timeout=0.2)
            except errors.RetriableError:
                continue  # it is not back yet
            if report.complete:
                del waiting[client]
            elif {type(e).__mro__[1] for e in report.errors} == {
                errors.RemoteStorageNotReadyError
            }:
                seen[client].append(report)
    starter.join()


@pytest.mark.parametrize("code", [9, -1])
@pytest.mark.parametrize("client", CLIENTS)
def test_each_call_waits_and_asks_for_the_partition_concerned_only(
    tiered, topics, client, code
):
    """Beginning, end, by time, and lag: partial requests, 100 ms apart or more."""
    remote, plain = topics
    both = [(remote, 0), (plain, 0)]
    with FaultProxy(tiered) as proxy:
        words = words_of(client, proxy.bootstrap_servers)
        with admin_of(client, words) as admin:
            for ask in (
                lambda: admin.beginning_offsets(both).complete,
                lambda: admin.end_offsets(both).complete,
                lambda: admin.offsets_for_times(dict.fromkeys(both, 0)).complete,
                lambda: admin.lag(remote).complete,
            ):
                proxy.journal.clear()
                with proxy.on("ListOffsets", topic=remote).fail(code, times=2):
                    assert ask()
                requests = proxy.requests("ListOffsets")
                names = [sorted(t for t, _ in each.partitions) for each in requests]
                assert names[:3] == [sorted(topics), [remote], [remote]]
                assert names[3:] in ([], [sorted(topics)])  # the starts, for a lag
                gaps = [
                    after.at - before.at - before.took
                    for before, after in pairwise(requests[:3])
                ]
                assert all(gap >= 0.1 for gap in gaps)


@pytest.mark.parametrize("code", [9, -1])
def test_partial_answer_at_the_deadline(tiered, topics, code):
    """The other partition has its offset, and nothing waits for longer than asked."""
    remote, plain = topics
    with FaultProxy(tiered) as proxy:
        proxy.on("ListOffsets", topic=remote).fail(code)
        with admin_of("kafka-python", words_of("", proxy.bootstrap_servers)) as admin:
            started = time.monotonic()
            report = admin.end_offsets([(remote, 0), (plain, 0)], timeout=3)
            assert time.monotonic() - started < BOUND_S
    (error,) = report.errors
    assert isinstance(error, errors.RemoteStorageNotReadyError)
    assert (plain, 0) in report.offsets


def test_waiting_for_one_partition_leaves_the_others_time_for_their_lag(tiered, topics):
    """Ends, then starts: the second question does not go without an answer."""
    remote, plain = topics
    with FaultProxy(tiered) as proxy:
        proxy.on("ListOffsets", topic=remote).fail(9)
        # A wait between two tries is shorter; so it takes all that a step may take.
        proxy.on("ListOffsets").delay(1.6)
        with admin_of("kafka-python", words_of("", proxy.bootstrap_servers)) as admin:
            lag = admin.lag(remote, timeout=10).groups[remote]
    waiting, fine = lag.partitions[remote, 0], lag.partitions[plain, 0]
    assert isinstance(waiting.error, errors.RemoteStorageNotReadyError)
    assert (fine.reason, fine.lag is not None) == (None, True)


def test_same_codes_on_a_plain_topic_are_not_taken_for_it(tiered, topics):
    """9 is a stale leader and -1 a failed broker, where nothing is remote."""
    _, plain = topics
    with ExitStack() as stack:
        proxy = stack.enter_context(FaultProxy(tiered))
        words = words_of("kafka-python", proxy.bootstrap_servers)
        admin = stack.enter_context(admin_of("kafka-python", words))
        for code in (9, -1):
            with proxy.on("ListOffsets", topic=plain).fail(code):
                report = admin.end_offsets([(plain, 0)], timeout=3)
            (error,) = report.errors
            assert error.code == code
            assert not isinstance(error, errors.RemoteStorageNotReadyError)


def test_greatest_timestamp_of_a_tiered_topic_is_local_only(tiered, topics):
    """The number carries the caveat; that of a plain topic does not."""
    remote, plain = topics
    with admin_of("kafka-python", tiered.client_config()) as admin:
        found = admin.max_timestamp_offsets([(remote, 0), (plain, 0)]).partitions
    assert found[remote, 0].is_local_only is True
    assert found[plain, 0].is_local_only is False


@pytest.fixture
def watched(tiered):
    """A proxy before the tiered broker, a view through it, and a clock to turn."""
    from kafkaguard._cluster.reports import make
    from kafkaguard_adapters.wire.settings import Settings, read_bootstrap

    with FaultProxy(tiered) as proxy:
        settings = Settings(read_bootstrap(proxy.bootstrap_servers, make))
        yield proxy, ClusterView(lambda: settings, make)


def _client(view):
    """Return a guarded client, of which the watch uses the view only."""
    client = AsyncReportCalls()
    client.cluster_view = view
    return client


async def test_watch_tells_when_a_reader_waits_and_when_it_goes_on(watched, topics):
    """Two looks without progress, a probe of our own, an event; then the other one."""
    proxy, view = watched
    remote, plain = topics
    now, events = [0.0], []
    watch = RemoteStorageWatch(
        _client(view), events.append, patience=5.0, clock=lambda: now[0]
    )
    positions = {(remote, 0): 0, (plain, 0): 0}
    fault = proxy.on("Fetch", topic=remote).fail(9)
    assert await watch.look(positions) == []
    assert proxy.requests("Fetch") == []  # nothing is asked before patience is over
    now[0] = 6.0
    (event,) = await watch.look(positions)
    assert isinstance(event.error, errors.RemoteStorageNotReadyError)
    assert (event.topic, event.position, event.standing) == (remote, 0, 6.0)
    assert not event.is_ready
    now[0] = 7.0
    assert await watch.look(positions) == []  # told once
    assert view.read_errors == {(remote, 0): event.error}
    fault.remove()
    now[0] = 8.0
    (ready,) = await watch.look(positions)
    assert ready.is_ready
    assert view.read_errors == {}
    assert events == [event, ready]
    await view.close()


async def test_readers_at_the_end_or_of_plain_topics_are_left_alone(watched, topics):
    """Standing at the end is no failure, and a plain topic's errors are the client's."""
    proxy, view = watched
    remote, plain = topics
    now = [0.0]
    watch = RemoteStorageWatch(_client(view), patience=1.0, clock=lambda: now[0])
    proxy.on("Fetch").fail(9)
    positions = {(remote, 0): RECORDS, (plain, 0): 0}
    await watch.look(positions)
    now[0] = 2.0
    assert await watch.look(positions) == []
    assert [r.partitions for r in proxy.requests("Fetch")] == []
    await view.close()


async def test_leader_that_is_elected_meanwhile_is_asked_another_time(
    watched, topics, monkeypatch
):
    """The end is known by then, and who led before was nobody."""
    proxy, view = watched
    remote, _ = topics
    known = remote_storage.find_leaders

    async def before_the_election(cluster, topics, deadline):
        found = await known(cluster, topics, deadline)
        lost = errors.LeaderNotAvailableError(topic=remote, partition=0)
        found.partitions[TopicPartition(remote, 0)] = lost
        return found

    now = [0.0]
    watch = RemoteStorageWatch(_client(view), patience=1.0, clock=lambda: now[0])
    await watch.look({(remote, 0): 0})
    monkeypatch.setattr(remote_storage, "find_leaders", before_the_election)
    now[0] = 2.0
    assert await watch.look({(remote, 0): 0}) == []
    assert proxy.requests("Fetch") == []
    await view.close()


async def test_failing_hook_and_silent_cluster_do_not_disturb(watched, topics, caplog):
    """Both are logged; the reader's thread never sees them."""
    proxy, view = watched
    remote, _ = topics

    def hook(_):
        raise RuntimeError("a bug of the application")

    now = [0.0]
    watch = RemoteStorageWatch(_client(view), hook, patience=1.0, clock=lambda: now[0])
    await watch.look({(remote, 0): 0})
    proxy.on("Fetch", topic=remote).fail(-1)
    now[0] = 2.0
    with caplog.at_level(logging.WARNING, "kafkaguard.remote_storage"):
        assert len(await watch.look({(remote, 0): 0})) == 1
        proxy.on("Metadata").fail(29, at="topic")
        proxy.stop()
        await view.close()
        now[0] = 4.0
        async with asyncio.timeout(30):
            assert await watch.look({(remote, 0): 0}) == []
    assert "the hook" in caplog.text
    assert "REMOTE_STORAGE_NOT_READY" in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
def test_lag_says_that_a_reader_cannot_go_on(tiered, topics, client):
    """With the column time the Fetch is made, and its refusal is in the report."""
    remote, plain = topics
    with FaultProxy(tiered) as proxy:
        proxy.on("Fetch", topic=remote).fail(9)
        with admin_of(client, words_of(client, proxy.bootstrap_servers)) as admin:
            group = admin.lag(remote, columns=["time", "log_start"]).groups[remote]
    waiting, fine = group.partitions[remote, 0], group.partitions[plain, 0]
    assert isinstance(waiting.read_error, errors.RemoteStorageNotReadyError)
    assert waiting.lag >= RECORDS
    assert waiting.log_start == 0
    assert fine.read_error is None
    assert fine.next_timestamp is not None
