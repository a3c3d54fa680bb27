"""The page on what we need of the clients names what is used, in the right numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaguard_adapters.aiokafka._private.consuming import names as aiokafka_consumer
from kafkaguard_adapters.aiokafka._private.producing import names as aiokafka_producer
from kafkaguard_adapters.kafka_python._private import names as kafka_python_producer
from kafkaguard_adapters.kafka_python._private.consuming import (
    names as kafka_python_consumer,
)

PAGE = (Path(__file__).parents[2] / "docs/client_hooks.md").read_text()
ROOMS = {
    "kafka-python, producer": kafka_python_producer,
    "kafka-python, consumer": kafka_python_consumer,
    "aiokafka, producer": aiokafka_producer,
    "aiokafka, consumer": aiokafka_consumer,
}


def listed(module, word):
    """All names of a room's tables, those for members of a group too."""
    return [getattr(module, word), getattr(module, f"{word}_IN_GROUP", {})]


@pytest.mark.parametrize("room", ROOMS)
def test_page_has_each_replaced_method_and_the_numbers(room):
    """A new one needs a line that says what it is for."""
    used = sum(len(n) for t in listed(ROOMS[room], "USED") for n in t.values())
    replaced = [name for t in listed(ROOMS[room], "REPLACED") for _, name in t]
    assert f"| {room} | {used} | {len(replaced)} |" in PAGE
    assert [name for name in replaced if name not in PAGE] == []
