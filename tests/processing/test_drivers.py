"""The drivers of threads and of tasks, with a client that is made up."""

# ruff: noqa: D102 - the protocols of the shells say what their methods do

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import defaultdict
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import pytest

from kafkaguard import load_policy, stop_on_signals
from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._delivery.facts import Raw
from kafkaguard._errors import ClientConfigurationError, ClientStateError
from kafkaguard_adapters.aiokafka.errors import errors as aiokafka_errors
from kafkaguard_adapters.kafka_python.errors import errors as kafka_python_errors
from kafkaguard_adapters.processing.arguments import Arguments
from kafkaguard_adapters.processing.consumer import Processing
from kafkaguard_adapters.processing.task_driver import TaskDriver
from kafkaguard_adapters.processing.thread_driver import ThreadDriver

PLACE = TopicPartition("orders", 0)
REBALANCE, UNKNOWN_MEMBER, TOPIC_DENIED = 27, 25, 29
ILLEGAL_GENERATION = 22


class Record(NamedTuple):
    """A record."""

    offset: int
    key: Any
    value: bytes


make_error = kafka_python_errors.make


class Shell:
    """A client with one partition; its polls return or raise what a test says.

    Args:
        polls: What each poll returns: numbers of records, or errors to raise. A
            function is called with the shell, and nothing is returned.
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
        self.asked, self.threads = [], defaultdict(set)
        self.is_closed = threading.Event()
        self.missing = set()

    def listen(self, listener):
        self.listener = listener
        return [PLACE]

    def unlisten(self):
        self.calls.append("unlisten")

    def topics(self):
        return {PLACE.topic}

    def missing_topics(self, topics):
        return self.missing.intersection(topics)

    def poll(self, most, seconds):
        self.calls.append("poll")
        self.asked.append((time.monotonic(), most, seconds))
        self.threads["poll"].add(threading.get_ident())
        step = self.polls.pop(0) if self.polls else 0
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            step(self)
            return []
        first, self.position = self.position, self.position + step
        records = [Record(n, None, b"%d" % n) for n in range(first, self.position)]
        return [(PLACE, records)] if records else []

    def positions(self, places):
        return dict.fromkeys(places, self.position)

    def ends(self, places):
        return dict.fromkeys(places, self.end)

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
        self.threads["letters"].add(threading.get_ident())
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

    async def poll(self, most, seconds):
        await asyncio.sleep(0)
        return super().poll(most, seconds)

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

    def play(*polls, handle=len, policy=None, refusals=(), before=None, **arguments):
        play.shell = shell = shell_class(*polls, refusals=refusals)
        if before is not None:
            before(shell)
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


@pytest.mark.parametrize("keeps_round", [False, True])
def test_new_partitions_abort_the_open_round_of_a_classic_group(keeps_round):
    """Its generation is of before; with KIP-848 partitions that stay have theirs."""
    free, producer = threading.Event(), Producer()
    producer.send = len

    def get_more(shell):
        shell.listener.assigned([TopicPartition("t", 1)], keeps_round=keeps_round)
        free.set()

    policy = load_policy("consumer")
    shell = Shell(2, get_more)
    run_threads(shell, lambda _: free.wait(10), policy, producer=producer)
    names = [name for name, *_ in producer.calls]
    assert ("abort_transaction" not in names) is keeps_round
    assert ("send_offsets_to_transaction", {PLACE: 2}, "metadata") in producer.calls


@pytest.mark.parametrize(
    ("missing", "arguments", "text"),
    [
        (PLACE.topic, {}, "until_end is set, and the topic"),
        ("letters", {}, r"the topic letters does not exist.* dead_letter\.topic"),
        ("letters", {"letters": "letters"}, "letters: the topic letters does not"),
    ],
)
def test_a_topic_that_is_not_there_is_told_at_the_call(missing, arguments, text):
    """With the argument or the setting that names it."""
    shell = Shell()
    shell.missing = {missing}
    policy = load_policy(
        {"on_reject": "dead_letter", "dead_letter": {"topic": "letters"}}
    )
    with pytest.raises(ClientConfigurationError, match=text):
        run_threads(shell, print, policy, **arguments)


def test_one_thread_polls_others_handle_and_another_one_sends_letters():
    """A handler, or the producer of letters, that takes long stops no poll."""
    handlers = set()

    def handle(_):
        handlers.add(threading.get_ident())
        raise TypeError

    shell = Shell(3, 3)
    policy = load_policy("consumer").replace(on_reject="dead_letter")
    run_threads(shell, handle, policy, workers=2)
    (pump,), (letters,) = shell.threads["poll"], shell.threads["letters"]
    assert pump == threading.get_ident()
    assert len({pump, letters} | handlers) == 2 + len(handlers)
    assert max(seconds for _, _, seconds in shell.asked) <= 0.2  # so soon Ctrl-C acts


def test_above_the_bound_one_record_is_read_now_and_then():
    """So the client stays a member of its group."""
    free = threading.Event()
    shell = Shell(2, *[1] * 4, lambda _: free.set())
    policy = load_policy("consumer").replace(handler={"max_in_flight": 2})
    report = run_threads(shell, lambda _: free.wait(10), policy)
    assert report.processed == 6
    closed = [(at, seconds) for at, most, seconds in shell.asked if most == 1]
    assert len(closed) >= 5
    assert {seconds for _, seconds in closed} == {0.0}
    assert min(b - a for (a, _), (b, _) in pairwise(closed)) >= 0.09


def come_again(shell, *_):
    """Lose the partition and get it again: the client reads on where it is committed."""
    shell.listener.lost([PLACE])
    shell.listener.assigned([PLACE])
    shell.position = 0


def test_a_partition_that_comes_again_still_has_its_end(play):
    """A run to the ends of the logs would go on for ever otherwise."""
    offsets = set()

    def set_end(shell):
        shell.end = 3

    def handle(record):
        offsets.add(record.offset)

    play(2, come_again, 3, handle=handle, before=set_end)
    assert offsets == {0, 1, 2}
    assert play.shell.commits[-1] == 3


def test_a_position_of_an_earlier_assignment_is_not_one_of_the_next():
    """It may be behind records that were dropped; kafka-python rebalances meanwhile."""
    shell = Shell(0, 3)
    position = shell.positions

    def rebalance(_):
        shell.positions = position
        come_again(shell)
        return {PLACE: 3}

    shell.positions = rebalance
    report = run_threads(shell, len, load_policy("consumer"))
    assert (report.processed, shell.commits[0]) == (3, 3)


@pytest.mark.parametrize(("limit", "drain"), [(2.2, 5.0), (9.0, 0.2)])
def test_revoked_partitions_are_given_up_in_time_and_committed_before(limit, drain):
    """Two seconds before the client's limit; a handler that hangs is late."""
    free, places, took = threading.Event(), [], []

    def handle(record):
        if record.offset == 2:
            free.wait(10)

    def revoke(shell):
        begin = time.monotonic()
        revocation = shell.listener.begin_revocation([PLACE])
        while not shell.listener.is_given_up(revocation):
            time.sleep(0.01)
        took.append(time.monotonic() - begin)
        places.append((shell.commits[-1], set(shell.listener.machine.slots)))
        free.set()

    shell = Shell(3, lambda _: time.sleep(0.1), revoke)
    shell.revocation_limit = lambda: limit
    policy = load_policy("consumer").replace(handler={"drain_timeout": drain})
    report = run_threads(shell, handle, policy, until_end=False, idle_timeout=0.3)
    assert 0.19 <= took[0] < 3
    assert places == [(2, set())]
    assert (report.processed, report.late, shell.commits[-1]) == (2, 1, 2)


