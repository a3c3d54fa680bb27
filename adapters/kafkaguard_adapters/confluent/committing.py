"""Commits of confluent-kafka: attempts, and events for failed commits.

The client's commit makes one attempt. If it fails, it raises one error for all
partitions and does not say which partition failed, or it returns a list in which each
refused partition has its error.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, Literal

from confluent_kafka import KafkaException, Message, TopicPartition

from kafkaguard._cluster.reports import as_partition, raise_gravest
from kafkaguard._consuming.commits import (
    OFFSET_COMMIT,
    CommitRun,
    OneForAll,
    failed_event,
)
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.consuming import commits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from confluent_kafka import Consumer

    from kafkaguard._cluster.reports import TopicPartition as Place
    from kafkaguard._consuming.machine import Policy
    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.confluent.reading import ConfluentConsumerShell
    from kafkaguard_adapters.consuming.driver import Driver


class Committing:
    """Makes commits, and records the failures of commits that nobody waits for.

    Args:
        consumer: The client's consumer.
        shell: Returns the assigned partitions.
        driver: Passes events to the application.
        policy: How long to wait between attempts.
        deadline: Seconds that a commit may take, with all attempts.
        commits_itself: Whether the client commits in the background.
    """

    def __init__(
        self,
        consumer: Consumer,
        shell: ConfluentConsumerShell,
        driver: Driver,
        policy: Policy,
        *,
        deadline: float,
        commits_itself: bool,
    ) -> None:
        self._consumer = consumer
        self._shell = shell
        self._driver = driver
        self._policy = policy
        self._deadline = deadline
        self._kind: Literal["auto", "async"] = "auto" if commits_itself else "async"
        self._is_under_way = False
        #: The reports of commits by ``commit_quietly``, with their offsets. Two commits
        #: may have the same ones: at a revocation, before the last one is answered.
        self._reports: list[tuple[frozenset[Any], Callable[[Any], object]]] = []

    def commit_quietly(
        self,
        offsets: list[TopicPartition],
        report: Callable[[Any], object],
        *,
        is_heard: bool,
    ) -> None:
        """Commit once, and report the refused partitions.

        Args:
            offsets: The offsets to commit.
            report: Called once, in a poll or in this call.
            is_heard: Whether the client calls ``record_result``; otherwise this waits.

        Raises:
            KafkaException: The client did not accept the commit.
        """
        if is_heard:
            self._consumer.commit(offsets=offsets, asynchronous=True)
            self._reports.append((_key_of(offsets), report))
            return
        answer = self._consumer.commit(offsets=offsets, asynchronous=False)
        report(_refused(None, answer))

    def record_result(self, error: Any, partitions: Sequence[TopicPartition]) -> None:
        """Record the result of a commit that nobody waits for."""
        key = _key_of(partitions or ())
        for index, (offsets, report) in enumerate(self._reports):
            if offsets == key:
                del self._reports[index]
                report(_refused(error, partitions))
                return
        commit_errors = _refused(error, partitions or ())
        if not self._is_under_way:
            self._driver.note(
                failed_event(
                    self._policy, commit_errors, kind=self._kind, client=errors.client
                )
            )

    def commit_and_wait(self, args: dict[str, Any]) -> list[TopicPartition]:
        """Commit, and retry the partitions that are refused for now.

        Args:
            args: The arguments of the client's ``commit``.

        Returns:
            What the client returns; each refused partition has its error.

        Raises:
            KafkaGuardError: The client raised an error instead of returning a list.
        """
        results = _read_offsets(args)
        attempt = CommitRun(
            self._policy,
            random.random,
            results or _read_place(args) or self._shell.assignment(),
            time.monotonic() + self._deadline,
            client=errors.client,
        )

        def once(places: Collection[Place]) -> Mapping[Place, KafkaGuardError]:
            offsets = [results[each] for each in places if each in results]
            is_again = offsets and attempt.errors
            call_args = {"offsets": offsets} if is_again else args
            try:
                answer = self._consumer.commit(**call_args, asynchronous=False)
            except KafkaException as error:
                if not places:
                    raise errors.translate(error, api=OFFSET_COMMIT) from error
                commit_errors = {each: _translate(error, each) for each in places}
                return OneForAll(commit_errors) if offsets else commit_errors
            results.update({as_partition(each): each for each in answer})
            return {
                as_partition(each): _translate(each.error, each)
                for each in answer
                if each.error is not None
            }

        self._is_under_way = True
        try:
            commits.commit(attempt, once, self._owned)
        finally:
            self._is_under_way = False
        self._driver.note(attempt.event())
        self._driver.tell()
        reported = {place for place, each in results.items() if each.error is not None}
        if not attempt.errors.keys() <= reported:
            raise_gravest(attempt.errors.values())
        return list(results.values())

    def commit_starts(self, starts: Mapping[Place, int]) -> None:
        """Commit where reading begins, before the client looks it up.

        Raises:
            KafkaException: The commit failed.
        """
        offsets = [TopicPartition(*place, at) for place, at in starts.items()]
        self._consumer.commit(offsets=offsets, asynchronous=False)

    def _owned(self) -> Collection[Place] | None:
        """Return the assigned partitions; None: the consumer only commits."""
        return self._shell.assignment() or None


def places_of(args: Mapping[str, Any]) -> list[Place]:
    """Return the partitions that a commit names."""
    return [*_read_offsets(args), *_read_place(args)]


def _read_offsets(args: Mapping[str, Any]) -> dict[Place, TopicPartition]:
    """Return the offsets in a commit's arguments; the client checks what they are."""
    value = args.get("offsets")
    offsets = value if isinstance(value, list) else ()
    return {as_partition(e): e for e in offsets if isinstance(e, TopicPartition)}


def _read_place(args: Mapping[str, Any]) -> list[Place]:
    """Return the partition of the message that a commit is about, if there is one."""
    message = args.get("message")
    if not isinstance(message, Message) or message.topic() is None:
        return []
    return [as_partition((message.topic(), message.partition()))]


def _key_of(partitions: Iterable[TopicPartition]) -> frozenset[Any]:
    return frozenset((each.topic, each.partition, each.offset) for each in partitions)


def _refused(
    error: Any, partitions: Iterable[TopicPartition]
) -> dict[Place, KafkaGuardError]:
    """Return the errors of the partitions that an answer refuses."""
    return {
        as_partition(each): _translate(each.error or error, each)
        for each in partitions
        if each.error is not None or error is not None
    }


def _translate(error: Any, place: Any) -> KafkaGuardError:
    return errors.translate(
        error, api=OFFSET_COMMIT, topic=place.topic, partition=place.partition
    )
