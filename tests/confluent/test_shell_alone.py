"""The shell of a producer without a broker: second episodes, and slow answers."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from kafkaguard_adapters.confluent import shell as shell_module
from kafkaguard_adapters.confluent.callbacks import Callbacks
from kafkaguard_adapters.confluent.producer_settings import ProducerSettings, prepare
from kafkaguard_adapters.confluent.shell import ConfluentShell
from tests.confluent.test_windows import message

LONG_S = 30.0
CONFIG = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
FATAL = KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "gap", True))
PURGED = KafkaError(KafkaError._PURGE_QUEUE)
LOGIN = KafkaError(KafkaError._AUTHENTICATION, "wrong password")


class Quiet(Producer):
    """A producer that serves what a test says.

    Attributes:
        serves: Called with each flush, poll and purge.
    """

    def __init__(self):
        super().__init__(CONFIG)
        self.calls, self.asked, self.closed = [], [], 0
        self.serves = lambda: None

    def _serve(self, name):
        self.calls.append(name)
        self.serves()
        return 0

    def flush(self, timeout):
        """Flush."""
        return self._serve("flush")

    def poll(self, timeout):
        """Poll."""
        return self._serve("poll")

    def purge(self, *args, **kwargs):
        """Purge."""
        self._serve("purge")

    def list_topics(self, topic, timeout):
        """Note how long a broker may take."""
        self.asked.append(timeout)
        return SimpleNamespace(
            topics={topic: SimpleNamespace(partitions={0: None}, error=None)}
        )

    def close(self):
        """Close."""
        self.closed += 1
        return True


class View:
    """A view of a cluster that finds no wrong setting."""

    async def find_wrong_setting(self):
        """Find none."""
        return


class Builder:
    """Builds successors."""

    can_build = True

    def __init__(self):
        self.built = []

    def build(self):
        """Build one."""
        self.built.append(Quiet())
        return self.built[-1]


@pytest.fixture
def told():
    """What the shell reported, by the name of the fact."""
    return {name: [] for name in ("began", "accepted", "failed", "died", "fault")}


@pytest.fixture
def make(told):
    """Make a shell; the machine is troubled as the test says."""

    def make(config=CONFIG, client=None):
        settings = ProducerSettings(config)
        shell = ConfluentShell(
            client or Quiet(), Builder(), settings, Callbacks(print), view=View()
        )
        sink = {
            name: (lambda *facts, n=name: told[n].append(facts))
            for name in told
        }  # fmt: skip
        shell.listen(SimpleNamespace(**sink))
        shell.use(SimpleNamespace(is_troubled=False), None)
        return shell

    return make


def fail(shell, error, **facts):
    """Let a record in a window of its own fail; return the refusal."""
    window = shell.window("t", lambda _: False)
    window.mark(next(window.slots), b"k", b"v")
    failures = []
    shell._facts.failed = lambda _, refusals: failures.extend(refusals)
    window.on_delivery(error, message(b"k", b"v", **facts))
    (refusal,) = failures
    return refusal


def until(condition):
    """Wait for another thread."""
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (FATAL, 0),
        (KafkaException(KafkaError(KafkaError._FATAL)), 0),
        (KafkaException(KafkaError(KafkaError._STATE)), 1),
    ],
)
def test_a_dead_client_that_was_replaced_closes_without_a_word(
    make, caplog, error, lines
):
    """Its death was reported, and its records were sent by the next one."""

    class Dead(Quiet):
        def close(self):
            super().close()
            raise error

    shell = make(client=Dead())
    shell.report_if_dead(shell.client, FATAL)
    shell.close(LONG_S)
    assert shell.client.closed == 1
    assert len(caplog.records) == lines


def test_a_death_that_only_the_close_tells_is_logged(make, caplog):
    """Nobody has reported it before."""

    class Dying(Quiet):
        def close(self):
            raise FATAL

    make(client=Dying()).close(LONG_S)
    assert [each.levelname for each in caplog.records] == ["WARNING"]


def test_a_second_client_may_die_as_the_first_one_did(make, told):
    """Each death is reported; what a client drops then is not the record's fault."""
    shell = make()
    for count in (1, 2):
        assert shell.report_if_dead(shell.client, FATAL)
        assert len(told["died"]) == count
        shell.shut()
        assert fail(shell, PURGED).blame == "client"
        shell.put_successor_in_use(None)
        assert shell.death is None
    assert shell.client is shell.builder.built[1]
    shell.retire()
    assert [each.closed for each in shell.builder.built] == [1, 0]


