"""The transactions of one transactional id, with confluent-kafka."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer

from kafkaguard._errors import ClientTimeoutError, RecordPurgedError
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.spark.client_config import silent_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.spark.once.offsets import Home
    from kafkaguard_adapters.spark.once.rules import Marker, Plan

#: Seconds for a call of the client that needs answers of brokers.
_CALL_S = 60.0
#: Seconds for an abort; what is not aborted ends with the next init of the id.
_ABORT_S = 5.0


def transactional(
    client: Mapping[str, str], transactional_id: str, timeout: float
) -> dict[str, str]:
    """Return the settings of a producer with transactions.

    Args:
        client: The settings of the write's producer.
        transactional_id: The id.
        timeout: Seconds after which brokers abort a transaction that is still open.
    """
    return {
        "transaction.timeout.ms": str(round(timeout * 1000)),
        # librdkafka connects to one more broker after half of this time.
        "reconnect.backoff.ms": "20",
        **client,
        "transactional.id": transactional_id,
    }


def open_producer(
    client: Mapping[str, str], home: Home, shard: int | None, timeout: float
) -> Transaction:
    """Return a producer of its own for the transactions of a shard, or the driver."""
    config = transactional(client, home.id_of(shard), timeout)
    return Transaction(Producer(config, logger=silent_logger()), home, shard)


class Transaction:
    """Takes an id over, and commits an entry in a transaction.

    Args:
        producer: The producer, with a transactional id.
        home: Where entries are committed.
        shard: The shard that the id belongs to; None: the driver.
    """

    def __init__(self, producer: Any, home: Home, shard: int | None) -> None:
        self._producer = producer
        self._home = home
        self._shard = shard
        self._is_open = False
        self._began = 0.0

    def init(self) -> None:
        """Take over the id: an earlier copy is fenced, its transaction has ended.

        A client that is connected to a broker asks for the coordinator at once;
        otherwise after half a second. The first answer may be a bootstrap server's,
        whose connection librdkafka then closes.

        Raises:
            KafkaGuardError: The id was not taken over.
        """
        topics = self._producer.list_topics
        for _ in range(2):
            self._call("Metadata", lambda left: topics(self._home.topic, left))
        self._call("InitProducerId", self._producer.init_transactions)

    def begin(self) -> None:
        """Begin a transaction."""
        self._producer.begin_transaction()
        self._is_open, self._began = True, time.monotonic()

    def commit(self, entry: Marker | Plan) -> float:
        """Commit an entry, with the open transaction or in a new one.

        Returns:
            For how long the transaction was open, in seconds.

        Raises:
            KafkaGuardError: It was not committed, or no answer says that it was.
        """
        if not self._is_open:
            self.begin()
        group = group_metadata(self._home.place_of(self._shard)[0])
        offsets = [self._home.offset_of(self._shard, entry)]
        send = self._producer.send_offsets_to_transaction
        self._call("TxnOffsetCommit", lambda left: send(offsets, group, left))
        # A commit without an answer may have succeeded, so nothing is aborted any more.
        self._is_open = False
        self._call("EndTxn", self._producer.commit_transaction)
        return time.monotonic() - self._began

    def abort(self) -> None:
        """Abort the open transaction, if brokers answer soon."""
        if self._is_open:
            self._is_open = False
            try:
                self._producer.abort_transaction(_ABORT_S)
            except KafkaException:
                return  # the next init of the id ends it

    def cause_of(self, error: KafkaGuardError) -> Exception:
        """Return why the transaction failed, if a record was purged only for that."""
        if isinstance(error, RecordPurgedError):
            try:
                self._producer.begin_transaction()  # which is refused, with the cause
            except KafkaException as cause:
                if cause.args[0].txn_requires_abort():
                    return self._error_of(cause, "AddPartitionsToTxn")
        return error

    def _call(self, api: str, call: Callable[[float], Any]) -> None:
        """Call the client until it succeeds, or fails for good."""
        end = time.monotonic() + _CALL_S
        while True:
            left = end - time.monotonic()
            try:
                call(max(left, 1.0))
            except KafkaException as error:
                if left <= 0 or not error.args[0].retriable():
                    raise self._error_of(error, api) from error
            else:
                return

    def _error_of(self, error: Any, api: str) -> Exception:
        who = self._home.id_of(self._shard)
        if api == "EndTxn" and error.args[0].retriable():
            text = (
                f"the commit of {who} got no answer within {_CALL_S:g} s; the next "
                "attempt finds out whether it is committed"
            )
            return errors.make(ClientTimeoutError, text, api=api)
        context, text = {"transactional": True}, f"{who}: {error.args[0].str()}"
        return errors.translate(error, api=api, context=context, message=text)


@lru_cache(maxsize=1024)
def group_metadata(group: str) -> Any:
    """Return what the client needs to commit offsets of a group without a member."""
    config = {"group.id": group, "bootstrap.servers": ""}
    consumer = Consumer(config, logger=silent_logger())
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()
