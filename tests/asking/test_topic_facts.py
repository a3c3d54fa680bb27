"""What is known about topics, without a cluster: time is handed in."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from kafkaguard import TopicFacts, errors, load_policy
from kafkaguard._verdicts.topic_facts import TopicFactsCache
from kafkaguard.errors import TopicAuthorizationFailedError
from kafkaguard_adapters.asking.topic_facts import (
    NOTHING_KNOWN,
    AwaitedFactsLookup,
    TopicFactsLookup,
)
from kafkaguard_adapters.kafka_python.errors import errors as client_errors
from kafkaguard_adapters.producing.null_keys import NullKeyCheck

COMPACTED = TopicFacts(compacted=True)
OPEN = TopicFacts(compacted=False)


class Clock:
    """A clock that a test moves."""

    now = 1000.0

    def __call__(self):
        """Return the time."""
        return self.now


@pytest.fixture
def clock():
    """Begin at some time."""
    return Clock()


class TestCache:
    """Facts with a time of expiry."""

    def test_a_fact_expires_after_its_time(self, clock):
        """Up to the last moment it is known, then not."""
        cache = TopicFactsCache(ttl=60.0, clock=clock)
        cache.remember("t", COMPACTED)
        clock.now += 59.9
        assert cache.get("t") is COMPACTED
        clock.now += 0.1
        assert cache.get("t") is None

    def test_a_fact_may_have_a_time_of_its_own(self, clock):
        """A failed look-up is cached for a shorter time."""
        cache = TopicFactsCache(ttl=60.0, clock=clock)
        cache.remember("t", OPEN, ttl=5.0)
        clock.now += 5.0
        assert cache.get("t") is None

    def test_a_dropped_fact_is_gone(self, clock):
        """The hot path forgets it as well."""
        cache = TopicFactsCache(clock=clock)
        cache.remember("t", OPEN)
        cache.get("t")
        cache.drop("t")
        cache.drop("never seen")
        assert cache.get("t") is None
        assert "t" not in cache.null_keys_allowed

    def test_what_is_declared_stays(self, clock):
        """Neither time, nor a look-up, nor a broker changes the caller's word."""
        cache = TopicFactsCache({"t": COMPACTED}, ttl=1.0, clock=clock)
        cache.remember("t", OPEN)
        cache.drop("t")
        clock.now += 1e9
        assert cache.get("t") is COMPACTED

    def test_only_topics_that_are_not_compacted_are_harmless(self, clock):
        """A record without a key may pass there until the clock is looked at again."""
        cache = TopicFactsCache({"c": COMPACTED}, ttl=60.0, clock=clock)
        cache.remember("o", OPEN)
        cache.remember("unknown", TopicFacts())
        for topic in ("c", "o", "unknown", "never seen"):
            cache.get(topic)
        assert cache.null_keys_allowed == {"o", "unknown"}
        clock.now += 60.0
        cache.recheck_expiry()
        for topic in ("o", "unknown"):
            cache.get(topic)
        assert cache.null_keys_allowed == set()

    def test_a_topic_that_turns_out_compacted_is_harmless_no_more(self, clock):
        """A look-up for another purpose may find it."""
        cache = TopicFactsCache(clock=clock)
        cache.remember("t", OPEN)
        cache.get("t")
        cache.remember("t", COMPACTED)
        assert cache.null_keys_allowed == set()


