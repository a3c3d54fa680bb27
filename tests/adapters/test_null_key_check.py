"""Which records are refused for want of a key, before anything is sent (KIP-135)."""

from __future__ import annotations

import pytest

from kafkaguard import Action, TopicFacts, errors, load_policy
from kafkaguard_adapters.kafka_python.errors import errors as client_errors
from kafkaguard_adapters.producing.null_keys import NullKeyCheck
from tests.own_log import own_records

DEFAULT = load_policy("default")
COMPACTED, PLAIN = TopicFacts(compacted=True), TopicFacts(compacted=False)


class Lookup:
    """What is known of topics at once, and what a look-up finds."""

    def __init__(self, known=None, found=COMPACTED):
        self._known, self._found = known, found
        self.looked = []

    def known(self, _topic):
        """What is known at once."""
        return self._known

    def facts(self, topic, patience=None):
        """Look it up."""
        self.looked.append((topic, patience))
        return self._found


class Serializer:
    """Makes of a key what a test says, or raises it."""

    def __init__(self, made):
        self._made = made

    def serialize(self, _topic, _headers, _data):
        """Return it."""
        if isinstance(self._made, Exception):
            raise self._made
        return self._made


def check(key, serializer=None, *, lookup=None, patience=None):
    """Whether a record with this key is refused, and what was looked up."""
    lookup = lookup or Lookup()
    one = NullKeyCheck(lookup, client_errors, DEFAULT)
    try:
        one.check("t", key, None, serializer, patience)
    except errors.InvalidRecordKeyError:
        return True, lookup.looked
    return False, lookup.looked


@pytest.mark.parametrize(
    ("known", "found", "is_refused", "looks"),
    [
        (None, COMPACTED, True, 1),
        (None, PLAIN, False, 1),
        (None, TopicFacts(), False, 1),
        (COMPACTED, COMPACTED, True, 1),
        (PLAIN, COMPACTED, False, 0),
        (TopicFacts(), COMPACTED, False, 0),
    ],
)
def test_a_missing_key_is_refused_for_a_compacted_topic(
    known, found, is_refused, looks
):
    """A topic that is not known is looked up; nothing else is."""
    refused, looked = check(None, lookup=Lookup(known, found), patience=3.0)
    assert (refused, looked) == (is_refused, [("t", 3.0)] * looks)


@pytest.mark.parametrize("key", [b"k", b"", b"null"])
def test_a_record_with_a_key_never_waits(key):
    """Empty is a key, and so is a text of one's own."""
    assert check(key) == (False, [])


@pytest.mark.parametrize(
    ("key", "made", "is_refused"),
    [
        ("k", b"k", False),
        ("k", b"", False),
        ("", None, True),
        (None, None, True),
        (None, b"x", False),
        ("k", ValueError(), False),
        (None, ValueError(), False),
        ("null", b"null", False),
    ],
)
def test_the_key_that_counts_is_the_one_that_would_be_sent(key, made, is_refused):
    """Where a serialiser fails, the client says so."""
    assert check(key, Serializer(made))[0] is is_refused


@pytest.mark.parametrize("text", [b"null", b"None"])
@pytest.mark.parametrize(
    ("disguised", "is_refused", "warnings", "looks"),
    [("warn", False, 1, 2), ("reject", True, 0, 2), ("send", False, 0, 0)],
)
def test_a_missing_key_in_disguise(
    text, disguised, is_refused, warnings, looks, caplog
):
    """As the policy says; a warning comes once for a topic."""
    lookup = Lookup()
    policy = load_policy({"disguised_null_key": disguised})
    one = NullKeyCheck(lookup, client_errors, policy)
    for _ in range(2):
        try:
            one.check("t", None, None, Serializer(text))
        except errors.InvalidRecordKeyError:
            assert is_refused
        else:
            assert not is_refused
    assert (len(own_records(caplog)), len(lookup.looked)) == (warnings, looks)


def test_a_disguise_is_none_where_the_topic_is_not_compacted(caplog):
    """A serialised key of None is neither refused nor reported outside compacted topics."""
    assert check(None, Serializer(b"null"), lookup=Lookup(None, PLAIN))[0] is False
    assert own_records(caplog) == []


def test_the_error_says_where_and_what_to_do():
    """Within a transaction that is to abort it."""
    for transactional, action in ((False, Action.REJECT), (True, Action.ABORT)):
        one = NullKeyCheck(
            Lookup(), client_errors, DEFAULT, transactional=transactional
        )
        with pytest.raises(errors.InvalidRecordKeyError) as caught:
            one.check("t", None)
        assert (caught.value.topic, caught.value.api) == ("t", "Produce")
        assert caught.value.verdict.action is action
        advice = "abort the transaction" if transactional else "give it a key"
        assert str(caught.value).lower().count(advice) == 1


def test_what_is_no_topic_is_the_clients_to_refuse():
    """The check passes a topic that is not text, and the client raises its own error."""
    lookup = Lookup()
    NullKeyCheck(lookup, client_errors, DEFAULT).check(3, None)
    assert lookup.looked == []


def test_a_policy_may_leave_null_keys_to_the_broker():
    """Nothing is looked up then, and no record is refused."""
    lookup = Lookup()
    one = NullKeyCheck(lookup, client_errors, load_policy({"null_key": "send"}))
    assert one.error_of(None, "t", None) is None
    one.check("t", None)
    assert lookup.looked == []
