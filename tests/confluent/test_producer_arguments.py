"""Each argument form of a producer's calls, guarded beside bare; without a broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from kafkaguard import TopicFacts, errors, guard

CONFIG = {
    "bootstrap.servers": "127.0.0.1:1",
    "log_level": 0,
    "enable.idempotence": True,
    "error_cb": lambda _: None,
}
TOPICS = {topic: TopicFacts(compacted=False) for topic in ("t", "", "x" * 300)}
LONG_S = 30.0
RECORD = "t", b"v", b"k"
GOOD = {"value": b"v", "key": b"k"}


def ignore(_error, _message):
    """Take a report."""


def rows(name, *forms):
    """Make rows of a call, from positional arguments or (positional, keywords)."""
    for form in forms:
        is_pair = len(form) == 2 and isinstance(form[1], dict)
        yield (name, *form) if is_pair else (name, form, {})


CALLS = [
    *rows(
        "produce",
        ((), {}),
        ("t",),
        RECORD,
        ("t", "v", "k", 0),
        (*RECORD, 0, ignore, None, 0, [("a", b"b")]),
        ((), {"topic": "t", "value": b"v", "key": "k", "partition": 3}),
        (RECORD, {"callback": ignore}),
        (RECORD, {"callback": ignore, "on_delivery": ignore}),
        (RECORD, {"on_delivery": None}),
        (5,),
        (None,),
        ("",),
        ("a\0b", b"v", b"k"),
        ("x" * 300, b"v", b"k"),
        ("t", 5, b"k"),
        ("t", b"v", 5),
        ("t", bytearray(b"v"), b"k"),
        ("t", b"v", memoryview(b"k")),
        ("t", b"v", "\ud800"),
        *((*RECORD, partition) for partition in ("0", 1.5, None, -5, 2**40, True)),
        *((RECORD, {"timestamp": when}) for when in ("x", -1, 1.5, None, 2**70, 9)),
        *(
            (RECORD, {"headers": headers})
            for headers in (
                5,
                "ab",
                [],
                {},
                {"a": b"b"},
                (("a", "b"),),
                [("a", None)],
                [("a",)],
                [("a", 5)],
                [(1, b"b")],
                [["a", b"b"]],
            )
        ),
        (RECORD, {"nope": 1}),
        (*RECORD, 0, ignore, None, 0, [], 1),
        ("t", b"x" * 2_000_000, b"k"),
    ),
    *rows(
        "produce_batch",
        ("t",),
        ("t", None),
        ("t", []),
        ("t", (GOOD,)),
        ("t", [GOOD]),
        ((), {"topic": "t", "messages": [GOOD]}),
        ("t", [GOOD], 0),
        ("t", [GOOD], 0, ignore),
        (("t", [GOOD]), {"partition": 0}),
        (("t", [GOOD]), {"partition": "x"}),
        (("t", [GOOD]), {"callback": ignore}),
        (("t", [GOOD]), {"nope": 1}),
        (None, [GOOD]),
        (5, [GOOD]),
        ("t", [{}]),
        ("t", [5]),
        ("t", [GOOD, 5]),
        ("t", [GOOD, {"value": 5}, GOOD]),
        ("t", [GOOD, {"value": b"v", "key": 5}]),
        ("t", [GOOD, {**GOOD, "partition": "0"}]),
        ("t", [GOOD, {**GOOD, "value": b"x" * 2_000_000}, GOOD]),
        ("t", [{**GOOD, "nope": 5}]),
    ),
    *rows(
        "flush",
        *((0,), (0.01,), ("5",), (None,), (0, 1)),
        *(((), {"timeout": 0}), ((), {"nope": 1})),
    ),
    *rows("poll", ("5",), (None,), (0, 1), ((), {"nope": 1})),
    *rows(
        "purge",
        *((), (True, False, True), (False, False, False), (5,), ("x",), (1, 2, 3, 4)),
        ((), {"in_queue": True, "in_flight": False, "blocking": False}),
        *(((), {"blocking": None}), ((), {"nope": 1})),
    ),
    *rows(
        "list_topics",
        *(("t", 0.01), ("t", "x"), (5, 0.01)),
        *(((), {"topic": "t", "timeout": 0.01}), ((), {"nope": 1})),
    ),
    *(
        row
        for name in ("init_transactions", "commit_transaction", "abort_transaction")
        for row in rows(name, (), (0.1,), ("x",), (1, 2))
    ),
    *rows("begin_transaction", (), (1,), ((), {"nope": 1})),
    *rows(
        "send_offsets_to_transaction",
        *((), ([],), ([], None), (5, None), ([5], object())),
        ([TopicPartition("t", 0, 1)], object()),
    ),
    *rows(
        "set_sasl_credentials",
        *(("u", "p"), ("u",), (5, "p"), (None, None)),
        ((), {"username": "u", "password": "p"}),
    ),
    *rows("__len__", (1,)),
]


@pytest.fixture(scope="module")
def pairs():
    """A bare and a guarded producer that are open, and two that are closed."""

    def pair():
        told = [], []
        configs = [
            {
                **CONFIG,
                "on_delivery": lambda _, message, told=each: told.append(
                    (message.topic(), message.key(), message.value())
                ),
            }
            for each in told
        ]
        bare = Producer(configs[0])
        ours = guard(factory=Producer, config=configs[1], topics=TOPICS)
        return (bare, told[0]), (ours, told[1])

    opened, closed = pair(), pair()
    for producer, _ in closed:
        producer.close()
    yield {"open": opened, "closed": closed}
    for producer, _ in opened:
        producer.close()


def outcome(producer, name, args, kwargs):
    """Return what a call has returned or raised."""
    args = [each.copy() if isinstance(each, list) else each for each in args]
    try:
        return getattr(producer, name)(*args, **kwargs)
    except Exception as error:
        return error


def told_of(producer, told):
    """Drop what the call has left, and return which records were told."""
    producer.purge()
    producer.flush(LONG_S)
    records = told.copy()
    told.clear()
    return records


def code(error):
    """Return the client's code of an error."""
    return error.args[0].code() if isinstance(error, KafkaException) else None


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_guarded_call_takes_and_refuses_what_the_bare_one_does(pairs, state):
    """The type of a result, the class and code of an error, and the records sent.

    A closed producer may look at the types first.
    """
    differences = []
    for name, args, kwargs in CALLS:
        found = []
        for producer, told in pairs[state]:
            result = outcome(producer, name, args, kwargs)
            records = told_of(producer, told) if state == "open" else []
            found.append((result, records))
        (bare, theirs), (ours, mine) = found
        if isinstance(bare, Exception):
            classes = type(bare) if state == "open" else (type(bare), TypeError)
            is_same = isinstance(ours, classes)
            is_same = is_same and code(bare) in (None, code(ours))
        else:
            is_same = type(bare) is type(ours)
            is_same = is_same and (name != "produce_batch" or bare == ours)
        if not is_same or theirs != mine:
            call = f"{name}{args!r:.60} {kwargs!r:.60}"
            differences.append((call, repr(bare), repr(ours), len(theirs), len(mine)))
    assert differences == []


