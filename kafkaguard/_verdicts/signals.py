"""Signals: the code or the condition that a client's exception reports.

No client is imported here. kafka-python's and aiokafka's exceptions are told by the
names of their classes, confluent-kafka's by the methods of their ``KafkaError``.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaguard import _errors as e
from kafkaguard._errors.made import CLASS_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The most causes of an exception that are read: a longer chain is a loop, or does not
#: come from Kafka.
MAX_DEPTH = 16
REPORTED = "reported"


class Signal(NamedTuple):
    """What an exception says.

    Attributes:
        key: A code (the broker's or librdkafka's), or the class of a condition.
        client: The library that said it.
        flag: ``"fatal"``, ``"abort"`` or ``"retriable"`` where librdkafka says so;
            ``"wrapped"`` for what kept a (de)serialiser from its work, before anything
            was sent; otherwise ``"reported"``: the client has done what it does by
            itself, and hands the error over.
    """

    key: int | type[e.KafkaGuardError]
    client: str | None = None
    flag: str | None = REPORTED


UNRELATED = Signal(e.UnrelatedError)

# Classes that kafka-python and aiokafka make up themselves (no broker said so).
CONDITIONS: dict[str, int | type[e.KafkaGuardError]] = {
    "AuthenticationFailedError": e.AuthenticationError,
    "AuthenticationMethodNotSupported": e.AuthenticationError,
    "AuthorizationError": e.AuthorizationError,
    "BrokerResponseError": e.ClientStateError,
    "Cancelled": e.ClientConnectionError,
    "CommitFailedError": e.ClientGroupError,
    "CorrelationIdError": e.ClientProtocolError,
    "ConsumerStoppedError": e.ClientClosedError,
    "IllegalArgumentError": e.ClientConfigurationError,
    "IllegalOperation": e.ClientStateError,
    "IllegalStateError": e.ClientStateError,
    "IncompatibleBrokerVersion": e.ClientConfigurationError,
    "InvalidMetadataError": e.InvalidMetadataError,
    "KafkaConfigurationError": e.ClientConfigurationError,
    "KafkaConnectionError": e.ClientConnectionError,
    "KafkaError": e.ClientStateError,
    "KafkaProtocolError": e.ClientProtocolError,
    "KafkaTimeoutError": e.ClientTimeoutError,
    "KafkaUnavailableError": e.ClientNotConnectedError,
    "LogTruncationError": e.ClientStateError,
    "MetadataEmptyBrokerList": e.ClientNotConnectedError,
    "NoBrokersAvailable": e.ClientNotConnectedError,
    "NoOffsetForPartitionError": e.ClientStateError,
    "NodeNotReadyError": e.ClientNotConnectedError,
    "ProducerClosed": e.ClientClosedError,
    "ProducerFenced": e.ClientFencedError,
    "QuotaViolationError": e.ClientStateError,
    "RecordTooLargeError": 10,
    "RetriableError": e.RetriableError,
    "StaleMetadata": e.ClientMetadataError,
    "TooManyInFlightRequests": e.ClientQueueFullError,
    "TransactionAbortedError": e.RecordPurgedError,
    "UnknownBrokerIdError": e.ClientMetadataError,
    "UnrecognizedBrokerVersion": e.ClientNotConnectedError,
    "UnsupportedCodecError": e.ClientConfigurationError,
}
_CLIENTS = {"kafka": "kafka-python", "aiokafka": "aiokafka"}
_CONFLUENT = frozenset({"confluent_kafka", "cimpl"})
# What only a confluent_kafka.KafkaError has, which is not an exception.
_OF_KAFKA_ERROR = "txn_requires_abort"

# Exceptions of Python's own that stand for something on the way to a broker. By name,
# since importing ssl, socket or asyncio for them would be paid by everyone.
PYTHON: dict[str, type[e.KafkaGuardError]] = {
    "builtins.ConnectionError": e.ClientConnectionError,
    "builtins.GeneratorExit": e.CallInterruptedError,
    "builtins.KeyboardInterrupt": e.CallInterruptedError,
    "builtins.SystemExit": e.CallInterruptedError,
    "builtins.TimeoutError": e.ClientTimeoutError,
    "asyncio.exceptions.CancelledError": e.CallInterruptedError,
    "concurrent.futures._base.CancelledError": e.CallInterruptedError,
    "socket.gaierror": e.ClientNotConnectedError,
    "ssl.SSLError": e.ClientConfigurationError,
}

# Where only the text tells. kafka-python has one timeout for many things, and
# confluent-kafka uses Python's own exceptions for some.
TEXTS: dict[str, tuple[tuple[str, type[e.KafkaGuardError]], ...]] = {
    "KafkaTimeoutError": (
        ("Unable to bootstrap", e.ClientNotConnectedError),
        ("Failed to update metadata", e.ClientMetadataError),
    ),
    "KafkaConnectionError": (("Unable to bootstrap", e.ClientNotConnectedError),),
    "IllegalStateError": (
        ("not assigned", e.ClientGroupError),
        ("No current assignment", e.ClientGroupError),
        ("KafkaConsumer is closed", e.ClientClosedError),
        ("Requires group_id", e.ClientConfigurationError),
    ),
    "AssertionError": (("Unrecognized partition", e.ClientMetadataError),),
    "ValueError": (("Unrecognized partition", e.ClientMetadataError),),
    "BufferError": (("Queue full", e.ClientQueueFullError),),
    "RuntimeError": (
        ("Consumer closed", e.ClientClosedError),
        ("Producer closed", e.ClientClosedError),
        ("Producer has been closed", e.ClientClosedError),
        ("Handle has been closed", e.ClientClosedError),
    ),
}

#: librdkafka's codes that only wrap what a serialiser or a deserialiser has raised.
_WRAPS = frozenset({-162, -161, -160, -159})
_WRAPPERS = _WRAPS | {e.SerializationFailedError}
_WRAPPED = "wrapped"
#: librdkafka has two codes for all that ends a login; its texts show the broker's code,
#: that no login began, or that the connection broke meanwhile.
_LOGIN_CODES = frozenset({-169, 58})
_TLS = -181
_BROKEN_LOGINS = {"Broker transport failure": -195, "Timed out": -185}
_LOGIN_TEXTS: tuple[tuple[str, int | type[e.KafkaGuardError]], ...] = (
    ("Request not valid in current SASL state", 34),
    ("Unsupported SASL mechanism", 33),
    ("Failed to acquire SASL OAUTHBEARER token", e.TokenProviderError),
    ("OAuth token not set", e.TokenProviderError),
    *((f"failed: Local: {words}", code) for words, code in _BROKEN_LOGINS.items()),
)
#: librdkafka's code for all that ends a client for good; its text begins with the text
#: of the code that was the reason.
_FATAL, _FATAL_PREFIX = -150, "Fatal error: "
#: More than the highest code of a broker.
_NO_CODE = 200
#: librdkafka's codes that do not say everything.
_VAGUE = _WRAPS | _LOGIN_CODES | {_FATAL}
#: The attribute that only an error of a schema registry has.
_OF_REGISTRY_ERROR = "http_status_code"
#: What HTTP clients raise while a schema registry is asked.
_OF_REGISTRY: dict[str, type[e.KafkaGuardError]] = {
    "httpx.TimeoutException": e.ClientTimeoutError,
    "httpx.TransportError": e.ClientConnectionError,
    "requests.exceptions.ConnectionError": e.ClientConnectionError,
    "requests.exceptions.Timeout": e.ClientTimeoutError,
    "urllib3.exceptions.TimeoutError": e.ClientTimeoutError,
    "urllib3.exceptions.ProtocolError": e.ClientConnectionError,
}
#: What a registry answers, by the status of HTTP; 5xx passes by itself.
_STATUS: dict[int, type[e.KafkaGuardError]] = {
    401: e.AuthenticationError,
    403: e.AuthorizationError,
    404: e.ClientConfigurationError,
    409: e.ClientConfigurationError,
    408: e.ClientTimeoutError,
    429: e.ClientConnectionError,
}
_SERVER_ERRORS = range(500, 600)

#: What one of our own context classes implies, so that judging it again agrees.
IMPLIED: dict[type[e.KafkaGuardError], tuple[tuple[str, bool], ...]] = {
    e.InvalidRecordKeyError: (("null_key", True), ("compacted", True)),
    e.BatchMateRefusedError: (("null_key", False),),
    e.RemoteStorageNotReadyError: (("tiered", True),),
}

#: What an exception's class alone says: a code that it always has, or a condition.
_BY_CLASS: dict[type, Signal] = {}
#: confluent-kafka's classes: whether they carry a KafkaError (else they are one).
_CARRIERS: dict[type, bool] = {}


def quick_signal(error: Any) -> tuple[Any, str | None, str | None] | None:
    """Read an exception of a class met before; None: look closer.

    The same answer as :func:`signal_of`, for the hot path.
    """
    cls = error.__class__
    if cls in _BY_CLASS:
        signal = _BY_CLASS[cls]
        if signal.key.__class__ is int:
            return signal
        if _stands_alone(error):
            return _read_text(error, cls) or signal
    elif cls in _CARRIERS:
        if _CARRIERS[cls] and not (error.args and hasattr(error.args[0], "code")):
            return None  # one that carries nothing, as KafkaException()
        inner = error.args[0] if _CARRIERS[cls] else error
        code = inner.code()
        if code in _VAGUE:
            return None
        if (code >= -1 or inner is error or _stands_alone(error)) and not (
            inner.fatal() or inner.txn_requires_abort() or inner.retriable()
        ):
            return code, "confluent-kafka", REPORTED
    return None


def _stands_alone(error: BaseException) -> bool:
    return error.__cause__ is None and error.__context__ is None


def signal_of(error: Any) -> Signal | None:
    """Read what an exception says, or its causes where they say more.

    A broker's code says more than a client's condition (a timeout often hides an
    authorization error), and that more than an exception that is no Kafka client's.

    Returns:
        The signal, or None if ``error`` is neither an exception nor a ``KafkaError``.
    """
    best = _read(error)
    if best is not None and best.key in _WRAPPERS:
        return _read_serialiser_failure(error) or best
    if best is None or _rank(best) == 0 or best.key is e.CallInterruptedError:
        return best
    for cause in _find_causes(error):
        signal = _read(cause)
        if signal is not None and _rank(signal) < _rank(best):
            best = signal
    return best


def _read_serialiser_failure(error: Any) -> Signal | None:
    """Return the error that stopped a (de)serialiser; None if the record is bad."""
    inner = getattr(error, "exception", None)
    causes = [
        *_find_causes(error),
        *([] if inner is None else [inner, *_find_causes(inner)]),
    ]
    for cause in causes:
        signal = _read_http_error(cause) or _read(cause)
        if signal is None or signal.key is e.UnrelatedError or signal.key in _WRAPS:
            continue
        if isinstance(signal.key, int):
            return signal
        return Signal(signal.key, signal.client or "confluent-kafka", _WRAPPED)
    return None


def is_refused_login(error: Any) -> bool:
    """Return whether a ``KafkaError`` says that a login or a TLS handshake failed.

    A login whose connection broke may succeed the next time, and is none.
    """
    codes = _LOGIN_CODES | {_TLS}
    return error.code() in codes and _read_kafka_error(error).key not in (
        _BROKEN_LOGINS.values()
    )


def _read_registry_error(error: BaseException) -> Signal | None:
    """Read an exception of confluent-kafka's client of a schema registry, or None."""
    if not hasattr(error, _OF_REGISTRY_ERROR):
        return None
    answer = _read_http_error(error) or Signal(e.SerializationFailedError)
    return Signal(answer.key, "confluent-kafka", _WRAPPED)


