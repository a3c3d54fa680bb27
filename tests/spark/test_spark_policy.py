"""What a policy says, in a task of Spark's: without Spark, and without a broker."""

from __future__ import annotations

import json
import logging
import pickle
from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from kafkaguard import RetryPolicy
from kafkaguard import errors as e
from kafkaguard._delivery.dead_letters import Reason
from kafkaguard_adapters.spark import policy as policy_module
from kafkaguard_adapters.spark.driver.counting import make_report
from kafkaguard_adapters.spark.driver.options import from_options
from kafkaguard_adapters.spark.executor import known_topics
from kafkaguard_adapters.spark.executor.arrow import Columns, SinkRecord
from kafkaguard_adapters.spark.executor.attempts import WindowAttempts
from kafkaguard_adapters.spark.executor.driver import WindowDriver
from kafkaguard_adapters.spark.executor.known_topics import KnownTopics
from kafkaguard_adapters.spark.executor.sent_records import split_superseded
from kafkaguard_adapters.spark.report import TaskCounts
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.spark.topics import SinkTopic
from kafkaguard_adapters.spark.verdicts import record_error
from tests.spark.spark_reading import letters_to

UNKNOWN_TOPIC = KafkaError._UNKNOWN_TOPIC
DENIED = e.TopicAuthorizationFailedError.code
TOO_LARGE = e.MessageTooLargeError.code
TIMED_OUT = KafkaError._MSG_TIMED_OUT
#: Waits of 1, 2, 4 ... seconds.
WAITS = {"kind": "exponential", "base": 1, "cap": 60, "jitter": "none"}


def settings_of(policy=None, topic="t", **more):
    """Make settings of a write."""
    return make_settings("b:1", topic=topic, policy=policy, **more)


def failure(code, key=b"k", value=b"v"):
    """Make what the client reports."""
    return KafkaError(code), SinkRecord("t", key, value)


class Clock:
    """A time that passes only by waiting."""

    def __init__(self):
        self.now = 0.0
        self.waits = []

    def sleep(self, seconds):
        """Wait."""
        self.now += seconds
        self.waits.append(seconds)

    def attempts(self, policy):
        """Make the attempts of a task."""
        return WindowAttempts(
            settings_of(policy), lambda: self.now, self.sleep, lambda: 0.5
        )


def waits_of(policy, error=UNKNOWN_TOPIC):
    """Fail again and again; return the waits, and the error of the end."""
    clock = Clock()
    attempts = clock.attempts(policy)
    for _ in range(100):
        try:
            attempts.wait([failure(error)] * 3)
        except e.KafkaGuardError as ended:
            return clock.waits, ended
    pytest.fail("it never ends")


@pytest.mark.parametrize(
    ("policy", "waits", "reason"),
    [
        ({"max_attempts": 4, "backoff": WAITS}, [1, 2, 4], "4 attempts; policy custom"),
        ({"deadline": 10, "max_attempts": 9, "backoff": WAITS}, [1, 2, 4], "DEADLINE"),
        (
            {"max_attempts": 9, "backoff": WAITS, "budget": {"capacity": 2}},
            [1, 2],
            "BUDGET",
        ),
        (None, [], "1 attempt; policy spark allows no further attempt (ATTEMPTS)"),
        ("none", [], "1 attempt; policy none allows no further attempt (ATTEMPTS)"),
    ],
)
def test_what_was_not_written_is_sent_again_as_the_policy_says(policy, waits, reason):
    """Attempts, waits, deadline and budget; without a policy there is one attempt."""
    found, error = waits_of(policy)
    assert found == waits
    assert isinstance(error, e.ClientMetadataError)
    (note,) = error.__notes__
    assert note.startswith("3 records were not written in ")
    assert reason in note


