"""Warn early about a dead-letter topic that is missing, compacted or forbidden.

A record fails if its dead letter cannot be delivered. So the guard looks up the
dead-letter topic when the client is wrapped. If its name depends on the record's topic,
the guard looks it up when the first batch of that topic begins.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkaguard._cluster.topic_settings import TopicSettings
from kafkaguard._common.logs import Log
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.asking import topic_settings
from kafkaguard_adapters.wire.cluster import Cluster
from kafkaguard_adapters.wire.io_thread import start
from kafkaguard_policies.model.policy import ways_of_rejecting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaguard._cluster.reports import Make
    from kafkaguard_adapters.wire.settings import Settings
    from kafkaguard_policies.retry_policy import RetryPolicy

_log = Log("producer")

_UNKNOWN: Final = 3
_DENIED: Final = 29
#: Seconds for one look-up; nothing waits for it.
_TIMEOUT_S: Final = 10.0


class LetterTopics:
    """Looks up dead-letter topics in the background, and logs problems.

    Args:
        policy: Determines whether there are dead letters, and their topics.
        settings: Returns the connection settings; may raise a ``KafkaGuardError``.
        make: Makes the client's errors.
        topics: Topics of the records, if they are already known.
    """

    def __init__(
        self,
        policy: RetryPolicy,
        settings: Callable[[], Settings],
        make: Make,
        topics: Iterable[str] = (),
    ) -> None:
        self._settings = settings
        self._make = make
        self._is_used = "dead_letter" in ways_of_rejecting(policy)
        self._name_for = policy.dead_letter.topic_for
        #: Topics of records, and the dead-letter topics that were looked up.
        self._topics: set[str] = set()
        self._letter_topics: set[str] = set()
        before, _, after = policy.dead_letter.topic.partition("{topic}")
        self._affixes = before, after
        if "{topic}" not in policy.dead_letter.topic:
            topics = ("",)
        for topic in topics:
            self.look_up_once(topic)

    def look_up_once(self, topic: str) -> None:
        """Look up the dead-letter topic of a topic, once; never waits or raises."""
        if topic in self._topics or not self._is_used:
            return
        self._topics.add(topic)
        name = self._name_for(topic)
        if name not in self._letter_topics and not self._is_for_letters(topic):
            self._letter_topics.add(name)
            start(self._look_up(name))

    def _is_for_letters(self, topic: str) -> bool:
        """Return whether a topic's name is the name of a dead-letter topic."""
        before, after = self._affixes
        return topic.startswith(before) and topic.endswith(after)

    async def _look_up(self, name: str) -> None:
        try:
            cluster = Cluster(self._settings(), self._make)
            try:
                problem = await _find_problem(cluster, name)
            finally:
                cluster.close()
        except KafkaGuardError as error:
            # If no broker answers, the errors of the records say so.
            _log.debug(
                "letter_topic_not_looked_up",
                "dead-letter topic %s could not be looked up: %s",
                name,
                error,
                topic=name,
                error=error,
            )
        else:
            if problem is not None:
                _log.warning(
                    "letter_topic_unfit",
                    "dead-letter topic %s %s",
                    name,
                    problem,
                    topic=name,
                )


async def _find_problem(cluster: Cluster, name: str) -> str | None:
    """Return the problem of a dead-letter topic, and what to do; None if it is fine."""
    deadline = asyncio.get_running_loop().time() + _TIMEOUT_S
    (topic,) = (await cluster.refresh(deadline, [name])).topics
    if topic.error_code == _UNKNOWN:
        if await topic_settings.creates_topics(cluster, deadline):
            return None
        return "does not exist: a record for it would fail instead. Create it"
    if topic.error_code == _DENIED:
        return (
            "is not visible to this user: a record for it would fail instead. Grant "
            "the ACLs Describe and Write on it"
        )
    settings = (await topic_settings.ask(cluster, [name], deadline)).get(name)
    if isinstance(settings, TopicSettings) and settings.compacted:
        return (
            "is compacted and refuses records without a key: such a record would fail "
            "instead. Set its cleanup.policy to delete"
        )
    return None