def _read_http_error(error: Any) -> Signal | None:
    """Read what a schema registry answered, or why there was no answer."""
    status = getattr(error, _OF_REGISTRY_ERROR, None)
    if isinstance(status, int):
        server = e.ClientConnectionError if status in _SERVER_ERRORS else None
        condition = _STATUS.get(status, server)
        return None if condition is None else Signal(condition)
    for parent in type(error).__mro__:
        condition = _OF_REGISTRY.get(f"{_package(parent)}.{parent.__qualname__}")
        condition = condition or _OF_REGISTRY.get(
            f"{parent.__module__}.{parent.__qualname__}"
        )
        if condition is not None:
            return Signal(condition)
    return None


def _rank(signal: Signal) -> int:
    if isinstance(signal.key, int):
        return 0 if signal.key >= -1 else 1
    # asyncio.timeout raises its TimeoutError from the cancellation that it caused.
    if signal.key in {e.UnrelatedError, e.CallInterruptedError}:
        return 3
    return 2 if signal.key is e.ClientTimeoutError else 1


def _find_causes(error: Any) -> Iterator[Any]:
    """Follow what an exception was raised from.

    A context that nobody named is followed only from a client's exception: a bug in an
    ``except`` block is not the Kafka error that was being handled.
    """
    for _ in range(MAX_DEPTH):
        cause = getattr(error, "__cause__", None)
        suppressed = getattr(error, "__suppress_context__", True)  # a cause does
        if not suppressed and _read(error) is not UNRELATED:
            cause = error.__context__
        if cause is None:
            return
        yield cause
        error = cause


