"""The drivers of threads and of tasks, with a client that is made up."""

# ruff: noqa: D102 - the protocols of the shells say what their methods do

from __future__ import annotations

import asyncio
import threading
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from kafkaguard import load_policy
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._delivery.facts import Raw
from kafkaguard._errors import ClientStateError
from kafkaguard_adapters.aiokafka.errors import errors as aiokafka_errors
from kafkaguard_adapters.kafka_python.errors import errors as kafka_python_errors
from kafkaguard_adapters.processing.arguments import Arguments
from kafkaguard_adapters.processing.consumer import Processing
from kafkaguard_adapters.processing.task_driver import TaskDriver
from kafkaguard_adapters.processing.thread_driver import ThreadDriver

PLACE = TopicPartition("orders", 0)
REBALANCE, UNKNOWN_MEMBER, TOPIC_DENIED = 27, 25, 29


class Record(NamedTuple):
    """A record."""

    offset: int
    key: Any
    value: bytes


make_error = kafka_python_errors.make


class Shell:
    """A client with one partition; its polls return or raise what a test says.

    Args:
        polls: What each poll returns: numbers of records, or errors to raise.
        refusals: What each commit is refused with.
    """

    group, decode, send_name = "orders-app", None, "send"
    offset_of = staticmethod(attrgetter("offset"))
    key_of = staticmethod(attrgetter("key"))
    errors = kafka_python_errors

    def __init__(self, *polls, refusals=()):
        self.polls, self.refusals = list(polls), list(refusals)
        self.position, self.end = 0, sum(n for n in polls if isinstance(n, int))
        self.commits, self.letters, self.calls = [], [], []
        self.is_closed = threading.Event()

    def listen(self, listener):
        self.listener = listener
        return [PLACE]

    def unlisten(self):
        self.calls.append("unlisten")

    def topics(self):
        return {PLACE.topic}

    def missing_topics(self, _):
        return set()

    def poll(self, *_):
        self.calls.append("poll")
        step = self.polls.pop(0) if self.polls else 0
        if isinstance(step, BaseException):
            raise step
        first, self.position = self.position, self.position + step
        records = [Record(n, None, b"%d" % n) for n in range(first, self.position)]
        return [(PLACE, records)] if records else []

    def positions(self, _):
        return {PLACE: self.position}

    def ends(self, _):
        return {PLACE: self.end}

    def group_metadata(self):
        self.calls.append("metadata")
        return "metadata"

    def client_offsets(self, offsets):
        return offsets

    def check_once(self, _):
        return 10.0

    def commit(self, offsets, report):
        report(self._commit(offsets))

    def _commit(self, offsets):
        self.commits.append(offsets[PLACE])
        refusal = self.refusals.pop(0) if self.refusals else None
        return {} if refusal is None else {PLACE: refusal}

    def raw(self, record):
        return Raw(record.key, record.value, [], None)

    def send_raw(self, send, topic, raw):
        return send(topic, raw.value)

    def send_letters(self, letters, _):
        self.letters += [raw.value for _, raw in letters]
        return [None] * len(letters)

    def close_letters(self):
        self.is_closed.set()

    def revocation_limit(self):
        return 10.0

    def pause(self, _):
        self.calls.append("pause")

    resume = pause

    def seek(self, _, offset):
        self.calls.append(f"seek {offset}")


class AwaitedShell(Shell):
    """The same with coroutines."""

    errors = aiokafka_errors

    async def missing_topics(self, topics):
        return super().missing_topics(topics)

    async def poll(self, *_):
        await asyncio.sleep(0)
        return super().poll()

    async def positions(self, places):
        return super().positions(places)

    async def ends(self, places):
        return super().ends(places)

    async def commit(self, offsets):
        return self._commit(offsets)

    async def send_letters(self, letters, seconds):
        return super().send_letters(letters, seconds)

    async def close_letters(self):
        super().close_letters()


def run_threads(shell, handle, policy, **arguments):
    """Run in threads."""
    made = Arguments(handle, **{"until_end": True} | arguments)
    return ThreadDriver(shell, made, policy, None).run()


def run_tasks(shell, handle, policy, **arguments):
    """Run in tasks."""

    async def handle_awaited(record):
        handle(record)

    async def run():
        made = Arguments(handle_awaited, **{"until_end": True} | arguments)
        return await TaskDriver(shell, made, policy, None).run()

    return asyncio.run(run())


@pytest.fixture(params=[(Shell, run_threads), (AwaitedShell, run_tasks)])
def play(request):
    """Run a driver; return its report and its shell."""
    shell_class, run = request.param

    def play(*polls, handle=len, policy=None, refusals=(), **arguments):
        play.shell = shell = shell_class(*polls, refusals=refusals)
        made = load_policy("consumer").replace(**policy or {})
        return run(shell, handle, made, **arguments), shell

    return play


