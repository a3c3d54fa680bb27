"""Errors of transactional calls, each with the next step. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition
from kafka.errors import (
    BrokerResponseError,
    KafkaTimeoutError,
    RetriableError,
)
from kafka.structs import OffsetAndMetadata

from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import ClientClosedError, ClientStateError
from kafkaguard_adapters.kafka_python._private import reading
from kafkaguard_adapters.kafka_python.errors import errors
from kafkaguard_adapters.producing.transaction_words import (
    COMMIT,
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
_COMMIT_IN_DOUBT = classify(KafkaTimeoutError(), api="EndTxn", phase="commit")
_OUT_OF_ORDER = ("Invalid transition", "not in an active transaction")


def not_transactional(call: Call) -> KafkaGuardError:
    """Make the error for a transactional call of another kind of producer."""
    return errors.make(
        ClientStateError,
        f"{call.method}() is for a producer with a transactional_id, and this one has "
        "none: build it with KafkaProducer(transactional_id=...)",
    )


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
        TypeError: ``offsets`` is not a dict {TopicPartition: OffsetAndMetadata}.
    """
    if isinstance(offsets, Mapping) and all(
        isinstance(place, TopicPartition) and isinstance(offset, OffsetAndMetadata)
        for place, offset in offsets.items()
    ):
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


def not_in_time(call: Call, happened: str) -> KafkaGuardError:
    """Make the error of a call that has waited for ``max_block_ms``."""
    context = {"transactional": True, "phase": call.phase}
    return errors.translate(
        KafkaTimeoutError(happened), message=happened, api=call.api, context=context
    )


def unconfirmed(offsets: Any, group: Any, limit: float) -> str:
    """Return the text for offsets of a group that were not confirmed."""
    topics = ", ".join(sorted({place.topic for place in offsets})) or "no topic"
    return (
        f"the offsets of group {getattr(group, 'group_id', group)} for {topics} were "
        f"not confirmed within {limit:g} s (max_block_ms): the group's coordinator "
        "does not answer, or the brokers do not know one of the topics or partitions. "
        "Call the same method again to wait for longer, or abort_transaction()"
    )


def is_out_of_order(error: BaseException) -> bool:
    """Return whether the client's error means that calls came in a wrong order."""
    return any(text in str(error) for text in _OUT_OF_ORDER)


def out_of_order(error: BaseException, call: Call, state: str) -> KafkaGuardError:
    """Make the error of a call in a wrong order; the client is not dead."""
    return errors.translate(
        error,
        message=f"{call.method}() was called in a wrong order and did nothing: "
        f"{words.next_step(state)}",
        verdict=OUT_OF_ORDER_CALL,
    )


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


def commit_in_doubt(error: BaseException) -> KafkaGuardError:
    """Make the error for a commit whose answer was lost."""
    said = errors.translate(
        error,
        message="kafka-python gave up before the commit was answered "
        f"({reading.unwrapped(error)}): the transaction may have been committed. "
        "Look in the topic before you send its records again; begin_transaction(), or "
        "init_transactions() of a new producer with the same transactional_id, makes "
        "sure that it is either committed or aborted",
        api=COMMIT.api,
        verdict=_COMMIT_IN_DOUBT,
    )
    said.original_text = None
    return said


def abort_first(
    error: BaseException, failed: KafkaGuardError, call: Call
) -> KafkaGuardError:
    """Make the error of a call in a transaction that can only be aborted.

    Args:
        error: The client's exception.
        failed: The earlier failure in this transaction.
        call: The call.
    """
    made = words.abort_first(failed, call, error)
    if hasattr(made, "errno"):
        made.__dict__["errno"] = made.code
    return made
