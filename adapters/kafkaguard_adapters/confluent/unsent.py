"""Errors of records that were never sent, because the client got no producer id."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from kafkaguard._delivery.judging import NO_PRODUCER_ID
from kafkaguard._verdicts.classification import classify
from kafkaguard_adapters.confluent.errors import errors

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from kafkaguard._errors import KafkaGuardError


def id_is_refused(error: KafkaError) -> bool:
    """Return whether asking for a producer id again does not help.

    Args:
        error: Why the client got none so far.
    """
    return not classify(KafkaException(error), api="InitProducerId").retriable


def without_id(
    error: KafkaError, topic: str, partition: int | None = None
) -> KafkaGuardError:
    """Make the error of a record that needs a producer id, which brokers refuse.

    Args:
        error: The client's error about the id.
        topic: The record's topic.
        partition: The partition that the client chose, if known.
    """
    cause = KafkaException(error)
    refused = classify(cause, api="InitProducerId")
    return errors.translate(
        cause,
        message=(
            "the client got no producer id (InitProducerId), which it needs with "
            "enable.idempotence, so it sent nothing: use brokers that give producer "
            "ids to this client, or set enable.idempotence to false, with which the "
            "client may write a record twice"
        ),
        verdict=replace(NO_PRODUCER_ID, error_class=refused.error_class),
        api="Produce",
        topic=topic,
        partition=partition,
    )