class TestLookup:
    """Looked up once for all, and advisory."""

    def test_many_threads_ask_once(self):
        """Threads that ask about the same topic share one look-up."""
        asked, started, go_on = [], threading.Event(), threading.Event()

        async def ask(topic):
            asked.append(topic)
            started.set()
            await asyncio.to_thread(go_on.wait, 10)
            return COMPACTED

        lookup = TopicFactsLookup(ask, TopicFactsCache(), patience=10.0)
        answers = []
        workers = [
            threading.Thread(target=lambda: answers.append(lookup.facts("t")))
            for _ in range(8)
        ]
        for worker in workers:
            worker.start()
        started.wait(10)
        go_on.set()
        for worker in workers:
            worker.join(10)
        assert asked == ["t"]
        assert answers == [COMPACTED] * 8

    def test_a_denied_look_up_is_not_tried_again_before_its_time(self, clock, caplog):
        """At most one request for each time to live, and one warning at all."""
        asked = []

        async def ask(topic):
            asked.append(topic)
            raise TopicAuthorizationFailedError("no", topic=topic)

        cache = TopicFactsCache(ttl=300.0, clock=clock)
        lookup = TopicFactsLookup(ask, cache, patience=10.0, retry_after=30.0)
        with caplog.at_level(logging.WARNING, "kafkaguard"):
            assert lookup.facts("t") == TopicFacts()
            clock.now += 299.0
            assert lookup.facts("t") == TopicFacts()
            assert asked == ["t"]
            clock.now += 1.0
            assert lookup.facts("t") == TopicFacts()
        assert asked == ["t", "t"]
        (warning,) = caplog.records
        assert "DescribeConfigs" in warning.getMessage()

    def test_another_failure_is_tried_again_sooner(self, clock):
        """A broker that is away comes back."""
        answers = [ConnectionError("away"), COMPACTED]

        async def ask(topic):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        cache = TopicFactsCache(ttl=300.0, clock=clock)
        lookup = TopicFactsLookup(ask, cache, patience=10.0, retry_after=30.0)
        assert lookup.facts("t") == TopicFacts()
        clock.now += 30.0
        assert lookup.facts("t") is COMPACTED

    @pytest.mark.parametrize(
        ("patience", "mine"), [(0.01, None), (0.01, 9.0), (60.0, 0.01)]
    )
    def test_a_late_answer_still_counts(self, patience, mine):
        """Who could not wait went on without; the next one knows."""
        go_on = threading.Event()
        cache = TopicFactsCache()

        async def ask(topic):
            await asyncio.to_thread(go_on.wait, 10)
            return COMPACTED

        lookup = TopicFactsLookup(ask, cache, patience=patience)
        assert lookup.facts("t", mine) == TopicFacts()
        go_on.set()
        end = time.monotonic() + 10
        while lookup.facts("t") is not COMPACTED and time.monotonic() < end:
            time.sleep(0.001)
        assert lookup.facts("t") is COMPACTED


class TestAwaitedLookup:
    """The same in tasks."""

    def facts(self, ask, *topics, patience=10.0, cache=None):
        """Look topics up at the same time."""

        async def main():
            lookup = AwaitedFactsLookup(
                ask, cache or TopicFactsCache(), patience=patience
            )
            found = await asyncio.gather(*map(lookup.facts, topics))
            lookup.close()
            return found

        return asyncio.run(main())

    def test_all_who_wait_ask_once(self):
        """They get the same answer; what is known is not asked for."""
        asked = []

        async def ask(topic):
            asked.append(topic)
            return COMPACTED

        cache = TopicFactsCache({"known": OPEN})
        found = self.facts(ask, "t", "t", "known", cache=cache)
        assert found == [COMPACTED, COMPACTED, OPEN]
        assert asked == ["t"]

    def test_nothing_is_known_after_a_failure_or_too_late(self):
        """A look-up that fails or is too late returns unknown facts."""

        async def fail(topic):
            raise ConnectionError(topic)

        async def hang(_):
            await asyncio.Event().wait()

        assert self.facts(fail, "t") == [TopicFacts()]
        assert self.facts(hang, "t", patience=0.001) == [TopicFacts()]


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (errors.TopicAuthorizationFailedError(), "Grant the ACL DescribeConfigs"),
        (errors.SaslAuthenticationFailedError(), "Correct the credentials"),
        (errors.InvalidTopicError(), "This is not a valid topic name"),
        (errors.UnsupportedVersionError(), None),
    ],
)
def test_the_advice_fits_the_code(error, advice, caplog):
    """The warning about a failed look-up names the ACL only if rights are missing."""

    async def ask(_):
        raise error

    lookup = TopicFactsLookup(ask, TopicFactsCache(), patience=30)
    with caplog.at_level(logging.WARNING, "kafkaguard"):
        assert lookup.facts("t") == TopicFacts()
    (warning,) = caplog.messages
    known = ("Grant", "Correct the credentials", "not a valid")
    given = [each for each in known if each in warning]
    assert given == ([] if advice is None else [k for k in known if k in advice])


@pytest.mark.parametrize("topic", [None, 5, b"t", ["t"]])
def test_what_is_no_topic_is_not_looked_up(topic):
    """The client has its own TypeError for it; no broker is asked before."""

    async def ask(name):
        raise AssertionError(name)

    lookup = TopicFactsLookup(ask, TopicFactsCache())
    check = NullKeyCheck(lookup, client_errors, load_policy("default"))
    assert check.check(topic, None, None, None) is None


def test_facts_that_are_forgotten_at_once_are_not_known(monkeypatch):
    """A topic that is dropped while it is looked up."""

    async def ask(_):
        return COMPACTED

    cache = TopicFactsCache()
    lookup = TopicFactsLookup(ask, cache)
    assert lookup.facts("t") == TopicFacts(compacted=True)
    monkeypatch.setattr(cache, "get", lambda _: None)
    assert lookup.facts("t") == NOTHING_KNOWN