def _read(error: Any) -> Signal | None:
    """Read what one exception says, leaving its causes aside."""
    if not isinstance(error, BaseException):
        return _read_kafka_error(error) if hasattr(error, _OF_KAFKA_ERROR) else None
    if _package(type(error)) in _CONFLUENT:
        return _read_registry_error(error) or _read_kafka_error(error)
    if isinstance(error, e.KafkaGuardError):
        return _read_own_error(error)
    return (
        _read_text(error, type(error))
        or _read_class(error)
        or _read_inner_error(error)
        or UNRELATED
    )


def _read_class(error: BaseException) -> Signal | None:
    """Read an exception by the nearest class that is a client's or stands for one."""
    for parent in type(error).__mro__:
        client = _CLIENTS.get(_package(parent))
        if client is not None:
            return _read_named_error(error, type(error), client)
        condition = PYTHON.get(f"{parent.__module__}.{parent.__qualname__}")
        if condition is not None:
            return Signal(condition)
    return None


def _read_text(error: BaseException, cls: type) -> Signal | None:
    """Read an exception whose text tells what its class does not."""
    texts = TEXTS.get(cls.__name__)
    if texts and error.args and isinstance(error.args[0], str):
        for text, condition in texts:
            if text in error.args[0]:
                return Signal(condition, _CLIENTS.get(_package(cls)))
    return None


