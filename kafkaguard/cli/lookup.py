"""Find an error in a code, a name, a text or a traceback."""

from __future__ import annotations

import builtins
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from kafkaguard import _errors as e
from kafkaguard._common.closest import closest
from kafkaguard._errors.generated import BY_CODE, JAVA_NAMES
from kafkaguard._errors.librdkafka import LOCAL_CODES
from kafkaguard._errors.made import CLASS_NAMES
from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard._verdicts.classification import classify
from kafkaguard._verdicts.java_texts import FIND_REFUSED, java_text
from kafkaguard._verdicts.signals import CONDITIONS, PYTHON, TEXTS
from kafkaguard.cli.log_lines import explain_spark_text, key_of_line, other_protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._verdicts.context import Phase

Key = int | type[e.KafkaGuardError]

NAMES = {cls.name: code for code, cls in BY_CODE.items()} | {
    name: code for code, (name, _) in LOCAL_CODES.items()
}
_CLASSES: dict[str, type[e.KafkaGuardError]] = {
    name: getattr(e, name) for name in sorted(CLASS_NAMES)
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
_JAVA_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?:[\w$]+\.)*([A-Za-z_]\w*)(?::\s*(.*))?$")
#: "NAME (code) [place]: words -> ACTION: what to do", the str() of kafkaguard's errors:
#: the arrow, and what stands in front of it.
_ARROW = re.compile(r" -> [A-Z_]+: ")
_OWN = re.compile(
    r"\b([A-Z][A-Z0-9_]+)(?: \((-?\d{1,9})\))?(?: \[([^\n]{0,500}?)\])?"
    r"(?=: | -> (?:[A-Z_]+: |$))"
)
_BY_NAME = {cls.name: cls for cls in _CLASSES.values() if cls.name not in NAMES}
_NOTES: dict[type[e.KafkaGuardError], str] = {
    e.BatchMateRefusedError: (
        "Java's client does not say which record was refused, and Spark's own sink "
        f"fails with the whole batch: {FIND_REFUSED}."
    ),
}
#: What TLS libraries say if no CA that the client trusts has signed the certificate.
_NOT_VERIFIED = re.compile(
    r"certificate.verify.failed|certificate could not be verified|PKIX path building"
)
_TLS = (-181, e.ClientConfigurationError)
_UNTRUSTED = (
    "the client does not trust the CA that signed the broker's certificate: give it "
    "that CA's certificate, with ssl.ca.location (confluent-kafka), ssl_cafile "
    "(kafka-python), cafile of the ssl_context (aiokafka) or ssl.truststore.location "
    "(Java)."
)
#: The words of clients that refuse a record for its size; no broker has said so.
_LARGER = "when serialized which is larger than"
#: Errors whose class says more than their code.
_SPECIAL = frozenset({"InvalidRecordKeyError", "RemoteStorageNotReadyError"})
#: librdkafka's codes that only wrap the exception of a (de)serialiser.
_WRAPS = range(-162, -158)
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"


@dataclass(frozen=True)
class Finding:
    """An error that a text names.

    Attributes:
        key: Its code, or the class of a condition that has none.
        reported: It was an exception, so the client had given up; False for a bare
            code or a code's name.
        api: The request that the text names, where it is one of ours.
        note: What else the text shows.
        client: The client library, if it is one that reports other codes under this
            one.
        phase: ``"enqueue"`` if the text is that of a client which refuses the record
            itself.
    """

    key: Key
    reported: bool
    api: str | None = None
    note: str | None = None
    client: str | None = None
    phase: Phase | None = None

    @property
    def error_class(self) -> type[e.KafkaGuardError]:
        """The class of the error."""
        return e.for_code(self.key) if isinstance(self.key, int) else self.key

    @property
    def subject(self) -> int | e.KafkaGuardError:
        """The argument for classify()."""
        if isinstance(self.key, int) and not self.reported:
            return self.key
        return self.error_class()


def class_name(cls: type[e.KafkaGuardError]) -> str:
    """Return the name of a class of errors as a program imports it."""
    return f"{cls.__module__}.{cls.__qualname__}"


def find_error(text: str) -> Finding | None:
    """Find the error that a text is about.

    Args:
        text: A number, Kafka's or librdkafka's name, the name of a class (of
            kafkaguard, a client or Java), an exception's text, or a traceback. In a
            traceback the last exception counts, or its cause if that says more.
    """
    text = text.strip()
    return (
        _read_own(text)
        or _describe(e.ClientConfigurationError, other_protocol(text))
        or _read_code_or_name(text)
        or _read_java(text)
        or _read_traceback_or_text(text)
        or _describe(e.UnrelatedError, explain_spark_text(text))
    )


