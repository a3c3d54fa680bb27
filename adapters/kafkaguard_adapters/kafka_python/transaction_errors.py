"""Errors of transactional calls, each with the next step. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition
from kafka.errors import (
    BrokerResponseError,
    RetriableError,
)
from kafka.structs import OffsetAndMetadata

from kafkaguard.errors import ClientClosedError
from kafkaguard_adapters.kafka_python._private import reading
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.producing.transaction_words import (
    OUT_OF_ORDER_CALL,
    SEND,
    Call,
    TransactionWords,
)

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError


INIT = Call("init_transactions", "InitProducerId")
#: Sends no request in kafka-python, unless a new producer takes over.
BEGIN = Call("begin_transaction", None)
words = TransactionWords(
    errors,
    "a new one with the same transactional_id calls init_transactions()",
    "init_transactions() comes first",
)

_SERVER_ERROR = -1
_OUT_OF_ORDER = ("Invalid transition", "not in an active transaction")


def closed(call: Call) -> KafkaGuardError:
    """Make the error for a transactional call of a closed producer."""
    return errors.make(
        ClientClosedError,
        f"this producer was closed before {call.method}(), which did nothing: build "
        "a new one with the same transactional_id",
    )


def check_offsets(offsets: Any) -> None:
    """Check the type of offsets before any request.

    Raises:
        TypeError: ``offsets`` is not a dict {TopicPartition: OffsetAndMetadata}, or an
            offset or leader epoch in it is not an int. The client cannot write such a
            request, and never ends the transaction after it.
    """
    if isinstance(offsets, Mapping) and all(
        isinstance(place, TopicPartition) and isinstance(offset, OffsetAndMetadata)
        for place, offset in offsets.items()
    ):
        for place, (offset, _, leader_epoch) in offsets.items():
            if not all(hasattr(n, "__index__") for n in (offset, leader_epoch)):
                raise TypeError(
                    f"send_offsets_to_transaction(offsets): {place.topic}, partition "
                    f"{place.partition}: offset and leader_epoch are ints (an unknown "
                    f"epoch is -1), not {offset!r} and {leader_epoch!r}"
                )
        return
    raise TypeError(
        "send_offsets_to_transaction(offsets): a dict "
        f"{{TopicPartition: OffsetAndMetadata}}; not {type(offsets).__name__}"
        f"{_kinds(offsets)}"
    )


def _kinds(offsets: Any) -> str:
    if not isinstance(offsets, Mapping):
        return ""
    kinds = {f"{type(k).__name__}: {type(v).__name__}" for k, v in offsets.items()}
    return f" {{{', '.join(sorted(kinds))}}}"


def is_out_of_order(error: BaseException) -> bool:
    """Return whether the client's error means that calls came in a wrong order."""
    return any(text in str(error) for text in _OUT_OF_ORDER)


def not_begun(error: BaseException, topic: str, state: str) -> KafkaGuardError:
    """Make the error for a record that is sent outside a transaction."""
    return errors.translate(
        error,
        message=f"nothing was sent, since {words.next_step(state)}",
        api=SEND.api,
        topic=topic,
        verdict=OUT_OF_ORDER_CALL,
    )


def may_be_done(result: Any) -> bool:
    """Return whether a failed commit may have been carried out nevertheless.

    Args:
        result: The client's result of the EndTxn request.
    """
    if not result.failed:
        return False
    cause = reading.unwrapped(result.exception)
    answered = isinstance(cause, BrokerResponseError) and not (
        isinstance(cause, RetriableError) or cause.errno == _SERVER_ERROR
    )
    return reading.was_lost(result) or not answered