def _package(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _read_own_error(error: e.KafkaGuardError) -> Signal:
    if error.code is not None:
        return Signal(error.code, error.client)
    family = next(c for c in type(error).__mro__ if c.__name__ in CLASS_NAMES)
    return Signal(family, error.client)


def _read_kafka_error(error: Any) -> Signal:
    """Read a KafkaError, or the one that a KafkaException carries."""
    inner = error.args[0] if isinstance(error, BaseException) and error.args else error
    if not hasattr(inner, _OF_KAFKA_ERROR):
        return Signal(e.ClientStateError, "confluent-kafka")
    _CARRIERS[error.__class__] = inner is not error
    flag, code = REPORTED, inner.code()
    if inner.fatal() or code == _FATAL:
        flag = "fatal"
    elif inner.txn_requires_abort():
        flag = "abort"
    elif inner.retriable():
        flag = "retriable"
    if code in _LOGIN_CODES:
        text = inner.str()
        code = next((key for words, key in _LOGIN_TEXTS if words in text), code)
    elif code == _FATAL:
        reason = f"{inner.str().removeprefix(_FATAL_PREFIX)}:"
        texts = _list_texts(inner.__class__)
        code = next((n for n, text in texts if reason.startswith(f"{text}:")), code)
    return Signal(code, "confluent-kafka", flag)


@lru_cache(maxsize=1)
def _list_texts(cls: Any) -> tuple[tuple[int, str], ...]:
    """Return the texts that confluent-kafka's class has for the codes of brokers."""
    return tuple((code, cls(code).str()) for code in range(1, _NO_CODE))


def _read_inner_error(error: BaseException) -> Signal | None:
    """Read the KafkaError that a foreign exception carries as its first argument."""
    if error.args and hasattr(error.args[0], _OF_KAFKA_ERROR):
        return _read_kafka_error(error.args[0])
    return None


def _read_named_error(error: Any, cls: type, client: str) -> Signal:
    """Read an exception of kafka-python or aiokafka: its ``errno``, or its name."""
    errno = getattr(error, "errno", None)
    if type(errno) is int:
        signal = Signal(errno, client)
        # kafka-python makes a class on the spot for each unknown code: those are not
        # kept, they would pile up.
        if vars(cls).get("errno") == errno and _belongs_to_module(cls):
            _BY_CLASS[cls] = signal
        return signal
    names = (parent.__name__ for parent in cls.__mro__)
    condition = next((CONDITIONS[n] for n in names if n in CONDITIONS), None)
    signal = Signal(condition or e.ClientStateError, client)
    if _belongs_to_module(cls):
        _BY_CLASS[cls] = signal
    return signal


def _belongs_to_module(cls: type) -> bool:
    return getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls
