"""Each next step is one that the user of each client can take."""

from __future__ import annotations

import re

import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import kafka
import pytest

import aiokafka
from kafkaguard._verdicts.rules import RULES

CLIENTS = {
    "kafka-python": (kafka.KafkaProducer, kafka.KafkaConsumer, kafka.KafkaAdminClient),
    "confluent-kafka": (
        confluent_kafka.Producer,
        confluent_kafka.Consumer,
        confluent_kafka.admin.AdminClient,
    ),
    "aiokafka": (
        aiokafka.AIOKafkaProducer,
        aiokafka.AIOKafkaConsumer,
        aiokafka.admin.AIOKafkaAdminClient,
    ),
}
#: What a sentence may ask for, and the calls of clients that do it.
STEPS = {
    "read again": {"poll", "getmany"},
    "abort": {"abort_transaction"},
    "same commit": {"commit_transaction"},
    "drain": {"flush"},
    "future or delivery report": {"send", "produce"},
    "log start and end": {"beginning_offsets", "get_watermark_offsets"},
    "reset": {"seek"},
}
#: Methods whose names are no ordinary words of a sentence.
CALLS = {"poll", "getmany", "getone"}
#: What a client does by itself, and what no user of one can.
BY_ITSELF = re.compile(
    r"(?<!has )\brefresh|\bre-?join|(?<!client )\bjoins?\b|find the coordinator"
    r"|(?<!client )must start again|throttle_time_ms"
)


def names_of(client):
    """List the public methods of a client."""
    return {
        name for cls in CLIENTS[client] for name in dir(cls) if not name.startswith("_")
    }


NAMES = {client: names_of(client) for client in CLIENTS}
#: What only some clients call so; a sentence that says it must say the others' word.
SOME = set.union(*NAMES.values()) - set.intersection(*NAMES.values())


def applies(rule, client):
    """Say whether a rule may decide about what a client has said."""
    clients = rule.when.get("client", (None,))
    return None in clients or client in clients


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.info.id)
def test_client_has_what_a_sentence_asks_for(rule, client):
    """A call that only some clients have stands beside one that this client has."""
    sentence = rule.info.sentence
    words = set(re.findall(r"[a-z]+(?:_[a-z]+)*", sentence))
    named = {word for word in words & SOME if "_" in word or word in CALLS}
    asked = [calls for step, calls in STEPS.items() if step in sentence]
    if named:
        asked.append(named)
    if applies(rule, client):
        assert [calls for calls in asked if not calls & NAMES[client]] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.info.id)
def test_nobody_is_asked_for_what_a_client_does_by_itself(rule):
    """No client has a call that refreshes metadata, or joins a group again."""
    assert BY_ITSELF.search(rule.info.sentence) is None