def test_a_record_of_a_successor_is_refused_for_its_own_reason(make):
    """That its predecessor died says nothing about it."""
    shell = make()
    shell.report_if_dead(shell.client, FATAL)
    shell.shut()
    shell.put_successor_in_use(None)
    dropped = fail(shell, KafkaError(KafkaError._DESTROY))
    assert dropped.blame == "record"


def test_a_dead_client_that_was_replaced_is_not_reported_again(make, told):
    """A late call of it is no second death."""
    shell = make()
    old = shell.client
    shell.report_if_dead(old, FATAL)
    shell.put_successor_in_use(None)
    assert shell.report_if_dead(old, FATAL)
    assert len(told["died"]) == 1


def test_the_log_of_a_dead_client_says_nothing_about_its_successor(make):
    """The successor has no producer id yet."""
    config = prepare({**CONFIG, "enable.idempotence": True})
    shell = make(config)
    config.attempt_log.is_heard = config.attempt_log.has_id = True
    shell.report_if_dead(shell.client, FATAL)
    shell.put_successor_in_use(None)
    assert not config.attempt_log.has_id


def test_the_guard_polls_in_each_of_two_troubles(make):
    """Its thread ends with the first one."""
    shell = make()
    for _ in range(2):
        shell.client.calls.clear()
        shell._machine.is_troubled = True
        shell.poll_while_troubled()
        until(lambda: shell.client.calls)
        shell._machine.is_troubled = False
        until(lambda: shell._poller is None)


@pytest.mark.parametrize("error", [None, KafkaException(PURGED)])
def test_a_flush_that_has_ended_holds_up_no_hand_over(make, error):
    """Records are handed over after a flush has ended, also if it has raised."""
    shell = make()

    def serve():
        assert shell._flushes == 1
        if error is not None:
            raise error

    shell.client.serves = serve
    for _ in range(2):
        shell.serve(0.0)
        assert shell._flushes == 0


def test_only_records_before_a_purge_were_dropped_by_the_application(make):
    """During the call, and before it; later ones have other causes."""
    shell, told = make(), []
    shell.client.serves = lambda: told.append(fail(shell, PURGED, latency=0.0).blame)
    shell.purge()
    shell.client.serves = lambda: None
    told.append(fail(shell, PURGED, latency=5.0).blame)
    told.append(fail(shell, PURGED, latency=-5.0).blame)
    assert told == ["record", "record", "client"]


def test_a_purge_that_raises_is_over(make):
    """Records after it were not dropped by the application."""
    shell = make()

    def fails():
        raise RuntimeError("closed")

    shell.client.serves = fails
    with pytest.raises(RuntimeError):
        shell.purge()
    shell.client.serves = lambda: None
    assert fail(shell, PURGED, latency=-5.0).blame == "client"


@pytest.mark.parametrize(
    ("seconds", "is_why"), [(0.0, True), (20.0, True), (60, False)]
)
def test_a_refused_login_explains_records_as_long_as_the_client_hides_it(
    make, seconds, is_why
):
    """The client reports the same connection error only every 30 s."""
    shell = make()
    shell._hear_error(LOGIN, is_user_told=True)
    error, told = shell._refused_login
    shell._refused_login = error, told - seconds
    refusal = fail(
        shell, KafkaError(KafkaError._MSG_TIMED_OUT), partition=None, latency=0.0
    )
    assert (refusal.cause.args[0] is LOGIN) is is_why


