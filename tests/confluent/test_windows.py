"""Windows of records: each ends once, and finds out which record a report is about."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from kafkaguard import classify
from kafkaguard_adapters.confluent.callbacks import Callbacks
from kafkaguard_adapters.confluent.producer_settings import ProducerSettings
from kafkaguard_adapters.confluent.windows import ClientFacts, Ticket, Window

FOREVER = float("inf")


class Attempts:
    """What the client logs: requests were repeated, or not; it has a producer id."""

    is_heard = has_id = True
    refused_id = None

    def __init__(self, *, repeats):
        self.repeats = repeats

    def has_repeated(self, topic, partition, since):
        """Return what the test says."""
        return self.repeats


ONCE, AGAIN = Attempts(repeats=False), Attempts(repeats=True)
#: The application has just purged; the client has not died.
KNOWN = ClientFacts(is_dying=False, attempts=ONCE, purged_at=FOREVER)
REPEATED = KNOWN._replace(attempts=AGAIN)
DEAD = ClientFacts(is_dying=True, attempts=ONCE)
INVALID_RECORD = KafkaError(87)


class Listener:
    """Takes note of what a window tells."""

    only_errors = False
    has_offsets = True

    def __init__(self):
        self.callbacks = Callbacks(self.raised)
        self.ended = []
        self.errors = []

    def raised(self, error):
        """Take note of what a callback has raised."""
        self.errors.append(error)

    def record_failed(self, window):
        """Close, as the shell does."""
        if window.close():
            window.count_ended()

    def all_reported(self, window):
        """Take note of an end."""
        self.ended.append(window)


def make(capacity=8, suspects=None):
    """Make a window and its listener."""
    listener = Listener()
    suspects = {} if suspects is None else suspects
    return Window("t", (0, 1), capacity, 100, listener, suspects), listener


def message(key=b"k", value=b"v", partition=0, latency=0.1, offset=5):
    """Make what a window reads of a message; 2.6.0 lets nobody build one."""
    return SimpleNamespace(
        topic=lambda: "t",
        partition=lambda: partition,
        key=lambda: key,
        value=lambda: value,
        latency=lambda: latency,
        offset=lambda: offset,
    )


def take(window, key=b"k", value=b"v"):
    """Take a place for a record."""
    index = next(window.slots)
    window.mark(index, key, value)
    return index


EVENTS = st.lists(st.sampled_from(["take", "arrive", "fail", "void", "close"]))


@given(EVENTS)
def test_a_window_ends_once_with_its_last_record(events):
    """After it is closed, and not before; no place is given from then on."""
    window, listener = make()
    waiting, delivered, failed, voids, is_closed = [], 0, 0, 0, False
    for event in [*events, "close"]:
        if event == "take":
            index = next(window.slots, None)
            assert (index is None) == (
                is_closed or len(waiting) + delivered + failed + voids == 8
            )
            if index is not None:
                window.mark(index, b"k%d" % index, b"v")
                waiting.append(index)
        elif event == "close":
            listener.record_failed(window)
            is_closed = True
        elif waiting:
            index = waiting.pop()
            if event == "arrive":
                window.on_delivery(None, message())
                delivered += 1
            elif event == "fail":
                window.on_delivery(INVALID_RECORD, message(b"k%d" % index))
                failed, is_closed = failed + 1, True
            else:
                window.void(index)
                voids += 1
        assert len(listener.ended) == (is_closed and not waiting)
        assert window.delivered == delivered
        assert window.count == len(waiting) + delivered + failed
    while waiting:
        waiting.pop()
        window.on_delivery(None, message())
    assert listener.ended == [window]
    assert len(window.refusals(KNOWN)) == failed


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b", None]), st.booleans())))
def test_a_failed_record_is_found_by_its_key_and_value(records):
    """Reports come in any order; the numbers are those of the records."""
    window, listener = make(capacity=len(records))
    for number, (key, _) in enumerate(records):
        take(window, key, b"%d" % number)
    failed = [n for n, (_, fails) in enumerate(records) if fails]
    for number in reversed(failed):
        window.on_delivery(INVALID_RECORD, message(records[number][0], b"%d" % number))
    for _ in range(len(records) - len(failed)):
        window.on_delivery(None, message())
    listener.record_failed(window)
    refusals = window.refusals(KNOWN)
    assert sorted(failed) == sorted(refusal.index for refusal in refusals)
    raws = window.raws()
    for refusal in refusals:
        key, _ = records[refusal.index]
        assert raws[refusal.index][:2] == (key, b"%d" % refusal.index)
        assert refusal.token == 100 + refusal.index
        assert refusal.null_key is (key is None)


def test_text_is_found_by_the_bytes_that_were_sent():
    """A record with text for key and value is found by the bytes in its report."""
    window, _ = make()
    take(window, "other", "v")
    take(window, "schlüssel", "wert")
    window.on_delivery(INVALID_RECORD, message("schlüssel".encode(), b"wert"))
    window.on_delivery(None, message())
    (refusal,) = window.refusals(KNOWN)
    assert refusal.index == 1


def test_of_records_that_are_alike_the_last_has_failed():
    """Of equal records in a window, the newest is the one that is sent again."""
    window, _ = make()
    for _ in range(3):
        take(window)
    window.on_delivery(INVALID_RECORD, message())
    window.on_delivery(None, message())
    window.on_delivery(None, message())
    assert [refusal.index for refusal in window.refusals(KNOWN)] == [2]


def test_headers_and_time_are_kept_where_they_were_given():
    """Headers and timestamp, which a report lacks, come from the call."""
    window, _ = make()
    ticket = Ticket(window, take(window), None, {"h": "text", "n": None}, 1234)
    ticket(INVALID_RECORD, message())
    (refusal,) = window.refusals(KNOWN)
    raw = window.raws()[refusal.index]
    assert list(raw.headers) == [("h", b"text"), ("n", None)]
    assert raw.timestamp_ms == 1234


def test_keys_are_told_as_far_as_any_record_of_them_has_failed():
    """By the hashes that are kept of all."""
    window, _ = make(suspects={hash(b"a"): b"a"})
    for key in (b"a", b"b", None, b"a"):
        take(window, key)
    assert window.keys() == [b"a", None, None, b"a"]


@pytest.mark.parametrize(
    ("code", "partition", "known", "blame", "sent"),
    [
        (87, 0, KNOWN, "unknown", "answered"),
        (KafkaError._MSG_TIMED_OUT, 0, KNOWN, "client", "maybe"),
        (KafkaError._MSG_TIMED_OUT, None, KNOWN, "client", "never"),
        (3, None, KNOWN, "record", "never"),
        (KafkaError._UNKNOWN_PARTITION, 9, KNOWN, "record", "never"),
        (KafkaError._UNKNOWN_PARTITION, 9, REPEATED, "record", "maybe"),
        (KafkaError._UNKNOWN_TOPIC, None, REPEATED, "record", "never"),
        (KafkaError._PURGE_QUEUE, 0, KNOWN, "record", "never"),
        (KafkaError._PURGE_QUEUE, 0, REPEATED, "record", "maybe"),
        (KafkaError._PURGE_INFLIGHT, 0, KNOWN, "record", "maybe"),
        (KafkaError._PURGE_QUEUE, 0, DEAD, "client", "never"),
        (KafkaError._PURGE_QUEUE, 0, DEAD._replace(attempts=AGAIN), "client", "maybe"),
        (KafkaError._PURGE_QUEUE, 0, DEAD._replace(attempts=None), "client", "maybe"),
        (
            KafkaError._PURGE_QUEUE,
            None,
            DEAD._replace(attempts=None),
            "client",
            "never",
        ),
        (KafkaError._PURGE_QUEUE, 0, KNOWN._replace(purged_at=0), "client", "never"),
        (KafkaError._PURGE_INFLIGHT, 0, DEAD, "client", "maybe"),
        (KafkaError._DESTROY, 0, KNOWN, "record", "maybe"),
        (KafkaError._DESTROY, 0, DEAD, "client", "maybe"),
    ],
)
def test_what_a_code_says_of_the_record(code, partition, known, blame, sent):
    """A batch whose answer was lost goes back to the queue: that may be written."""
    window, _ = make()
    take(window)
    window.on_delivery(KafkaError(code), message(partition=partition))
    (refusal,) = window.refusals(known)
    assert (blame, sent) == (refusal.blame, refusal.sent)


def test_a_record_that_may_be_written_never_has_a_code_that_says_no():
    """The client purges a batch without an answer as one that it did not send."""
    window, _ = make()
    take(window)
    window.on_delivery(KafkaError(KafkaError._PURGE_QUEUE), message())
    (refusal,) = window.refusals(REPEATED)
    assert refusal.cause.args[0].code() == KafkaError._PURGE_INFLIGHT


@pytest.mark.parametrize("call", [None, lambda error, message: None])
@pytest.mark.parametrize("is_again", [True, False])
def test_a_delivery_without_an_offset_may_be_none(call, is_again):
    """The client counts it as delivered because a later batch was accepted."""
    window, listener = make()
    index = take(window)
    report = window.on_delivery if call is None else window.chain(call)
    if is_again:
        report = Ticket(window, index, call, None, 0)
    report(None, message(offset=None))
    listener.record_failed(window)
    (refusal,) = window.refusals(KNOWN)
    assert (refusal.blame, refusal.sent) == ("record", "maybe")
    assert window.delivered == 0


def test_a_producer_that_is_not_idempotent_may_have_no_offsets():
    """A delivery without an offset counts as delivered with acks=0."""
    listener = Listener()
    listener.has_offsets = False
    window = Window("t", (0, 1), 8, 100, listener, {})
    take(window)
    window.on_delivery(None, message(offset=None))
    assert window.delivered == 1


@pytest.mark.parametrize(("code", "action"), [(35, "CONFIGURE"), (14, "RETRY")])
def test_a_record_that_waited_for_a_producer_id_was_not_sent(code, action):
    """The client says only that its time was over."""
    attempts = Attempts(repeats=False)
    attempts.has_id, attempts.refused_id = False, KafkaError(code)
    window, _ = make()
    take(window)
    window.on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), message())
    (refusal,) = window.refusals(KNOWN._replace(attempts=attempts))
    assert refusal.sent == "never"
    assert classify(refusal.cause, api="Produce").action == action


@pytest.mark.parametrize(
    ("partition", "told"),
    [(None, KafkaError._AUTHENTICATION), (0, KafkaError._MSG_TIMED_OUT)],
)
def test_a_refused_login_is_why_a_record_was_never_sent(partition, told):
    """One that has a partition may have been sent before the login was refused."""
    window, _ = make()
    take(window)
    window.on_delivery(
        KafkaError(KafkaError._MSG_TIMED_OUT), message(partition=partition)
    )
    login = KafkaError(KafkaError._AUTHENTICATION)
    (refusal,) = window.refusals(KNOWN._replace(refused_login=login))
    assert told == refusal.cause.args[0].code()


@pytest.mark.parametrize(
    ("attempts", "latency", "is_doubtful"),
    [
        (ONCE, 0.1, False),
        (AGAIN, 0.01, True),
        (None, 0.01, False),
        (None, 0.1, True),
    ],
)
def test_a_refused_record_may_be_written_if_it_was_sent_before(
    attempts, latency, is_doubtful
):
    """A client that does not tell waits at least for so long before it sends again."""
    window, _ = make()
    take(window)
    window.on_delivery(INVALID_RECORD, message(latency=latency))
    known = ClientFacts(is_dying=False, attempts=attempts, retry_s=0.075)
    (refusal,) = window.refusals(known)
    assert refusal.was_unanswered is is_doubtful


@pytest.mark.parametrize("config", [{}, {"retries": 5}, {"retries": 0}])
def test_a_partition_that_is_not_there_is_in_doubt_only_if_the_client_repeats(config):
    """Metadata that comes late is no attempt."""
    window, _ = make()
    take(window)
    gone = KafkaError(KafkaError._UNKNOWN_PARTITION)
    window.on_delivery(gone, message(partition=99, latency=0.1))
    repeats = ProducerSettings(config).repeats
    known = ClientFacts(is_dying=False, retry_s=0.075, repeats=repeats)
    (refusal,) = window.refusals(known)
    assert (refusal.sent, repeats) == (
        ("never", False) if config == {"retries": 0} else ("maybe", True)
    )


@pytest.mark.parametrize(
    ("config", "seconds"),
    [
        ({}, 0.075),
        ({"retry.backoff.ms": 1000}, 0.75),
        ({"retry.backoff.ms": "400", "retry.backoff.max.ms": 200}, 0.15),
    ],
)
def test_the_client_sends_no_batch_again_before(config, seconds):
    """It draws the wait from 0.8 to 1.2 of the setting."""
    assert seconds == pytest.approx(ProducerSettings(config).retry_s)


def test_what_a_callback_raises_is_kept_and_ctrl_c_is_not():
    """A report must not be lost by it."""
    window, listener = make()

    def fail(error, message):
        raise SystemExit(3)

    def interrupt(error, message):
        raise KeyboardInterrupt

    take(window)
    window.chain(fail)(None, message())
    assert [type(error).__name__ for error in listener.errors] == ["SystemExit"]
    take(window)
    with pytest.raises(KeyboardInterrupt):
        window.chain(interrupt)(None, message())


def test_callbacks_wait_while_the_guard_polls_and_keep_their_order():
    """They are called where the application polls."""
    window, listener = make()
    told = []
    report = window.chain(lambda error, message: told.append(message.value()))
    for value in (b"0", b"1", b"2"):
        take(window, b"k", value)
    with listener.callbacks.diverted():
        report(None, message(value=b"0"))
    report(None, message(value=b"1"))
    assert told == []
    assert listener.callbacks.serve() == 2
    report(None, message(value=b"2"))
    assert told == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("is_first", "count", "is_lone"),
    [(True, 1, True), (True, 2, False), (False, 1, False)],
)
def test_one_record_may_share_a_batch_with_those_of_an_open_window(
    is_first, count, is_lone
):
    """Then a refusal of the batch does not say that this record is to blame."""
    window = Window("t", (0, 1), 8, 100, Listener(), {}, is_first=is_first)
    for _ in range(count):
        take(window)
    assert window.is_lone is is_lone
