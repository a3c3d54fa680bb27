"""Send records again that were certainly not written and may succeed later.

The policy's attempts, waits and budget apply to all such records of a window together:
they have the same cause, so sending them again counts as one attempt.
"""

from __future__ import annotations

import random
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kafkaguard._errors import CorruptMessageError
from kafkaguard._errors.base import RETRIABLE_ACTIONS, Action
from kafkaguard._retries.budget import shared_budget
from kafkaguard._retries.machine import CallContext, Machine
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.policy import CLIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaguard._errors import KafkaGuardError
    from kafkaguard._retries.budget import RetryBudget
    from kafkaguard._retries.machine import Ruling
    from kafkaguard_adapters.spark.executor.arrow import SinkRecord
    from kafkaguard_adapters.spark.settings import SinkSettings

    FailedRecord = tuple[Any, SinkRecord]

#: librdkafka's code for a record that failed because of another one in its batch.
_MATE = -138
#: Codes for which another record of the batch is, or may be, to blame: the delivery
#: machine decides record by record.
_OF_A_MATE = frozenset({_MATE, CorruptMessageError.code})


class WindowAttempts:
    """The policy's attempts at the records of a task, one window after the other.

    As ``_delivery.attempts.Attempts``, but for all failed records of a window together,
    and before there is a machine.

    Args:
        settings: The settings of the write.
        now: The time in seconds.
        sleep: Waits.
        draw: Returns random numbers from 0 to below 1.
    """

    def __init__(
        self,
        settings: SinkSettings,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._now = now
        self._sleep = sleep
        self._draw = draw
        self._longest = float(settings.client["delivery.timeout.ms"]) / 1000
        self._opened = now()
        self._machine: Machine | None = None
        self._may_be_tried: dict[tuple[int, str | None], bool] = {}

    def open_window(self) -> None:
        """Note the time: records are given to the client from now on."""
        self._opened = self._now()

    def begin(self) -> None:
        """Count attempts from 0 again: earlier failures have their outcomes."""
        self._machine = None

    def may_be_tried(self, failure: FailedRecord) -> bool:
        """Return whether a record can be sent again unchanged after a wait."""
        error, record = failure
        kind = error.code(), record.topic
        if kind not in self._may_be_tried:
            translated, ruling = self._judge(error, record)
            self._may_be_tried[kind] = (
                error.code() not in _OF_A_MATE
                and translated.verdict.written == "no"
                and ruling.action in RETRIABLE_ACTIONS
            )
        return self._may_be_tried[kind]

    def fatal(self, failures: Sequence[FailedRecord]) -> KafkaGuardError | None:
        """Return the error of a record that is in doubt and fails the task, if any.

        The delivery machine would decide the same after it has looked at each record of
        the window, which takes a minute if all of half a million have timed out.
        """
        kinds = {(error.code(), r.topic): (error, r) for error, r in failures}
        for error, record in kinds.values():
            translated, ruling = self._judge(error, record)
            is_doubt = ruling.action is translated.verdict.action is Action.IN_DOUBT
            if is_doubt and ruling.in_doubt == "raise":
                return translated
        return None

    def wait(self, failures: Sequence[FailedRecord]) -> None:
        """Wait until the next attempt.

        Raises:
            KafkaGuardError: There is no next attempt: the policy has no attempts, time
                or budget left.
        """
        now = self._now()
        if self._machine is None:
            # The policy's time counts from when the record was sent. A record fails
            # after the client's longest attempt at the latest.
            sent = max(self._opened, now - self._longest)
            self._machine = Machine(sent, self._draw, bucket=self._budget)
        error, ruling = self._judge(*failures[0])
        step = self._machine.failed(error.verdict, ruling, now)
        if step.kind != "again":
            attempts = self._machine.attempts
            error.add_note(
                f"{len(failures):,} records were not written in {attempts} "
                f"{'attempt' if attempts == 1 else 'attempts'}; policy "
                f"{self._settings.policy.name} allows no further attempt "
                f"({step.reason})"
            )
            raise error
        self._sleep(step.wait)

    def succeeded(self) -> None:
        """Refill the budget: an attempt has delivered a record."""
        if self._budget is not None:
            self._budget.succeeded()

    def _judge(self, error: Any, record: SinkRecord) -> tuple[KafkaGuardError, Ruling]:
        partition = record.partition if record.partition >= 0 else None
        translated = errors.translate(
            error,
            topic=record.topic,
            partition=partition,
            api="Produce",
            context={"idempotent": False},
        )
        context = CallContext(api="Produce", topic=record.topic, client=CLIENT)
        policy = self._settings.policy
        return translated, policy.ruling(translated.verdict, context, translated)

    @cached_property
    def _budget(self) -> RetryBudget | None:
        budget = self._settings.policy.budget
        if budget is None:
            return None
        servers = self._settings.servers
        return shared_budget(servers, budget.capacity, budget.deposit)