def test_a_login_whose_connection_broke_was_not_refused(make):
    """One code of librdkafka is both; a service was ended by a reset in its login."""
    shell = make()
    text = "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: "
    error = KafkaError(KafkaError._AUTHENTICATION, text)
    shell._hear_error(error, is_user_told=True)
    assert shell._refused_login[0] is None


def test_errors_of_connections_are_logged_once_a_minute(make, caplog, monkeypatch):
    """Each would be one line a second; after a minute the next one is logged."""
    shell, times = make(), iter((100.0, 101.0, 159.0, 161.0, 162.0))
    monkeypatch.setattr(shell_module, "_now", lambda: next(times))
    for number in range(5):
        error = KafkaError(KafkaError._TRANSPORT, f"error {number}")
        shell._hear_error(error, is_user_told=False)
    assert [each.args[0] for each in caplog.records] == ["error 0", "error 3"]


def test_what_the_users_error_cb_got_is_not_logged(make, caplog):
    """The user decides what to do with it."""
    make()._hear_error(KafkaError(KafkaError._TRANSPORT, "down"), is_user_told=True)
    assert caplog.records == []


def test_a_broker_may_take_seconds_to_tell_the_partitions_of_a_topic(make):
    """A shorter limit would make a partition missing that is there."""
    shell = make()
    assert shell._partitions("t") == {0: None}
    assert all(timeout >= 3 for timeout in shell.client.asked)


def test_reports_that_come_after_seconds_are_waited_for_at_the_end(
    make, told, monkeypatch
):
    """Records without a report are in doubt, which these are not."""
    shell, clock = make(), [1000.0]
    monkeypatch.setattr(shell_module, "_now", lambda: clock[0])
    window = shell.window("t", lambda _: False)
    window.mark(next(window.slots), b"k", b"v")

    def serve():
        clock[0] += 0.5
        if clock[0] > 1003:
            shell.client.serves = lambda: None
            window.on_delivery(KafkaError(87), message(b"k", b"v"))

    shell.client.serves = serve
    shell.stop()
    ((_, (refusal,)),) = told["failed"]
    assert (refusal.sent, told["fault"]) == ("answered", [])


def test_a_new_client_that_cannot_take_over_an_id_is_closed(make):
    """The old one stays in use, and the next attempt builds another one."""
    shell = make()
    old = shell.client

    def refuse(_):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    for count in (1, 2):
        with pytest.raises(KafkaException):
            shell.renew(refuse)
        assert [each.closed for each in shell.builder.built] == [1] * count
    assert shell.client is old
    window = shell.window("t", lambda _: False)
    window.mark(next(window.slots), b"k", b"v")

    def serve_once():
        old.serves = lambda: None
        window.on_delivery(PURGED, message(b"k", b"v"))

    old.serves = serve_once
    shell.renew(lambda _: None)
    assert shell.open_windows() == []  # the old one has reported its records
    assert shell.client is shell.builder.built[2]
    assert shell.client.closed == 0


def test_what_was_sent_again_counts_with_its_end(make):
    """A report in between does not count a dead letter as a delivered record."""
    shell = make()
    first, again = (
        shell._begin("t", windows) for windows in (shell.windows, shell._resend_windows)
    )
    for window in (first, again):
        for _ in range(2):
            window.mark(next(window.slots), b"k", b"v")
        window.on_delivery(None, message(b"k", b"v"))
    assert shell.delivered() == {first: 1}


def test_each_line_of_the_clients_log_is_taken_from_one_poll(make):
    """The events of the next poll are its own."""
    config = prepare({**CONFIG, "enable.idempotence": True})
    shell = make(config)
    shell.hidden.extend([None, None])
    assert shell.poll_on(shell.client, 3, 0.0) == 1
    assert shell.poll_on(shell.client, 1, 0.0) == 1
    assert shell.client.calls == []


def test_a_successor_that_comes_after_the_close_is_closed(make):
    """A new producer that is built after close() is closed at once."""
    shell = make()
    shell.close(LONG_S)
    with pytest.raises(KafkaException, match="closed meanwhile"):
        shell.put_successor_in_use(None)
    (successor,) = shell.builder.built
    assert successor.closed == 1