def find_errors(text: str) -> list[Finding]:
    """Find all errors that a text is about, first the one to act on.

    That is the most severe one: of records that have expired, some may be written,
    whatever kept their answers away. In a traceback of Python it is as for
    :func:`find_error`.
    """
    first = find_error(text)
    if first is None:
        return []
    lines = [line.strip().removeprefix("Caused by: ") for line in text.splitlines()]
    keys = dict.fromkeys(map(_read_line, lines))
    others = [
        Finding(key, reported=True)
        for key in keys
        if key not in {None, first.key, e.UnrelatedError}
    ]
    if _read_own(text) is not None or _is_of_python(text):
        return [first, *others]
    return sorted([first, *others], key=_severity, reverse=True)


def _is_of_python(text: str) -> bool:
    return "Traceback (most" in text and _read_traceback(text) is not None


def _severity(finding: Finding) -> int:
    return classify(finding.subject, phase=finding.phase).action.severity


def _read_line(line: str) -> Key | None:
    """Return the error that one line of a longer text is about; frames are skipped."""
    if line.startswith(("at ", "File ")):
        return None
    match = _EXCEPTION.match(line)
    if match:
        return _read_exception(*match.groups())
    return _find_number(line) or key_of_line(line)


def _describe(cls: type[e.KafkaGuardError], note: str | None) -> Finding | None:
    """Return what a note says about a text that names no error of Kafka."""
    return None if note is None else Finding(cls, reported=True, note=note)


def _read_code_or_name(text: str) -> Finding | None:
    if re.fullmatch(_CODE, text):
        return Finding(int(text), reported=False)
    if text.upper() in NAMES:
        return Finding(NAMES[text.upper()], reported=False)
    key = _BY_NAME.get(text.upper())
    return None if key is None else Finding(key, reported=True)


def _read_java(text: str) -> Finding | None:
    explanation = java_text(text)
    if explanation is None:
        return None
    code = explanation.error.code
    key: Key = explanation.error if code is None else code
    return Finding(key, reported=True, note=_NOTES.get(explanation.error))


def _read_traceback_or_text(text: str) -> Finding | None:
    key = _read_traceback(text) if "Traceback (most" in text else _read_text(text)
    if key is None:
        key = _read_java_causes(text)
    if key is None:
        return None
    client = "aiokafka" if key == -1 and _may_be_of_aiokafka(text) else None
    phase: Phase | None = "enqueue" if _LARGER in text else None
    note = _UNTRUSTED if key in _TLS and _NOT_VERIFIED.search(text) else None
    return Finding(key, reported=True, client=client, phase=phase, note=note)


def _may_be_of_aiokafka(text: str) -> bool:
    """Return whether UnknownError is aiokafka's, or may be."""
    prefixes = re.findall(r"\b((?:\w+\.)*)UnknownError\b", text)
    return bool(prefixes) and "kafka.errors." not in prefixes


def nearest_name(text: str) -> str | None:
    """Return the known name that is most similar to a misspelt one."""
    return closest(text, [*NAMES, *_class_names()])


def _read_own(text: str) -> Finding | None:
    """Parse the text of kafkaguard's errors: name, code, place, words, verdict."""
    for name, code, place in _own_beginnings(text):
        key: Key | None = int(code) if code else None
        cls = _BY_NAME.get(name)
        if cls is not None and (key is None or cls.__name__ in _SPECIAL):
            key = cls
        if key is not None:
            api = place.partition(",")[0]
            request = api if api in API_KEYS else None
            return Finding(key, reported=True, api=request)
    return None


def _own_beginnings(text: str) -> Iterator[tuple[str, str | None, str]]:
    """Find name, code and place before the last arrow of each line, the last first.

    The arrow is looked for first, so that the time grows with the length of the text.
    """
    for line in reversed(text.split("\n")):
        arrows = [found.start() for found in _ARROW.finditer(line)]
        begin = arrows and _OWN.search(line[: arrows[-1] + len(" -> ")])
        if begin:
            yield begin[1], begin[2], begin[3] or ""