def test_what_is_read_is_handled_and_committed(play):
    """A run ends at the end of the log, with one last commit."""
    values = []
    report, shell = play(3, 0, 2, handle=lambda record: values.append(record.value))
    assert values == [b"0", b"1", b"2", b"3", b"4"]
    assert (report.processed, report.committed) == (5, 5)
    assert shell.commits[-1] == 5


def test_a_poll_that_fails_for_now_is_made_again(play):
    """The run goes on after an error that passes."""
    error = make_error(REBALANCE)
    report, _ = play(error, 2)
    assert report.processed == 2


def test_a_poll_that_can_never_succeed_ends_the_run(play):
    """What was done before is committed, and the error is raised."""
    error = make_error(TOPIC_DENIED)
    with pytest.raises(type(error)):
        play(2, error, 1)


def test_a_commit_that_is_refused_for_now_is_made_again(play):
    """The last commit, too."""
    error = make_error(14)  # COORDINATOR_LOAD_IN_PROGRESS
    report, shell = play(2, refusals=[error])
    assert shell.commits == [2, 2]
    assert report.committed == 2


def test_rejected_records_become_letters_before_the_run_ends(play):
    """Their producer is closed after the last one."""
    policy = {"on_reject": "dead_letter", "handler": {"reject_on": "ValueError"}}

    def handle(record):
        if record.offset % 2:
            raise ValueError

    report, shell = play(4, handle=handle, policy=policy)
    assert shell.is_closed.wait(5)
    assert shell.letters == [b"1", b"3"]
    assert (report.processed, report.dead_lettered, report.committed) == (2, 2, 4)


def test_the_client_reads_on_behind_what_is_done(play):
    """After a run that was ended by a record, the client is at this record."""
    policy = {"on_reject": "raise", "handler": {"reject_on": "ValueError"}}

    def handle(record):
        if record.offset == 2:
            raise ValueError

    with pytest.raises(ValueError):
        play(4, handle=handle, policy=policy)
    assert "seek 2" in play.shell.calls
    assert play.shell.commits[-1] == 2


class Producer:
    """A transactional producer; notes its calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        """Return a method that notes its call."""

        def call(*args):
            self.calls.append((name, *args))

        return call


def test_metadata_is_taken_right_after_the_poll_that_returned_records():
    """A later one would let a member commit what another one owns by now."""
    shell, producer = Shell(2), Producer()
    producer.send = len
    run_threads(shell, len, load_policy("consumer"), producer=producer)
    first = shell.calls.index("metadata")
    assert shell.calls[first - 1] == "poll"
    assert ("send_offsets_to_transaction", {PLACE: 2}, "metadata") in producer.calls


def test_a_member_without_a_generation_commits_no_transaction():
    """A broker accepts a commit with generation -1 from anyone."""
    shell, producer, stop = Shell(2), Producer(), threading.Event()
    producer.send = len
    shell.group_metadata = lambda: None
    policy = load_policy("consumer")
    run_threads(shell, lambda _: stop.set(), policy, producer=producer, stop=stop)
    names = [name for name, *_ in producer.calls]
    assert names[:3] == ["init_transactions", "begin_transaction", "abort_transaction"]
    assert "commit_transaction" not in names


def test_ctrl_c_in_a_poll_ends_the_run_with_what_is_done_committed():
    """The interrupt is raised once all is done."""
    shell = Shell(3, 0, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_threads(shell, len, load_policy("consumer"), until_end=False)
    assert shell.commits[-1] == 3


def test_a_commit_of_an_unknown_member_means_that_its_partitions_are_lost():
    """Aiokafka has no call for that; nothing of them is committed any more."""
    shell = AwaitedShell(2, refusals=[make_error(UNKNOWN_MEMBER)])
    policy = load_policy("consumer").replace(handler={"commit_interval": 0.01})
    places = []

    async def handle(_):
        pass

    async def run():
        made = Arguments(handle)
        driver = TaskDriver(shell, made, policy, None)
        refuse = shell.commit

        async def commit(offsets):
            asyncio.get_running_loop().call_later(0.05, look)
            return await refuse(offsets)

        def look():
            places.append(list(driver.machine.slots))
            driver.request_stop()

        shell.commit = commit
        await driver.run()

    asyncio.run(run())
    assert (shell.commits, places) == ([2], [[]])


def test_a_consumer_runs_one_process_at_a_time():
    """A second call is refused; progress() says when it works."""
    consumer = Processing()
    with pytest.raises(ClientStateError, match=r"works during process\(\)"):
        consumer.progress()
    consumer._run_driver = object()
    with pytest.raises(ClientStateError, match="call it once, with more workers"):
        consumer.process(len)
