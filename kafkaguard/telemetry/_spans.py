"""Spans of sends and of handlers, linked to the traces that records' headers name."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction, signature
from sys import maxsize
from typing import TYPE_CHECKING, Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from kafkaguard.telemetry import _metrics as m

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkaguard._common.observing import Header


class Spans:
    """Makes spans.

    A record whose headers name no trace gets the span that sends it. A record that has
    one keeps it, so its dead letter and its replay link to the same trace.

    Args:
        tracer: An ``opentelemetry.trace.Tracer``.
    """

    def __init__(self, tracer: Any) -> None:
        self._start = tracer.start_as_current_span

    def processing(
        self, place: tuple[str, int], group: str, headers: Sequence[Sequence[Header]]
    ) -> AbstractContextManager[object]:
        """Make a span around a call of a handler."""
        topic, partition = place
        more = {m.PARTITION: str(partition), m.COUNT: len(headers)}
        if group:
            more[m.GROUP] = group
        links = [link for each in headers for link in _links(each)]
        kind = trace.SpanKind.CONSUMER
        return self._span("process", topic, kind, links=links, more=more)

    def letter(self, topic: str, headers: Sequence[Header]) -> None:
        """Make a span for a dead letter, with these headers, that is being sent."""
        kind = trace.SpanKind.PRODUCER
        with self._span("send", topic, kind, links=_links(headers)):
            pass

    def traced(
        self, send: Callable[..., Any], like: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a ``send`` that makes a span for each call."""
        names = list(signature(like).parameters)
        takes_headers = "headers" in names
        position = names.index("headers") - 1 if takes_headers else maxsize

        @contextmanager
        def span(
            topic: str, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
            given = args[position] if len(args) > position else kwargs.get("headers")
            headers = list(given.items() if isinstance(given, dict) else given or ())
            links = _links(headers)
            with self._span("send", topic, trace.SpanKind.PRODUCER, links=links):
                made: dict[str, str] = {}
                if takes_headers and not links:
                    propagate.inject(made)
                headers += [(name, text.encode()) for name, text in made.items()]
                if made and len(args) > position:
                    args = (*args[:position], headers, *args[position + 1 :])
                elif made:
                    kwargs["headers"] = headers
                yield args, kwargs

        if iscoroutinefunction(send):

            @wraps(send)
            async def awaited(topic: str, *args: Any, **kwargs: Any) -> Any:
                with span(topic, args, kwargs) as (given, named):
                    return await send(topic, *given, **named)

            return awaited

        @wraps(send)
        def call(topic: str, *args: Any, **kwargs: Any) -> Any:
            with span(topic, args, kwargs) as (given, named):
                return send(topic, *given, **named)

        return call

    def _span(
        self,
        operation: str,
        topic: str,
        kind: Any,
        *,
        links: list[Any],
        more: Mapping[str, Any] | None = None,
    ) -> AbstractContextManager[object]:
        attributes = {
            m.SYSTEM: "kafka",
            m.OPERATION: operation,
            m.OPERATION_TYPE: operation,
            m.TOPIC: topic,
            **(more or {}),
        }
        span: AbstractContextManager[object] = self._start(
            f"{operation} {topic}", kind=kind, links=links, attributes=attributes
        )
        return span


def _links(headers: Iterable[Header]) -> list[Any]:
    """Return a link to the span that the headers of a record name, if there is one."""
    fields = propagate.get_global_textmap().fields
    carrier = {
        name: value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        for name, value in headers
        if name in fields and value is not None
    }
    if not carrier:
        return []
    span = trace.get_current_span(propagate.extract(carrier, Context()))
    context = span.get_span_context()
    return [trace.Link(context)] if context.is_valid else []
