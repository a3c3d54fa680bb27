"""Look-ups of facts about topics: once for all who wait, cached, never required.

A look-up is advisory. Whatever goes wrong with it, the answer is "not known", the
record goes to the broker, and one warning says what is missing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkaguard._common.logs import Log
from kafkaguard._errors import (
    AuthenticationError,
    AuthorizationError,
    InvalidTopicError,
    KafkaGuardError,
    UnknownTopicOrPartitionError,
)
from kafkaguard._errors.base import Action
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.context import TopicFacts
from kafkaguard_adapters.wire.io_thread import run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kafkaguard._verdicts.topic_facts import TopicFactsCache

_log = Log("topics")

RETRY_AFTER_S = 30.0
PATIENCE_S = 1.0
NOTHING_KNOWN = TopicFacts()
#: What helps, by what went wrong.
REMEDIES: dict[type[KafkaGuardError], str] = {
    AuthorizationError: "Grant the ACL DescribeConfigs on the topic. ",
    AuthenticationError: "Correct the credentials. ",
    InvalidTopicError: "This is not a valid topic name: correct it. ",
}


def _find_remedy(error: type[KafkaGuardError]) -> str:
    remedies = (REMEDIES[cls] for cls in REMEDIES if issubclass(error, cls))
    return next(remedies, "")


class AwaitedFactsLookup:
    """Looks facts up in a task, once for all who wait for the same topic.

    Args:
        ask: Asks the cluster about a topic; may take long and may raise.
        cache: Where the answers are kept.
        patience: Seconds that a caller waits at most; after that the topic counts as
            not known until the answer comes.
        retry_after: Seconds until a look-up that failed is tried again. A denied one
            is not tried again before the cache's own time is over.
    """

    def __init__(
        self,
        ask: Callable[[str], Awaitable[TopicFacts]],
        cache: TopicFactsCache,
        *,
        patience: float = PATIENCE_S,
        retry_after: float = RETRY_AFTER_S,
    ) -> None:
        self._ask = ask
        self._cache = cache
        self._patience = patience
        self._retry_after = retry_after
        self._warned: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}

    async def facts(self, topic: str, patience: float | None = None) -> TopicFacts:
        """Return the facts of a topic; never raises.

        Args:
            topic: Its name.
            patience: Seconds that this caller waits, if that is less.
        """
        cached = self._cache.get(topic)
        if cached is not None:
            return cached
        task = self._running.get(topic)
        if task is None:
            task = self._running[topic] = asyncio.create_task(
                self._look_up(topic), name=f"kafkaguard-facts-{topic}"
            )
        limit = self._patience if patience is None else min(patience, self._patience)
        ended, _ = await asyncio.wait([task], timeout=limit)
        if not ended:
            self._cache.remember(topic, NOTHING_KNOWN, ttl=self._retry_after)
            self._warn(topic, f"no answer within {limit:g} s")
        return self._cache.get(topic) or NOTHING_KNOWN

    async def _look_up(self, topic: str) -> None:
        try:
            self._cache.remember(topic, await self._ask(topic))
        except Exception as error:  # noqa: BLE001 - advisory: any failure is "not known"
            self._give_up(topic, error)
        finally:
            del self._running[topic]

    def _give_up(self, topic: str, error: Exception) -> None:
        verdict = classify(error, api="DescribeConfigs")
        is_lasting = verdict.action is Action.CONFIGURE
        ttl = None if is_lasting else self._retry_after
        self._cache.remember(topic, NOTHING_KNOWN, ttl=ttl)
        if isinstance(error, UnknownTopicOrPartitionError):
            return  # the send itself says so
        reason = str(error) or type(error).__name__
        self._warn(topic, reason, _find_remedy(verdict.error_class))

    def _warn(self, topic: str, reason: str, remedy: str = "") -> None:
        if topic in self._warned:
            return
        self._warned.add(topic)
        _log.warning(
            "cleanup_policy_unknown",
            "cleanup.policy of topic %s could not be looked up (%s): the broker "
            "checks records without a key. %sTo avoid the look-up, declare "
            "topics={%r: TopicFacts(compacted=...)}.",
            topic,
            reason,
            remedy,
            topic,
            topic=topic,
        )

    def close(self) -> None:
        """End the look-ups that are running."""
        for task in self._running.values():
            task.cancel()


class TopicFactsLookup:
    """Looks facts up likewise, for callers that block: in the guard's own event loop.

    Args:
        ask: As for :class:`AwaitedFactsLookup`.
        cache: Where the answers are kept.
        settings: ``patience`` and ``retry_after``, in seconds.
    """

    def __init__(
        self,
        ask: Callable[[str], Awaitable[TopicFacts]],
        cache: TopicFactsCache,
        **settings: float,
    ) -> None:
        self._cache = cache
        self._awaited = AwaitedFactsLookup(ask, cache, **settings)

    def known(self, topic: str) -> TopicFacts | None:
        """Return what is known at once; None: it would have to be looked up."""
        return self._cache.get(topic)

    def facts(self, topic: str, patience: float | None = None) -> TopicFacts:
        """Return the facts of a topic; see :meth:`AwaitedFactsLookup.facts`."""
        return self._cache.get(topic) or run(self._awaited.facts(topic, patience))
