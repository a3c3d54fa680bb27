"""What each client does with an answer by itself, as the atlas has recorded it."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from kafkaguard._errors.generated import BY_CODE, KAFKA_VERSION, RETRIABLE_CODES

JAVA: Final = "Java, Spark"
NOT_RECORDED: Final = "not recorded"
#: A call that ends so many seconds before the answers has waited for their end.
_EARLY_S: Final = 0.5


class Observed(NamedTuple):
    """What a client did with one answer.

    Attributes:
        requests: How many requests of this kind it made.
        seconds: Until its call ended.
        error: The class that the call raised. ``AnsweredError``: it returned an answer
            with the code; ``SilenceError``: it neither returned nor raised; ``Hung``:
            it did not end within the time of the recording.
        raised: The code of the error.
        retriable: The error's own flag.
        written: How often the call's record is in the topic, or whether the call
            changed what it was made for; None: it changes nothing.
        lives: Whether a second call succeeded, without answers of the proxy; None:
            there is no client, because it could not be built.
        ended: Whether it could be closed in time.
        action: The next step that a guarded client told.
        told: Whether it was written, as a guarded client told.
    """

    requests: int | None
    seconds: float | None
    error: str | None
    raised: int | None
    retriable: bool | None
    written: int | None
    lives: bool | None
    ended: bool
    action: str | None
    told: str | None


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
    java = {JAVA: _java(code)}
    answers = atlas()["answers"]
    recorded = [
        Habits(each, {**_sentences(code, answers[each][str(code)]), **java})
        for each in ([api] if api else answers)
        if str(code) in answers.get(each, ())
    ]
    nothing = dict.fromkeys(atlas()["clients"], NOT_RECORDED)
    return recorded or [Habits(api, {**nothing, **java})]


def source(habits: list[Habits]) -> str:
    """Return the source of habits: how it was recorded, if there is a recording."""
    java = f"Java: the table of kafka-clients {KAFKA_VERSION}"
    recorded = atlas()
    if all(h.does[c] == NOT_RECORDED for h in habits for c in recorded["clients"]):
        return java
    versions = ", ".join(f"{n} {v}" for n, v in recorded["clients"].items())
    return (
        f"{versions}, with time limits of {recorded['policy']['deadline']} s: answered "
        f"once, and for {recorded['lasts']:g} s, on Kafka {recorded['kafka']}; {java}"
    )


@cache
def atlas() -> dict[str, Any]:
    """Read the file that ``python -m tests.atlas --write`` wrote."""
    content = (files("kafkaguard.cli") / "atlas.json.gz").read_bytes()
    data: dict[str, Any] = json.loads(gzip.decompress(content))
    return data


def sentence(code: int, observed: Observed, lasts: float) -> str:
    """Say what a client did with an answer.

    Args:
        code: The code of the answer.
        observed: What it did.
        lasts: The seconds for which the requests were answered so.
    """
    words = _outcome(code, observed, lasts)
    if observed.error is not None and observed.written is not None:
        words += "; not done" if observed.written == 0 else "; done"
    if (observed.written or 0) > 1:
        words = f"{words.removesuffix('; done')}; written {observed.written} times"
    return f"{words}; the client is dead" if observed.lives is False else words


def _outcome(code: int, observed: Observed, lasts: float) -> str:
    requests, error = observed.requests or 0, observed.error
    if error == "Hung":
        return "never returns"
    if not requests:
        return "does not ask"
    seconds = observed.seconds or 0.0
    if error is None:
        if seconds >= lasts - _EARLY_S:
            return f"asks until the answers end ({requests} requests)"
        return "asks again, and succeeds" if requests > 1 else "goes on"
    if error == "SilenceError":
        end = "neither returns nor raises"
    elif error == "AnsweredError":
        end = "returns the code"
    else:
        end = f"raises {error}"
        if observed.raised not in (None, code):
            end += f" with code {observed.raised}"
    if requests == 1:
        return end
    return f"{requests} requests in {seconds:.1f} s, then {end}"


def _sentences(code: int, cells: dict[str, list[list[Any] | None]]) -> dict[str, str]:
    lasts = atlas()["lasts"]
    said = {}
    for client in atlas()["clients"]:
        once, ever, *_ = cells.get(client) or (None, None)
        parts = {
            when: sentence(code, Observed(*each), lasts)
            for when, each in (("once", once), ("for ever", ever))
            if each is not None
        }
        if len(parts) > 1 and len(set(parts.values())) == 1:
            parts = {"once or for ever": parts["once"]}
        texts = (f"{when}: {text}" for when, text in parts.items())
        said[client] = ". ".join(texts) or NOT_RECORDED
    return said


def _java(code: int) -> str:
    if code not in BY_CODE:
        return NOT_RECORDED
    if code in RETRIABLE_CODES:
        return "retriable: tries again within its time limit"
    return "not retriable: raises it, and the task fails"
