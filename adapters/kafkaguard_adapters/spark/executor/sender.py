"""A producer with its failures, kept for the next task of the Python worker.

A new idempotent producer waits half a second for its id, and Spark runs many short
tasks one after the other in the same worker. So a producer is kept for the next task,
unless the task failed.

A delivery report has topic, partition, key and value, but not the headers. So records
that may have headers are kept until their reports arrive; plain records are not.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from kafkaguard import _errors as e
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.client_config import silent_logger
from kafkaguard_adapters.spark.executor.arrow import SinkRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FULL_QUEUE_WAIT_S = 0.05
_LAST_WORDS_S = 2.0
_GLANCE_S = 0.1

_Key = tuple[int, tuple[tuple[str, str], ...]]
#: At most one for each process; a forked process does not use its parent's.
_idle: dict[_Key, Sender] = {}


def borrow(config: Mapping[str, Any]) -> Sender:
    """Return the producer of the last task of this process, or a new one."""
    key = (os.getpid(), tuple(sorted((k, str(v)) for k, v in config.items())))
    sender = _idle.pop(key, None)
    for other in [each for each in _idle if each[0] == key[0]]:
        del _idle[other]
    return sender or Sender(config, key)


class Sender:
    """Gives records to a producer, and collects the failures.

    Args:
        config: librdkafka's settings.
        key: The key under which the producer is kept. Default: it is not kept.
    """

    def __init__(self, config: Mapping[str, Any], key: _Key = (0, ())) -> None:
        self._key = key
        self._failed: list[tuple[Any, SinkRecord]] = []
        self._patience = float(config["delivery.timeout.ms"]) / 1000 + 5
        self._fatal: Any = None
        reports = {
            "on_delivery": self._note_plain,
            "delivery.report.only.error": True,
            "error_cb": self._note_fatal,
        }
        self._producer = Producer({**config, **reports}, logger=silent_logger())

    @property
    def producer(self) -> Any:
        """confluent-kafka's producer."""
        return self._producer

    @property
    def has_failed(self) -> bool:
        """Whether a record has failed, or the client is dead."""
        self._producer.poll(0)
        return bool(self._failed or self._fatal)

    def keep(self) -> None:
        """Keep the producer for the next task."""
        _idle[self._key] = self

    def discard(self) -> None:
        """Drop the records that were not sent yet."""
        self._producer.purge()
        self._producer.flush(_LAST_WORDS_S)

    def take_failed(self) -> list[tuple[Any, SinkRecord]]:
        """Return the records that failed since the last call, each with its error."""
        failed, self._failed = self._failed, []
        return failed

    def produce_plain(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Give topics, values and keys to the producer; this loop is the hot path."""
        produce = self._producer.produce
        for topic, value, key in rows:
            try:
                produce(topic, value, key)
            except (BufferError, KafkaException):
                self.produce([SinkRecord(topic, key, value)])

    def produce(self, records: Iterable[SinkRecord]) -> None:
        """Give records to the producer, with headers, partition and timestamp.

        Raises:
            KafkaGuardError: The queue stayed full for longer than
                ``delivery.timeout.ms`` plus 5 s.
        """
        for record in records:
            try:
                self._wait_and_produce(record)
            except KafkaException as error:
                if isinstance(error, e.KafkaGuardError):
                    raise
                self._failed.append((error.args[0], record))

    def flush(self) -> None:
        """Wait until every record has its outcome.

        Raises:
            KafkaGuardError: Some records have no outcome within ``delivery.timeout.ms``
                plus 5 s; or the client is dead, because the brokers refuse it.
        """
        count = self._producer.flush(self._patience)
        if self._fatal is not None:
            raise errors.translate(self._fatal, api="InitProducerId")
        if count:
            raise errors.make(
                e.ClientTimeoutError,
                f"{count} records had no answer within {self._patience:g} s",
                api="Produce",
            )

    def flush_transaction(self) -> None:
        """As :meth:`flush`, but end after a failure: a transaction sends no more then.

        Raises:
            KafkaGuardError: As for :meth:`flush`.
        """
        end = time.monotonic() + self._patience
        while self._producer.flush(_GLANCE_S) and time.monotonic() < end:
            if self._failed or self._fatal:
                self.discard()
        self.flush()

    def _wait_and_produce(self, record: SinkRecord) -> None:
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
                    timestamp=timestamp or 0,  # 0: the time of sending
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
            SinkRecord(message.topic(), message.key(), message.value()), error, message
        )

    def _note(self, record: SinkRecord, error: Any, message: Any) -> None:
        """Keep a failure, with the partition that was chosen for the record."""
        partition = message.partition()
        if partition is not None:  # a partition was chosen
            record = record._replace(partition=partition)
        self._failed.append((error, record))

    def _note_fatal(self, error: Any) -> None:
        """Keep a fatal error; without ``error_cb`` a flush would raise it."""
        if error.fatal():
            self._fatal = error
