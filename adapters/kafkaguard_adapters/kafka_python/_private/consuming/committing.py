"""Commits of kafka-python: the broker's answer for each partition.

The client retries a whole commit until its timeout, reports one partition only, and
raises no error for commits that nobody waits for. So the guard replaces the method that
reads the answer: a commit of the guard ends with the first answer, and the guard
decides the next step. Answers are read on the client's own thread.
"""

# ruff: noqa: SLF001 - this module is for the use of private attributes

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from kafkaguard._consuming.commits import OFFSET_COMMIT
from kafkaguard_adapters.consuming.commits import read_refusals, spread_error
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._cluster.reports import TopicPartition
    from kafkaguard._errors import KafkaGuardError

    #: Called with the errors of a refused commit, and whether the user made the commit.
    Report = Callable[[dict[TopicPartition, KafkaGuardError], bool], None]


class _AnsweredError(KafkaError):  # type: ignore[misc]  # kafka-python is untyped
    """Ends the client's own retries of a commit after an answer with errors."""

    def __init__(self, refused: dict[TopicPartition, KafkaGuardError]) -> None:
        super().__init__("the commit was refused")
        self.refused = refused


class Committing:
    """Makes single attempts to commit, and reports commits that failed unnoticed.

    Args:
        consumer: The client's consumer.
        report: Called with the errors of a failed commit that nobody waits for, on any
            thread.
    """

    def __init__(self, consumer: Any, report: Report) -> None:
        self._subscription = consumer._subscription
        self._commit = consumer.commit
        self._commit_async = consumer.commit_async
        self._report = report
        coordinator = consumer._coordinator
        self._handle = coordinator._handle_offset_commit_response
        coordinator._handle_offset_commit_response = self._handle_response
        self._default = coordinator.config["default_offset_commit_callback"]
        coordinator.config["default_offset_commit_callback"] = self._auto_callback
        self._awaited: Any = None
        self._by_user: set[int] = set()
        self._quiet: set[int] = set()

    def consumed(self) -> dict[Any, Any]:
        """Return the offsets that a commit without arguments commits."""
        offsets: dict[Any, Any] = self._subscription.all_consumed_offsets()
        return offsets

    def owned(self) -> frozenset[Any] | None:
        """Return the assigned partitions; None if the user assigns them."""
        if not self._subscription.partitions_auto_assigned():
            return None
        return frozenset(self._subscription.assignment)

    def once(
        self, offsets: Mapping[Any, Any], timeout_ms: float
    ) -> dict[TopicPartition, KafkaGuardError]:
        """Commit, and return after the first answer.

        Returns:
            The errors of the partitions that were refused.

        Raises:
            KafkaError: There was no answer.
        """
        self._awaited = offsets
        try:
            self._commit(offsets, timeout_ms=timeout_ms)
        except _AnsweredError as answered:
            return answered.refused
        finally:
            self._awaited = None
        return {}

    def commit_quietly(
        self,
        offsets: Mapping[Any, Any],
        report: Callable[[dict[TopicPartition, KafkaGuardError]], object],
    ) -> None:
        """Commit without waiting; only ``report`` is told of a failure.

        Args:
            offsets: The offsets to commit.
            report: Called once with the errors of the refused partitions.
        """

        def ended(_: Any, outcome: Any) -> None:
            self._quiet.discard(id(offsets))
            is_refused = isinstance(outcome, Exception)
            refused = getattr(outcome, "refused", None) if is_refused else {}
            if refused is None:
                refused = spread_error(errors, offsets, outcome)
            report(refused)

        self._quiet.add(id(offsets))
        try:
            self._commit_async(offsets, ended)
        except KafkaError as error:
            self._quiet.discard(id(offsets))
            raise errors.translate(error, api=OFFSET_COMMIT) from error

    def callback_for(
        self, offsets: Any, callback: Callable[..., Any] | None
    ) -> Callable[..., Any]:
        """Return the callback that ``commit_async`` gets instead of the user's."""
        self._by_user.add(id(offsets))

        def call_with_report(offsets: Any, outcome: Any) -> Any:
            outcome = self._inspect(offsets, outcome)
            self._by_user.discard(id(offsets))
            return (callback or self._default)(offsets, outcome)

        return call_with_report

    def _auto_callback(self, offsets: Any, outcome: Any) -> Any:
        return self._default(offsets, self._inspect(offsets, outcome))

    def _inspect(self, offsets: Any, outcome: Any) -> Any:
        """Translate an exception; report it if the commit had no answer."""
        if not isinstance(outcome, Exception):
            return outcome
        if not getattr(outcome, "was_answered", False):
            self._report(
                spread_error(errors, offsets, outcome), id(offsets) in self._by_user
            )
        return errors.translate(outcome, api=OFFSET_COMMIT)

    def _handle_response(self, offsets: Any, send_time: Any, response: Any) -> None:
        """Read an answer, and keep the error of each partition."""
        try:
            self._handle(offsets, send_time, response)
        except KafkaError as error:
            partition_errors = read_refusals(errors, response)
            if offsets is self._awaited:
                raise _AnsweredError(partition_errors) from error
            error.was_answered = True
            error.refused = partition_errors
            if id(offsets) not in self._quiet:
                self._report(partition_errors, id(offsets) in self._by_user)
            raise