def test_a_batch_with_a_wrong_message_sends_nothing(pairs):
    """Else the caller does not know which records were sent, and sends them again."""
    _, (ours, told) = pairs["open"]
    for wrong in (5, {"value": 5}, {"timestamp": "x"}, {"callback": 5}):
        with pytest.raises(TypeError, match="message 1"):
            ours.produce_batch("t", [GOOD, wrong])
    assert told_of(ours, told) == []


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        *rows("produce", (RECORD, {"on_delivery": 5}), (RECORD, {"callback": 5})),
        *rows("flush", (True,)),
        *rows("close", ("x",), ((), {"nope": 1})),
    ],
)
def test_the_guard_refuses_arguments_that_the_bare_client_ignores(
    pairs, name, args, kwargs
):
    """A callback that cannot be called would fail in a later poll."""
    _, (ours, told) = pairs["open"]
    assert isinstance(outcome(ours, name, args, kwargs), TypeError)
    assert told_of(ours, told) == []


def test_offsets_of_a_wrong_type_do_not_hide_that_the_producer_is_closed(pairs):
    """A closed producer raises ClientClosedError before it looks at its arguments."""
    _, (ours, _) = pairs["closed"]
    for offsets in (5, [5]):
        with pytest.raises(errors.ClientClosedError):
            ours.send_offsets_to_transaction(offsets, object())