def _read_traceback(text: str) -> Key | None:
    best: Key | None = None
    for key, followed in _chain(text):
        if key is not None and (best is None or _rank(key) < _rank(best)):
            best = key
        if not followed and key is None:
            break
    return best


def _chain(text: str) -> Iterator[tuple[Key | None, bool]]:
    """Iterate over the exceptions of a traceback, from the last to the first.

    Each comes with a flag: whether the exception before it was its cause.
    """
    exceptions: list[tuple[Key | None, bool]] = []
    is_cause = False
    for line in text.splitlines():
        if _CAUSE in line or _CONTEXT in line:
            is_cause = _CAUSE in line
        elif line[:1].strip() and not line.startswith("Traceback"):
            match = _EXCEPTION.match(line)
            if match:
                exceptions.append((_read_exception(*match.groups()), is_cause))
    return reversed(exceptions)


def _rank(key: Key) -> int:
    """Rank by how much a key says: a broker's code, a condition, a mere timeout."""
    if isinstance(key, int):
        return 0 if key >= -1 else 1
    return 2 if key is e.ClientTimeoutError else 1


def _read_java_causes(text: str) -> Key | None:
    """Read the causes in a stack trace of Java, which follows a traceback in Spark."""
    keys = (_read_text(cause) for cause in reversed(_JAVA_CAUSE.findall(text)))
    return next((key for key in keys if key is not None), None)


def _read_text(text: str) -> Key | None:
    lines = [line for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        match = _EXCEPTION.match(line.strip())
        key = _read_exception(*match.groups()) if match else None
        if key is None:
            key = _read_words(line)
        if key is not None:
            return key
    return None


def _read_exception(name: str, message: str | None) -> Key | None:
    """Resolve ``Name: message``, the last line of a traceback."""
    numbered = _find_number(message or "")
    if numbered is not None:
        return _unwrap(numbered, message or "")
    line = key_of_line(message or "")
    if line is not None:
        return line
    for text, condition in TEXTS.get(name, ()):
        if text in (message or ""):
            return condition
    key = _class_names().get(name)
    # The base classes say less than their text.
    if key in {None, e.ClientStateError} and message:
        return _read_words(message) or key
    return key


def _read_words(text: str) -> Key | None:
    """Find a number, a phrase of librdkafka, or a name among other words."""
    numbered = _find_number(text)
    if numbered is not None:
        return _unwrap(numbered, text)
    for phrase, code in _phrases().items():
        if phrase in text:
            return code
    return key_of_line(text) or _find_name(text)


def _find_name(text: str) -> Key | None:
    """Find the last name of a class or a code among other words."""
    keys: dict[str, Key] = {**_class_names(), **_BY_NAME, **NAMES}
    matches = [keys[word] for word in re.findall(r"\w+", text) if word in keys]
    return matches[-1] if matches else None


def _unwrap(code: int, text: str) -> Key:
    """Return the meaning of a code; for a wrapping code, that of the wrapped error."""
    if code not in _WRAPS:
        return code
    _, _, inner = text.partition("str=")
    return key_of_line(inner) or _find_name(inner) or code


def _find_number(text: str) -> int | None:
    matches = _NUMBERED.findall(text)
    return int(next(filter(None, matches[-1]))) if matches else None


@cache
def _class_names() -> dict[str, Key]:
    """Collect the error classes of Python, the clients, Java and kafkaguard."""
    python = {
        name: condition
        for name, cls in vars(builtins).items()
        if isinstance(cls, type) and issubclass(cls, BaseException)
        for parent in cls.__mro__
        if (condition := PYTHON.get(f"builtins.{parent.__name__}")) is not None
    }
    return {**python, **CONDITIONS, **JAVA_NAMES, **_client_codes(), **_OURS}


def _client_codes() -> dict[str, Key]:
    """Collect the numbered classes of kafka-python and aiokafka."""
    from kafka import errors as kafka_errors

    numbered = kafka_errors.kafka_errors.items()
    return {**_words()["classes"], **{c.__name__: n for n, c in numbered}}


@cache
def _phrases() -> dict[str, int]:
    """Return librdkafka's texts for its codes, the longest first."""
    return dict(sorted(_words()["phrases"].items(), key=lambda item: -len(item[0])))


@cache
def _words() -> dict[str, dict[str, int]]:
    """Read the file that ``scripts/generate_client_words.py`` wrote."""
    text = (files("kafkaguard.cli") / "client_words.json").read_text("utf-8")
    words: dict[str, dict[str, int]] = json.loads(text)
    return words