def test_a_handler_that_hangs_does_not_stop_the_end():
    """It is counted as abandoned, and its thread does not keep the process."""
    free, threads = threading.Event(), []

    def handle(_):
        threads.append(threading.current_thread())
        free.wait(10)

    policy = load_policy("consumer").replace(handler={"drain_timeout": 0.1})
    shell = Shell(1, lambda shell: shell.listener.request_stop())
    report = run_threads(shell, handle, policy, until_end=False)
    assert (report.processed, report.abandoned) == (0, 1)
    assert threads[0].is_alive()
    assert threads[0].daemon
    free.set()


def test_a_run_that_cannot_begin_lets_close_go_on():
    """It waits for the run in another thread."""
    shell = Shell()
    made = Arguments(len)
    driver = ThreadDriver(shell, made, load_policy("consumer"), None)
    closing = threading.Thread(target=driver.finish, daemon=True)

    def listen(_):
        closing.start()
        raise RuntimeError

    shell.listen = listen
    with pytest.raises(RuntimeError):
        driver.run()
    closing.join(5)
    assert not closing.is_alive()


def test_a_signal_ends_the_run(play):
    """What is done is committed."""
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    stopping = stop_on_signals((signal.SIGUSR1,))
    try:
        report, shell = play(
            3, handle=lambda _: signal.raise_signal(signal.SIGUSR1), until_end=False
        )
    finally:
        stopping.clear()
        signal.signal(signal.SIGUSR1, before)
    assert report.processed == report.committed == shell.commits[-1] >= 1


def test_progress_may_be_asked_for_in_any_thread(play):
    """As a liveness probe and telemetry do it: it waits while the machine changes."""
    waited = []

    def ask_while_it_changes(shell):
        driver, machine = shell.listener, shell.listener.machine
        finished = machine.finished

        def ask_and_finish(*args):
            probe = threading.Thread(target=driver.progress)
            probe.start()
            probe.join(0.05)
            waited.append(probe.is_alive())
            finished(*args)

        machine.finished = ask_and_finish

    play(ask_while_it_changes, 1)
    assert waited == [True]


def test_ctrl_c_in_a_poll_ends_the_run_with_what_is_done_committed():
    """The interrupt is raised once all is done."""
    handled = threading.Barrier(2)

    def handle(record):
        if record.offset == 2:
            handled.wait(5)

    shell = Shell(3, lambda _: handled.wait(5), KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_threads(shell, handle, load_policy("consumer"), until_end=False)
    assert shell.commits[-1] == 3


@pytest.mark.parametrize("code", [UNKNOWN_MEMBER, ILLEGAL_GENERATION])
def test_a_commit_of_an_unknown_member_means_that_its_partitions_are_lost(code):
    """Aiokafka has no call for that; nothing of them is committed any more."""
    shell = AwaitedShell(2, refusals=[make_error(code)])
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


async def handle_async(_):
    """Handle nothing."""


@pytest.mark.parametrize("handler", [handle_async, partial(handle_async)])
def test_clients_whose_calls_block_refuse_coroutine_functions(handler):
    """And say what to write."""
    with pytest.raises(TypeError, match=r"`def handle\(record\)`, or use aiokafka"):
        Processing().process(handler)


@pytest.mark.parametrize(
    "argument",
    [
        {"handler": "handler"},
        {"workers": 0},
        {"workers": 1.5},
        {"order": "topic"},
        {"batch": 0},
        {"stop": True},
        {"idle_timeout": 0},
        {"until_end": "no"},
        {"letters": ""},
        {"letters": "t.dlq", "batch": 2},
    ],
)
def test_wrong_arguments_are_refused_by_name(argument):
    """At the call."""
    with pytest.raises((TypeError, ValueError), match=next(iter(argument))):
        Arguments(**{"handler": len} | argument)
