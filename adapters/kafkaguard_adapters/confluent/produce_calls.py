"""The guarded ``produce`` for a subclass such as ``SerializingProducer``."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, SerializingProducer
from confluent_kafka.cimpl import Producer  # confluent_kafka.Producer may be replaced
from confluent_kafka.error import KeySerializationError, ValueSerializationError
from confluent_kafka.serialization import MessageField, SerializationContext

from kafkaguard._errors import ClientConfigurationError
from kafkaguard_adapters.confluent.errors import errors
from kafkaguard_adapters.confluent.sending import Arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard_adapters.confluent.sending import Sending

#: Names that the user's class may give to the parameter of the delivery callback.
_CALLBACKS = ("on_delivery", "callback")
#: The attribute in which a function wrapped by wrapt keeps its wrapper.
_WRAPPER = "_self_wrapper"


def produce_for(sending: Sending) -> Callable[..., Any]:
    """Return the ``produce`` of a guarded producer, with its client's arguments.

    Raises:
        ClientConfigurationError: The guard cannot track records that the class's own
            ``produce`` sends.
    """
    cls = type(sending.shell.client)
    if cls.produce is Producer.produce:
        return sending.produce
    if cls.produce is SerializingProducer.produce:
        produce = _serializing(sending)
        produce.__qualname__ = produce.__name__  # which a TypeError shows
        return produce
    if cls.__module__.startswith("opentelemetry.") and (
        wrapper := getattr(inspect.getattr_static(cls, "produce"), _WRAPPER, None)
    ):
        return _traced(sending, wrapper)
    return _own(sending, cls)


def _traced(sending: Sending, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function for OpenTelemetry's class, which begins a span per record.

    OpenTelemetry's wrapper is put around the guard's function instead of the client's.
    So a record that is sent again has the headers of the first send, and no second
    span.
    """

    def produce(*args: Any, **kwargs: Any) -> None:
        """Produce a record, as ``Producer.produce`` does."""
        wrapper(sending.produce, sending.shell.client, args, kwargs)

    return produce


class _Made:
    """A serialiser that returns bytes which were made before."""

    def __init__(self, serialized_key: Any) -> None:
        self._made = serialized_key

    def serialize(self, *_: Any) -> Any:
        """Return the bytes."""
        return self._made


def _serializing(sending: Sending) -> Callable[..., None]:
    """Return the function: the guard serialises, then produces."""

    def produce(
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = -1,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Produce a record, as ``SerializingProducer.produce`` does.

        Raises:
            InvalidRecordKeyError: The topic is compacted and the record has no key
                after serialisation. Nothing was sent.
            KafkaGuardError: As ``Producer.produce``; also if a serialiser fails.
        """
        client = sending.shell.client
        context = SerializationContext(topic, MessageField.KEY, headers)
        serialized_key = _serialized(
            client._key_serializer,  # noqa: SLF001 - there is no public name
            KeySerializationError,
            key,
            context,
        )
        if key is None and serialized_key is not None:
            record = Arguments(
                topic, value, None, partition, on_delivery, timestamp, headers
            )
            if sending.refuse_key(record, _Made(serialized_key)):
                return
        context.field = MessageField.VALUE
        sending.produce(
            topic,
            _serialized(
                client._value_serializer,  # noqa: SLF001 - there is no public name
                ValueSerializationError,
                value,
                context,
            ),
            serialized_key,
            partition,
            None,
            on_delivery,
            timestamp,
            headers,
        )

    return produce


def _serialized(
    serializer: Any, failure: type[KafkaException], part: Any, context: Any
) -> Any:
    if serializer is None:
        return part
    try:
        return serializer(part, context)
    except Exception as error:
        raised = failure(error)
        raised.__cause__ = error
        raise errors.translate(raised, api="Produce", topic=context.topic) from error


def _own(sending: Sending, cls: type) -> Callable[..., Any]:
    """Return the function for the user's own class, which gets the same arguments.

    Only the callback is replaced by the guard's, which receives the record's outcome.
    """
    client_produce = cls.produce  # type: ignore[attr-defined]  # it is a producer's class
    signature = inspect.signature(client_produce)
    parameters = signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    name = next((n for n in _CALLBACKS if n in parameters), None)
    if name is None and takes_any:
        name = _CALLBACKS[0]
    if name is None or not ("topic" in parameters or takes_any):
        raise errors.make(
            ClientConfigurationError,
            f"guard(): {cls.__qualname__}.produce{signature} takes no "
            f"{'topic' if name else 'on_delivery'}, which the guard needs to track a "
            "record: add a parameter of that name and pass it on to super().produce()",
        )

    @wraps(client_produce)
    def produce(*args: Any, **kwargs: Any) -> Any:
        client = sending.shell.client
        bound = signature.bind(client, *args, **kwargs)
        arguments = dict(bound.arguments)
        for parameter in parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                arguments |= arguments.pop(parameter.name, {})
        call = arguments.get("on_delivery") or arguments.get("callback")
        record = Arguments(
            arguments["topic"],
            arguments.get("value"),
            arguments.get("key"),
            arguments.get("partition", -1),
            call,
            arguments.get("timestamp", 0),
            arguments.get("headers"),
        )

        def hand_over(report: Any) -> Any:
            """Call the user's method with another callback than the user's."""
            if name in parameters:
                bound.arguments[name] = report
                args, kwargs = bound.args, bound.kwargs
            else:
                args, kwargs = bound.args, {**bound.kwargs, name: report}
            return client_produce(sending.shell.client, *args[1:], **kwargs)

        return sending.produce_own(record, hand_over, has_key="key" in arguments)

    return produce