def test_deadline_counts_from_when_the_records_were_sent():
    """A client's attempt took the time of the policy, so there is no other one."""
    clock = Clock()
    attempts = clock.attempts({"deadline": 20, "max_attempts": 9, "backoff": WAITS})
    clock.now = 1000.0
    attempts.open_window()
    clock.now += 19.5
    attempts.begin()
    with pytest.raises(e.ClientMetadataError) as caught:
        attempts.wait([failure(UNKNOWN_TOPIC)])
    assert "DEADLINE" in caught.value.__notes__[0]
    assert clock.waits == []


def test_window_that_is_filled_slowly_takes_no_time_from_a_record():
    """A record fails after delivery.timeout.ms at the latest, here 10 s."""
    clock = Clock()
    settings = make_settings(
        "localhost:1",
        topic="t",
        policy={"deadline": 20, "max_attempts": 9, "backoff": WAITS},
        config={"delivery.timeout.ms": "10000"},
    )
    attempts = WindowAttempts(settings, lambda: clock.now, clock.sleep, lambda: 0.5)
    attempts.open_window()
    clock.now += 3600
    attempts.wait([failure(UNKNOWN_TOPIC)])
    assert clock.waits == [1]


def test_preset_means_what_it_says():
    """The preset spark-sink makes ten attempts within 300 s."""
    found, error = waits_of("spark-sink")
    assert len(found) == 9
    assert sum(found) < 300
    assert (
        "10 attempts; policy spark-sink allows no further attempt (ATTEMPTS)"
        in error.__notes__[0]
    )


def test_override_may_send_again_what_else_would_fail_the_job():
    """Topics of which the rights come later; of others they do not."""
    override = {"when": {"code": DENIED, "client": "spark"}, "action": "RETRY"}
    policy = {"overrides": [override | {"max_attempts": 3, "backoff": WAITS}]}
    attempts = Clock().attempts(policy)
    assert attempts.may_be_tried(failure(DENIED))
    found, error = waits_of(policy, DENIED)
    assert found == [1, 2]
    assert error.code == DENIED
    assert not Clock().attempts("spark-sink").may_be_tried(failure(DENIED))


@pytest.mark.parametrize(
    "code",
    [TIMED_OUT, TOO_LARGE, e.InvalidRecordError.code, KafkaError._PURGE_INFLIGHT],
)
def test_what_may_be_written_or_can_never_be_is_not_tried_again(code):
    """Records that may be written or can never succeed go to the machine instead."""
    assert not Clock().attempts("spark-sink").may_be_tried(failure(code))


@pytest.mark.parametrize(
    ("code", "policy", "fails"),
    [
        (TIMED_OUT, "spark-sink", True),
        (TIMED_OUT, {"in_doubt": "report"}, False),
        (TIMED_OUT, {"in_doubt": "resend"}, False),
        (
            TIMED_OUT,
            {"overrides": [{"when": {"code": -192}, "in_doubt": "report"}]},
            False,
        ),
        (TOO_LARGE, "spark-sink", False),
        (e.InvalidRecordError.code, "spark-sink", False),
        (UNKNOWN_TOPIC, "spark-sink", False),
    ],
)
def test_record_that_is_in_doubt_fails_the_task_at_once(code, policy, fails):
    """Its fate depends on no other record of the window."""
    failures = [failure(TOO_LARGE), failure(code)]
    error = Clock().attempts(policy).fatal(failures)
    assert fails == (error is not None)
    assert error is None or error.code == code


def test_record_is_not_sent_after_a_later_one_of_its_key():
    """A later record of the same key and topic may already be written."""
    records = [
        SinkRecord(topic, key, value)
        for topic, key, value in [
            ("t", b"a", b"1"),
            ("t", b"b", b"1"),
            ("t", None, b"1"),
            ("t", b"a", b"2"),
            ("u", b"b", b"1"),
            ("t", b"b", b"2"),
        ]
    ]
    failed = [(number, records[number]) for number in (0, 1, 2, 5)]
    late, others = split_superseded(records, failed)
    assert [number for number, _ in late] == [0]
    assert [number for number, _ in others] == [1, 2, 5]


