"""A producer with its failures, kept for the next task of the Python worker.

A new idempotent producer waits half a second for its id, and Spark runs many short
tasks one after the other in the same worker. One that a task failed with is not kept.

A delivery report has topic, partition, key and value, and never the headers. So records
that may have headers are remembered until they are answered; plain ones are not.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaguard import errors as e
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.client_config import silent_logger
from kafkaguard_adapters.spark.executor.arrow import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FULL_QUEUE_WAIT_S = 0.05
_LAST_WORDS_S = 2.0

_Key = tuple[int, tuple[tuple[str, str], ...]]
#: At most one for each process; a forked process leaves its parent's alone.
_idle: dict[_Key, Sender] = {}


def borrow(config: Mapping[str, Any]) -> Sender:
    """Take the producer that the last task of this process left, or make one."""
    key = (os.getpid(), tuple(sorted((k, str(v)) for k, v in config.items())))
    found = _idle.pop(key, None)
    for other in [each for each in _idle if each[0] == key[0]]:
        del _idle[other]
    return found or Sender(config, key)


class Sender:
    """Hands records to a producer, and collects those that failed.

    Args:
        config: librdkafka's settings.
        key: Under which it is kept.
    """

    def __init__(self, config: Mapping[str, Any], key: _Key) -> None:
        from confluent_kafka import Producer

        self._key = key
        self._failed: list[tuple[Any, Record]] = []
        self._patience = float(config["delivery.timeout.ms"]) / 1000 + 5
        self._fatal: Any = None
        reports = {
            "on_delivery": self._note_plain,
            "delivery.report.only.error": True,
            "error_cb": self._note_fatal,
        }
        self._producer = Producer({**config, **reports}, logger=silent_logger())

    @property
    def has_failed(self) -> bool:
        """Whether a record has failed since the last look."""
        self._producer.poll(0)
        return bool(self._failed or self._fatal)

    def keep(self) -> None:
        """Leave it to the next task."""
        _idle[self._key] = self

    def discard(self) -> None:
        """Drop what was not sent yet."""
        self._producer.purge()
        self._producer.flush(_LAST_WORDS_S)

    def take_failed(self) -> list[tuple[Any, Record]]:
        """Return the records that failed since the last time, each with its error."""
        failed, self._failed = self._failed, []
        return failed

    def produce_plain(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Hand over topics, values and keys; what a record costs is decided here."""
        from confluent_kafka import KafkaException

        produce = self._producer.produce
        for topic, value, key in rows:
            try:
                produce(topic, value, key)
            except (BufferError, KafkaException):
                self.produce([Record(topic, key, value)])

    def produce(self, records: Iterable[Record]) -> None:
        """Hand over records with all that they have.

        Raises:
            KafkaGuardError: The queue stayed full for longer than a record may take.
        """
        from confluent_kafka import KafkaException

        for record in records:
            try:
                self._wait_and_produce(record)
            except e.KafkaGuardError:
                raise
            except KafkaException as error:
                self._failed.append((error.args[0], record))

    def flush(self) -> None:
        """Wait until every record has been answered.

        Raises:
            KafkaGuardError: Not in the time that a record may take, or the client is
                dead, since the brokers refuse it as a whole.
        """
        left = self._producer.flush(self._patience)
        if self._fatal is not None:
            raise errors.translate(self._fatal, api="InitProducerId")
        if left:
            raise errors.make(
                e.ClientTimeoutError,
                f"{left} records had no answer within {self._patience:g} s",
                api="Produce",
            )

    def _wait_and_produce(self, record: Record) -> None:
        topic, key, value, headers, partition, timestamp = record
        note = partial(self._note, record)
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    note,
                    timestamp=timestamp,
                    headers=headers,
                )
            except BufferError:
                self._producer.poll(_FULL_QUEUE_WAIT_S)
                continue
            return
        raise errors.make(
            e.ClientQueueFullError,
            f"the producer's queue stayed full for {self._patience:g} s: the brokers "
            "accept records more slowly than Spark sends them",
            topic=topic,
            api="Produce",
        )

    def _note_plain(self, error: Any, message: Any) -> None:
        self._note(
            Record(message.topic(), message.key(), message.value()), error, message
        )

    def _note(self, record: Record, error: Any, message: Any) -> None:
        """Note a failure, and the partition that the record was placed in."""
        partition = message.partition()
        if partition is not None:  # it came as far as that
            record = record._replace(partition=partition)
        self._failed.append((error, record))

    def _note_fatal(self, error: Any) -> None:
        """Note that the client is dead; without this it would raise within a flush."""
        if error.fatal():
            self._fatal = error
