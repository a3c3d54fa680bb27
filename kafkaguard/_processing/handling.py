"""How a worker handles a chunk, and what a handler can ask about its record."""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from dataclasses import dataclass
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kafkaguard._common.public import public
from kafkaguard._errors import ClientConfigurationError, ClientStateError
from kafkaguard._processing.work import WHOLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkaguard._processing.work import Chunk

    #: Calls the application's deserialisers.
    Decode = Callable[[Any], Any]

#: What a function returns instead of running its body.
_UNSTARTED: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)
#: The chunk that this thread or task handles, what turns the time of its driver into
#: seconds since 1970, and what returns a record's offset.
CURRENT: ContextVar[
    tuple[Chunk, Callable[[float], float], Callable[[Any], int]] | None
] = ContextVar("kafkaguard chunk", default=None)


@public("kafkaguard")
@dataclass(frozen=True, slots=True)
class Handling:
    """What is known about the record that is handled, or the first one of a batch.

    Attributes:
        attempt: The number of this attempt, from 1.
        first_failure: When the first attempt failed, in seconds since 1970; None: this
            is the first attempt.
        topic: The record's topic.
        partition: Its partition.
        offset: Its offset.
    """

    attempt: int
    first_failure: float | None
    topic: str
    partition: int
    offset: int


@public("kafkaguard")
def handling() -> Handling:
    """Return what is known about the record that the calling handler has.

    Raises:
        ClientStateError: It was not called in a handler of ``process()``.
    """
    current = CURRENT.get()
    if current is None:
        raise ClientStateError(
            "handling() works only in a handler of consumer.process(), in the thread "
            "or task that called it"
        )
    chunk, seconds_of, offset_of = current
    retry = chunk.retry(chunk.at)
    place = chunk.slot.place
    return Handling(
        1 if retry is None else retry.machine.attempts + 1,
        None if retry is None else seconds_of(retry.machine.started),
        place.topic,
        place.partition,
        offset_of(chunk.records[chunk.at]),
    )


Attempted = tuple[int, "Mapping[int, BaseException]"]


def handle(
    chunk: Chunk, handler: Callable[[Any], object], decode: Decode | None
) -> Attempted:
    """Handle the records of a chunk one after the other.

    Args:
        chunk: The chunk.
        handler: The application's.
        decode: Calls deserialisers; None: there are none.

    Returns:
        The arguments of ``ProcessingMachine.finished``.
    """
    stops = chunk.stops
    try:
        if decode is None:
            for record in chunk.begin():
                if stops:
                    return chunk.at, {}
                if isinstance(result := handler(record), _UNSTARTED):
                    _refuse_result(result)
        else:
            for record in chunk.begin():
                if stops:
                    return chunk.at, {}
                if isinstance(result := handler(decode(record)), _UNSTARTED):
                    _refuse_result(result)
    except BaseException as error:  # noqa: BLE001 - the machine judges it
        index = chunk.at
        return index + 1, {index: error}
    return len(chunk.records), {}


def never_runs(handler: Callable[..., object], *, awaited: bool) -> str | None:
    """Say why a call of a handler would not run its body; None: it does.

    Args:
        handler: The application's.
        awaited: Whether what it returns is awaited.
    """
    for function in (handler, getattr(handler, "__call__", None)):  # noqa: B004 - of an object
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(
            function
        ):
            return "it is a generator function"
        if not awaited and inspect.iscoroutinefunction(function):
            return "it is a coroutine function"
    return None


def _refuse_result(result: Any) -> NoReturn:
    """Refuse what only a body that has not run returns.

    Raises:
        ClientConfigurationError: The record was not handled.
    """
    if not inspect.isasyncgen(result):
        result.close()
    raise ClientConfigurationError(
        f"the handler returned a {type(result).__name__}, so its body has not run: "
        "give process() a plain function that does the work"
    )


def decode_batch(
    chunk: Chunk, decode: Decode | None
) -> tuple[list[Any], Mapping[int, BaseException]]:
    """Decode the records of a batch, up to the first that cannot be decoded.

    Returns:
        The records before it, and its exception by its index.
    """
    if decode is None:
        return chunk.records, {}
    records: list[Any] = []
    for index, record in enumerate(chunk.records):
        try:
            records.append(decode(record))
        except Exception as error:  # noqa: BLE001 - the machine judges it
            return records, {index: error}
    return records, {}


def handle_batch(
    chunk: Chunk, handler: Callable[[Any], object], decode: Decode | None
) -> Attempted:
    """Handle the records of a chunk as one batch; see :func:`handle`."""
    records, failures = decode_batch(chunk, decode)
    if records:
        try:
            if isinstance(result := handler(records), _UNSTARTED):
                _refuse_result(result)
        except BaseException as error:  # noqa: BLE001 - the machine judges it
            return len(chunk.records), {WHOLE: error}
    return len(records) + len(failures), failures
