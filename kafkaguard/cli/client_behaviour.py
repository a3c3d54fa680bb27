"""How each client reacts to an error by itself, from recordings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from kafkaguard import errors
from kafkaguard._errors.generated import BY_CODE, KAFKA_VERSION, RETRIABLE_CODES

JAVA = "Java, Spark"
NOT_RECORDED = "not recorded"


@dataclass(frozen=True, slots=True)
class Habits:
    """How the clients react when a request is answered with a code.

    Attributes:
        api: The request; None: there is no recording for any request.
        does: What each client does, by the client's name.
    """

    api: str | None
    does: dict[str, str]


def habits_of(code: int | None, api: str | None = None) -> list[Habits]:
    """Return how each client reacts to a code, for each recorded request.

    Args:
        code: The code. None: a condition that a client detects by itself.
        api: Only this request. Default: all.
    """
    if code is None:
        return []
    name = errors.for_code(code).name
    java = {JAVA: _java(code)}
    recorded = [
        Habits(answer["api"], {**answer["does"], **java})
        for answer in _recorded()["answers"]
        if answer["name"] == name and api in (None, answer["api"])
    ]
    nothing = dict.fromkeys(clients(), NOT_RECORDED)
    return recorded or [Habits(api, {**nothing, **java})]


def clients() -> tuple[str, ...]:
    """Return the names of the clients that were recorded."""
    return tuple(_recorded()["clients"])


def source(habits: list[Habits]) -> str:
    """Return the source of habits: the recorded versions, if there are any."""
    java = f"Java: the table of kafka-clients {KAFKA_VERSION}"
    if all(each.does[name] == NOT_RECORDED for each in habits for name in clients()):
        return java
    recorded = _recorded()
    versions = ", ".join(f"{n} {v}" for n, v in recorded["clients"].items())
    return f"{versions}: answered twice, on Kafka {recorded['kafka']}; {java}"


def _java(code: int) -> str:
    if code not in BY_CODE:
        return NOT_RECORDED
    if code in RETRIABLE_CODES:
        return "retriable: tries again within its time limit"
    return "not retriable: raises it, and the task fails"


@cache
def _recorded() -> dict[str, Any]:
    """Read the file that ``tests/testing/proxy/record_clients.py`` wrote."""
    text = (files("kafkaguard.cli") / "recorded_clients.json").read_text("utf-8")
    data: dict[str, Any] = json.loads(text)
    return data