class Sender:
    """A client whose next failures are told beforehand."""

    def __init__(self, *rounds):
        self.rounds = list(rounds)
        self.sent = []

    def produce(self, records):
        """Take records."""
        self.sent.append([record.value for record in records])

    def flush(self):
        """Do nothing: all is answered already."""

    def take_failed(self):
        """Tell what failed."""
        return self.rounds.pop(0) if self.rounds else []


def driver_of(sender, policy, **more):
    """Make the driver of a task, whose waits take no time."""
    settings = settings_of(policy, **more)
    names = {name for name in settings.topics if name}
    topics = {name: SinkTopic(name, 1, compacted=False) for name in names}
    known = KnownTopics(settings, topics)
    driver = WindowDriver(settings, known, sender, known.producer_config())
    driver._attempts = WindowAttempts(
        settings, lambda: 0.0, lambda _: None, lambda: 0.5
    )
    return driver


def window(*rows):
    """Make a window of records with keys and values."""
    keys, contents = zip(*rows, strict=True)
    columns = {"key": pa.array(keys, pa.binary()), "value": pa.array(contents)}
    return Columns(pa.record_batch(columns), "t")


def test_records_that_were_not_written_are_sent_again_in_their_order():
    """Until all are there; they count as delivered and as sent again."""
    rows = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]
    failed = [failure(UNKNOWN_TOPIC, *row) for row in rows]
    sender = Sender(failed[::-1], [failed[2]])
    driver = driver_of(sender, letters_to("d"))
    driver.end_window(3, [window(*rows)])
    assert sender.sent == [[b"1", b"2", b"3"], [b"3"]]
    assert (driver.counts.delivered, driver.counts.resent) == (3, 3)


@pytest.mark.parametrize("rescue", ["ordered", "any_order"])
def test_older_record_is_sent_after_a_newer_one_only_in_any_order(rescue):
    """With rescue: ordered it is dead-lettered as superseded."""
    rows = [(b"a", b"1"), (b"a", b"2")]
    sender = Sender([failure(UNKNOWN_TOPIC, *rows[0])])
    driver = driver_of(sender, letters_to("d", rescue=rescue))
    driver.end_window(2, [window(*rows)])
    assert sender.sent == [[b"1"]]  # the record, or its dead letter
    letters = {} if rescue == "any_order" else {"SUPERSEDED": 1}
    assert driver.counts.dead_lettered == letters
    assert driver.counts.delivered == 2 - len(letters)


def test_refused_records_are_dropped_where_the_policy_says_so():
    """Counted by reason, from the sink's own checks and from the broker."""
    policy = {"on_reject": "drop"}
    refused = [failure(e.InvalidTimestampError.code)]
    driver = driver_of(Sender(refused, refused), policy)
    driver.refused_at_once(
        SinkRecord("t", None, b"v"), Reason.NULL_KEY, record_error(Reason.NULL_KEY, "t")
    )
    driver.end_window(1, [window((b"k", b"v"))])
    assert driver.counts.dropped == {"NULL_KEY": 1, "INVALID_TIMESTAMP": 1}


def test_override_decides_reason_by_reason():
    """One reason is dropped, the others stop the job."""
    override = {"when": {"error": "InvalidRecordKeyError"}, "on_reject": "drop"}
    driver = driver_of(Sender(), {"overrides": [override]})
    record = SinkRecord("t", None, b"v")
    driver.refused_at_once(record, Reason.NULL_KEY, record_error(Reason.NULL_KEY, "t"))
    with pytest.raises(e.MessageTooLargeError):
        driver.refused_at_once(
            record, Reason.TOO_LARGE, record_error(Reason.TOO_LARGE, "t")
        )


def refuse(driver, count, between=0):
    """Refuse records without a key, with others on their way between them."""
    for _ in range(count):
        driver.assume_delivered(between)
        record = SinkRecord("t", None, b"v")
        driver.refused_at_once(
            record, Reason.NULL_KEY, record_error(Reason.NULL_KEY, "t")
        )


