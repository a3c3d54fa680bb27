"""Why a send of kafka-python has waited in vain, without a broker."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from kafka.errors import KafkaTimeoutError

from kafkaguard import Action
from kafkaguard_adapters.kafka_python.sending import Sending


def error_of(*, connected, denied=False, age_s=0.1):
    """Return the error of a send that used up its time."""
    metadata = SimpleNamespace(
        _last_successful_refresh_ms=(time.monotonic() - age_s) * 1000,
        brokers=lambda: [SimpleNamespace(node_id=1), SimpleNamespace(node_id=2)],
        unauthorized_topics={"t"} if denied else {"other"},
    )
    client = SimpleNamespace(connected=lambda node: connected and node == 2)
    producer = SimpleNamespace(
        config={"max_block_ms": 500},
        _metadata=metadata,
        _sender=SimpleNamespace(_client=client),
    )
    sending = Sending(set())
    sending.shell = SimpleNamespace(producer=producer, is_transactional=False)
    return sending.error_of(KafkaTimeoutError("no metadata"), "t", timeout=2)


@pytest.mark.parametrize(
    ("connected", "denied", "words", "action"),
    [
        (False, False, "no broker answers", Action.RETRY),
        (False, True, "no broker answers", Action.RETRY),
        (True, True, "this user may not see the topic", Action.CONFIGURE),
        (True, False, "the brokers do not know topic t", Action.CONFIGURE),
    ],
)
def test_a_send_that_waited_in_vain_names_the_cause(connected, denied, words, action):
    """One connection to any broker is enough to believe the metadata."""
    error = error_of(connected=connected, denied=denied)
    assert words in str(error)
    assert "nothing was sent within 0.5 s (max_block_ms)" in str(error)
    assert (error.verdict.action, error.verdict.written) == (action, "no")
    assert (error.topic, error.api) == ("t", "Produce")


def test_a_topic_is_not_called_missing_while_no_broker_answers_about_it():
    """The connection is there, and the last metadata is older than the send."""
    error = error_of(connected=True, age_s=0.6)
    assert "no broker has said in this time whether topic t exists" in str(error)
    assert (error.verdict.action, error.verdict.written) == (Action.RETRY, "no")
