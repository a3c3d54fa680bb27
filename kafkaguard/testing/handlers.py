"""``run_handler``: the machine of ``consumer.process()`` without a broker.

The clock is simulated: waits cost no time, and handlers take none.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, get_args

from kafkaguard._cluster.reports import TopicPartition
from kafkaguard._common.arguments import one_of, whole_number
from kafkaguard._processing.class_names import warn_of_unknown
from kafkaguard._processing.handling import CURRENT, handle, handle_batch
from kafkaguard._processing.machine import ProcessingMachine
from kafkaguard._processing.policy import Order
from kafkaguard._processing.work import Commit, End, SendLetter
from kafkaguard_policies.reading.sources import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaguard._processing.report import ProcessReport
    from kafkaguard._processing.work import Chunk

#: The topic of records that name none.
_TOPIC: Final = "records"
#: After so many simulated seconds a run ends, whatever it waits for.
_LONGEST_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class HandlerAttempt:
    """One call of the handler, of a run without a broker.

    Attributes:
        time: Simulated seconds since the begin of the run.
        topic: The record's topic.
        partition: Its partition.
        offset: Its offset.
        error: The class of what the handler raised; None: it returned.
    """

    time: float
    topic: str
    partition: int
    offset: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that was set aside, of a run without a broker.

    Attributes:
        record: The record.
        topic: The dead-letter topic.
        error: The last exception of its handler.
        attempts: How often it was handled.
    """

    record: Any
    topic: str
    error: BaseException
    attempts: int


@dataclass(frozen=True, slots=True)
class HandlerRun:
    """What a run without a broker has done.

    Attributes:
        report: The counts, as of ``consumer.process()``.
        letters: The records that were set aside.
        attempts: The calls of the handler, in their order.
        seconds: The simulated time that the run took.
        error: The error that ended it; None: all records were handled.
    """

    report: ProcessReport
    letters: tuple[Letter, ...]
    attempts: tuple[HandlerAttempt, ...]
    seconds: float
    error: BaseException | None


def run_handler(
    handler: Callable[[Any], object],
    records: Iterable[Any],
    *,
    policy: Any = "default",
    order: Order = "partition",
    workers: int = 1,
    batch: int | None = None,
    seed: int = 0,
) -> HandlerRun:
    """Handle records as ``consumer.process()`` does, without a broker, in no time.

    Args:
        handler: The function, or coroutine function, that handles a record.
        records: Records of any client, or anything else: what has no topic, partition
            and offset is the next record of one partition, without a key.
        policy: As for ``guard()``.
        order: As for ``process()``.
        workers: The same. One call runs at a time, whatever the number.
        batch: The same.
        seed: The seed of the waits' random numbers.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        PolicyError: The policy cannot be used.
    """
    one_of("run_handler(): order", order, get_args(Order))
    whole_number("run_handler(): workers", workers, lowest=1)
    if batch is not None:
        whole_number("run_handler(): batch", batch, lowest=1)
    loaded = load_policy(policy)
    warn_of_unknown(loaded.handler)
    call = handler
    if inspect.iscoroutinefunction(handler):
        call = lambda record: asyncio.run(handler(record))  # noqa: E731 - a wrapper of one line
    return _Run(call, records, loaded, order, workers, batch, seed).run()


class _Run:
    def __init__(
        self,
        handler: Callable[[Any], object],
        records: Iterable[Any],
        policy: Any,
        order: Order,
        workers: int,
        batch: int | None,
        seed: int,
    ) -> None:
        self._handler = handler
        self._batch = batch
        self._logs: defaultdict[TopicPartition, list[Any]] = defaultdict(list)
        self._places: dict[int, tuple[TopicPartition, int]] = {}
        self._kept = list(records)  # so that an id is of one record
        for record in self._kept:
            place, offset = self._place_of(record)
            self._places[id(record)] = place, offset
            self._logs[place].append(record)
        self._machine = ProcessingMachine(
            policy,
            order=order,
            workers=workers,
            batch=batch,
            offset_of=self._offset_of,
            key_of=_key_of,
            random=Random(seed).random,  # noqa: S311 - only waits are drawn
            client="run_handler",
            until_end=True,
        )
        self._now = 0.0
        self._letters: list[Letter] = []
        self._attempts: list[HandlerAttempt] = []

    def _place_of(self, record: Any) -> tuple[TopicPartition, int]:
        if not hasattr(record, "topic"):
            place = TopicPartition(_TOPIC, 0)
            return place, len(self._logs[place])
        topic, partition, offset = (
            _read(record, name) for name in ("topic", "partition", "offset")
        )
        return TopicPartition(topic, partition), offset

    def _offset_of(self, record: Any) -> int:
        return self._places[id(record)][1]

    def run(self) -> HandlerRun:
        """Run until all records are done, or an error ends it."""
        machine = self._machine
        machine.assigned(self._logs, 0.0)
        for place, log in self._logs.items():
            log.sort(key=self._offset_of)
            machine.ends({place: self._offset_of(log[-1]) + 1})
            machine.fetched(place, log, 0.0)
        if not self._logs:
            machine.stop(0.0)
        end = None
        while end is None:
            end = self._execute()
            chunk = None if end else machine.take(self._now)
            if chunk is not None:
                self._work(chunk)
            elif end is None:
                self._now = max(self._now, machine.next_due())
                if self._now > _LONGEST_S:
                    machine.stop(self._now)
                machine.tick(self._now)
        return HandlerRun(
            machine.report(),
            tuple(self._letters),
            tuple(self._attempts),
            self._now,
            end.error,
        )

    def _execute(self) -> End | None:
        """Execute commands; return that of the end."""
        while commands := self._machine.take_commands():
            for each in commands:
                match each:
                    case Commit(number, _):
                        self._machine.committed(number, {}, self._now)
                    case SendLetter():
                        letter = Letter(
                            each.record, each.topic, each.error, each.attempts
                        )
                        self._letters.append(letter)
                        self._machine.letter_sent(each, None, self._now)
                    case End():
                        return each
        return None

    def _work(self, chunk: Chunk) -> None:
        work = handle if self._batch is None else handle_batch
        token = CURRENT.set((chunk, float, self._offset_of))
        try:
            attempted, failures = work(chunk, self._handler, None)
        finally:
            CURRENT.reset(token)
        whole = failures.get(-1)
        for index in range(attempted):
            place, offset = self._places[id(chunk.records[index])]
            error = failures.get(index, whole)
            name = None if error is None else type(error).__qualname__
            self._attempts.append(HandlerAttempt(self._now, *place, offset, name))
        self._machine.finished(chunk, attempted, failures, self._now)


def _read(record: Any, name: str) -> Any:
    """Read an attribute of a record, or call its method of that name."""
    value = getattr(record, name)
    return value() if callable(value) else value


def _key_of(record: Any) -> Any:
    return _read(record, "key") if hasattr(record, "topic") else None