def test_limit_of_dead_letters_in_a_row():
    """Beyond it the job fails, with the reason; a record between them counts anew."""
    limit = {"topic": "d", "limit": {"consecutive": 3}}
    driver = driver_of(Sender(), letters_to("d", dead_letter=limit))
    refuse(driver, 10, between=1)
    driver.assume_delivered(1)
    refuse(driver, 3)
    with pytest.raises(e.InvalidRecordKeyError, match=r"dead_letter\.limit\.consecut"):
        refuse(driver, 1)


@pytest.mark.parametrize(("between", "total"), [(0, 11), (1, 22), (99, 1100)])
def test_limit_of_the_share_of_dead_letters(between, total):
    """A share of all records; that of the first thousand is always allowed."""
    limit = {"topic": "d", "limit": {"ratio": 0.01}}
    driver = driver_of(Sender(), letters_to("d", dead_letter=limit))
    refuse(driver, 10, between)
    said = f"with it, 11 of {total:,} records would be dead letters"
    if total > 1000:
        refuse(driver, 1, between)
        said = "with it, 12 of 1,101 records would be dead letters"
        between = 0
    with pytest.raises(e.InvalidRecordKeyError, match=said):
        refuse(driver, 1, between)


@pytest.mark.parametrize(
    ("letters", "read", "is_said"), [(101, 900, True), (9, 9, False)]
)
def test_report_says_that_all_tasks_together_are_beyond_the_limit(
    letters, read, is_said
):
    """Each task alone was below the share of a thousand records."""
    limit = {"topic": "d", "limit": {"ratio": 0.1}}
    settings = make_settings(
        "localhost:1", policy=letters_to("d", dead_letter=limit), topic="t"
    )
    counts = TaskCounts(read=read, dead_lettered=Counter(NULL_KEY=letters))
    said = make_report(settings, counts, None).warnings
    expected = (
        "101 of 900 records were dead-lettered, and dead_letter.limit.ratio is 0.1"
    )
    assert [expected in each for each in said] == [True] * is_said


def test_dropped_records_are_records_as_well():
    """Dropped records count in the ratio of dead letters."""
    policy = letters_to("d", dead_letter={"topic": "d", "limit": {"ratio": 0.01}})
    policy["overrides"] = [{"when": {"code": 10}, "on_reject": "drop"}]
    driver = driver_of(Sender(), policy)
    large = record_error(Reason.TOO_LARGE, "t")
    for _ in range(1000):
        driver.refused_at_once(SinkRecord("t", b"k", b"v"), Reason.TOO_LARGE, large)
    refuse(driver, 10)
    with pytest.raises(e.InvalidRecordKeyError, match="11 of 1,011 records"):
        refuse(driver, 1)


def test_record_without_a_topic_has_no_dead_letter_named_after_it():
    """The placeholder needs a topic; the text says so."""
    driver = driver_of(Sender(), "spark-sink", topic=None)
    error = record_error(Reason.NULL_TOPIC, None)
    with pytest.raises(e.InvalidTopicError, match="and the record has none"):
        driver.refused_at_once(SinkRecord(None, b"k", b"v"), Reason.NULL_TOPIC, error)


# --- settings -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "topic", "expected"),
    [
        (None, "t", None),
        ("spark-sink", "t", "t.dlq"),
        ("spark-sink", None, None),
        (letters_to("d"), None, "d"),
        (
            {"overrides": [{"when": {"code": 10}, "on_reject": "dead_letter"}]},
            "t",
            "t.dlq",
        ),
        (RetryPolicy(on_reject="drop"), "t", None),
    ],
)
def test_dead_letter_topic_is_the_policys(policy, topic, expected):
    """A dead-letter topic is looked up if any override needs it."""
    assert expected == settings_of(policy, topic).dead_letter_topic


