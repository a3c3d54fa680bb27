"""From what a person pastes to an error: a code, a name, a text or a traceback."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kafkaguard import errors as e
from kafkaguard._common.closest import closest
from kafkaguard._verdicts.signals import CONDITIONS, PYTHON, TEXTS
from kafkaguard.errors import BY_CODE
from kafkaguard.errors._generated import JAVA_NAMES
from kafkaguard.errors._librdkafka import LOCAL_CODES

if TYPE_CHECKING:
    from collections.abc import Iterator

Key = int | type[e.KafkaGuardError]

NAMES = {cls.name: code for code, cls in BY_CODE.items()} | {
    name: code for code, (name, _) in LOCAL_CODES.items()
}
_CLASSES: dict[str, type[e.KafkaGuardError]] = {
    name: cls
    for name in e.__all__
    if isinstance(cls := getattr(e, name), type) and issubclass(cls, e.KafkaGuardError)
}
_OURS: dict[str, Key] = {
    name: cls if cls.code is None else cls.code for name, cls in _CLASSES.items()
}
#: No code has more digits than these.
_CODE = re.compile(r"-?\d{1,9}")
# kafka-python prints "[Error 6]", librdkafka "val=-192".
_NUMBERED = re.compile(
    r"\[Error (-?\d{1,9})\]|\bval=(-?\d{1,9})\b|\berror code:? (-?\d{1,9})\b"
)
_EXCEPTION = re.compile(r"^(?:[\w$]+\.)*([A-Za-z_]\w*)(?::\s*(.*))?$")
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"


@dataclass(frozen=True)
class Found:
    """An error that a text names.

    Attributes:
        key: Its code, or the class of a condition that has none.
        reported: It was an exception, so the client had given up; False for a bare
            code or a code's name.
    """

    key: Key
    reported: bool

    @property
    def error_class(self) -> type[e.KafkaGuardError]:
        """The class of the error."""
        return e.for_code(self.key) if isinstance(self.key, int) else self.key

    @property
    def subject(self) -> int | e.KafkaGuardError:
        """What classify() takes."""
        if isinstance(self.key, int) and not self.reported:
            return self.key
        return self.error_class()


def find_error(text: str) -> Found | None:
    """Find the error that a text is about.

    Args:
        text: A number, Kafka's or librdkafka's name, the name of a class (ours, a
            client's, Java's), an exception's text, or a traceback. Of a traceback the
            last exception counts, and what it was raised from where that says more.
    """
    text = text.strip()
    if re.fullmatch(_CODE, text):
        return Found(int(text), reported=False)
    if text.upper() in NAMES:
        return Found(NAMES[text.upper()], reported=False)
    key = _of_traceback(text) if "Traceback (most" in text else _of_text(text)
    return None if key is None else Found(key, reported=True)


def nearest_name(text: str) -> str | None:
    """Return the known name that looks most like a misspelt one."""
    return closest(text, [*NAMES, *_class_names()])


def _of_traceback(text: str) -> Key | None:
    best: Key | None = None
    for key, followed in _chain(text):
        if key is not None and (best is None or _rank(key) < _rank(best)):
            best = key
        if not followed and key is None:
            break
    return best


def _chain(text: str) -> Iterator[tuple[Key | None, bool]]:
    """Give the exceptions of a traceback from the last back to the first.

    With each, whether the one before it was named as its cause.
    """
    found: list[tuple[Key | None, bool]] = []
    is_cause = False
    for line in text.splitlines():
        if _CAUSE in line or _CONTEXT in line:
            is_cause = _CAUSE in line
        elif line[:1].strip() and not line.startswith("Traceback"):
            match = _EXCEPTION.match(line)
            if match:
                found.append((_of_exception(*match.groups()), is_cause))
    return reversed(found)


def _rank(key: Key) -> int:
    """Rank what says more: a broker's code, a condition, a mere timeout."""
    if isinstance(key, int):
        return 0 if key >= -1 else 1
    return 2 if key is e.ClientTimeoutError else 1


def _of_text(text: str) -> Key | None:
    lines = [line for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        match = _EXCEPTION.match(line.strip())
        key = _of_exception(*match.groups()) if match else None
        if key is None:
            key = _of_words(line)
        if key is not None:
            return key
    return None


def _of_exception(name: str, message: str | None) -> Key | None:
    """Resolve ``Name: message``, the last line of a traceback."""
    numbered = _numbered(message or "")
    if numbered is not None:
        return numbered
    for text, condition in TEXTS.get(name, ()):
        if text in (message or ""):
            return condition
    key = _class_names().get(name)
    # The base classes say less than the text that comes with them.
    if key in {None, e.ClientStateError} and message:
        return _of_words(message) or key
    return key


def _of_words(text: str) -> Key | None:
    """Find a number, a phrase of librdkafka's, or a name among other words."""
    numbered = _numbered(text)
    if numbered is not None:
        return numbered
    for phrase, code in _phrases().items():
        if phrase in text:
            return code
    known: dict[str, Key] = {**_class_names(), **NAMES}
    named = [known[word] for word in re.findall(r"\w+", text) if word in known]
    return named[-1] if named else None


def _numbered(text: str) -> int | None:
    matches = _NUMBERED.findall(text)
    return int(next(filter(None, matches[-1]))) if matches else None


@cache
def _class_names() -> dict[str, Key]:
    """Collect the classes that stand for an error: Python's, clients', Java's, ours."""
    python = {
        name: condition
        for name, cls in vars(builtins).items()
        if isinstance(cls, type) and issubclass(cls, BaseException)
        for parent in cls.__mro__
        if (condition := PYTHON.get(f"builtins.{parent.__name__}")) is not None
    }
    return {**python, **CONDITIONS, **JAVA_NAMES, **_client_codes(), **_OURS}


def _client_codes() -> dict[str, Key]:
    """Read the numbered classes of the clients that are installed."""
    codes: dict[str, Key] = {}
    try:
        from aiokafka import errors as aiokafka_errors

        codes |= {c.__name__: n for n, c in aiokafka_errors.kafka_errors.items()}
    except ImportError:
        pass
    from kafka import errors as kafka_errors

    return codes | {c.__name__: n for n, c in kafka_errors.kafka_errors.items()}


@cache
def _phrases() -> dict[str, int]:
    """Ask confluent-kafka, where it is installed, for the phrases it prints."""
    try:
        from confluent_kafka import KafkaError
    except ImportError:
        return {}
    phrases = {KafkaError(code).str(): code for code in [*BY_CODE, *LOCAL_CODES]}
    known = {text: code for text, code in phrases.items() if not text.startswith("Err")}
    return dict(sorted(known.items(), key=lambda item: -len(item[0])))