@pytest.mark.parametrize(
    ("policy", "config", "seconds"),
    [
        (None, {}, 120),
        ({"deadline": 30}, {}, 30),
        ({"attempt_timeout": 5}, {}, 5),
        ({"deadline": "unbounded"}, {}, 120),
        ({"deadline": 30}, {"message.timeout.ms": 60_000}, 60),
    ],
)
def test_client_has_no_more_time_for_an_attempt_than_the_policy(
    policy, config, seconds
):
    """delivery.timeout.ms is at most the deadline, unless it is set."""
    client = settings_of(policy, config=config).client
    assert client["delivery.timeout.ms"] == str(1000 * seconds)


def test_deadline_is_how_long_a_stream_waits():
    """An hour at most: librdkafka waits no longer."""
    assert settings_of().of_stream().patience_s == 300
    assert settings_of({"deadline": 7}).of_stream().patience_s == 7
    assert settings_of("none").of_stream().patience_s == 3600


def test_settings_with_a_policy_that_was_used_pickle():
    """They go to the executors as text."""
    settings = settings_of({"overrides": [{"when": {"code": 10}, "on_reject": "drop"}]})
    assert settings.on_reject(record_error(Reason.TOO_LARGE, "t")) == "drop"
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert again.policy == settings.policy


def test_policy_of_the_data_source_is_a_name_a_file_or_json(tmp_path):
    """The option `policy` takes a preset, a file or JSON."""
    servers = {"kafka.bootstrap.servers": "b:1", "topic": "t"}
    file = tmp_path / "p.yaml"
    file.write_text("extends: spark-sink\ndead_letter: {topic: d}\n")
    for given, expected in [
        ("spark-sink", "t.dlq"),
        (str(file), "d"),
        (json.dumps(letters_to("d")), "d"),
    ]:
        settings = from_options({**servers, "policy": given})
        assert settings.dead_letter_topic == expected


def test_setting_that_means_nothing_here_is_told_once(caplog):
    """A preset is made for more places than one, so nothing is told of it."""
    policy_module._warn_once.cache_clear()
    policy = {"name": "mine", "breaker": {"failures": 3}, "on_offset_reset": "raise"}
    with caplog.at_level(logging.WARNING, "kafkaguard.spark"):
        for _ in range(2):
            settings_of(policy)
        settings_of("low-latency")
        settings_of(letters_to("d"))
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        "policy mine sets breaker, on_offset_reset, which a Spark write does not use"
    )


def test_attempt_of_the_client_that_is_longer_than_the_deadline_is_told(caplog):
    """The client's own setting stays as it is."""
    policy_module._warn_of_limit.cache_clear()
    with caplog.at_level(logging.WARNING, "kafkaguard.spark"):
        settings_of({"deadline": 30}, config={"delivery.timeout.ms": 60_000})
    (said,) = [record.getMessage() for record in caplog.records]
    assert "limits an attempt to 30 s, but delivery.timeout.ms" in said
    assert "lets the client take 60 s: lower delivery.timeout.ms" in said


def test_null_keys_are_left_to_the_broker_where_the_policy_says_so():
    """Nothing is refused before it is sent."""
    for word, refuses in (("reject", True), ("send", False)):
        settings = settings_of({"null_key": word})
        known = KnownTopics(settings, {"t": SinkTopic("t", 1, compacted=True)})
        assert known.refuses_null_keys("t") is refuses


@pytest.mark.parametrize(
    ("shown", "declared", "known"),
    [(None, True, True), (None, None, None), (False, True, False)],
)
def test_what_was_declared_counts_after_another_look_up(
    monkeypatch, shown, declared, known
):
    """Unless the cluster shows something else now."""
    topic = SinkTopic("t", 1, compacted=shown)
    kept = SimpleNamespace(find=lambda _, **__: {"t": topic})
    monkeypatch.setattr(known_topics, "cache_for", lambda _: kept)
    one = KnownTopics(settings_of(compacted=declared), {})
    one.look_again("t")
    assert one.compacted("t") is known
