"""Spans of sends and handlers, and what they are linked to."""

from __future__ import annotations

import inspect

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kafkaguard import telemetry
from kafkaguard._common.observing import observer_of, traced

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Tracing:
    """Telemetry with spans in memory."""

    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.tracer_provider = provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.telemetry = telemetry.otel(tracer_provider=provider)

    def spans(self):
        """Return the finished spans by name."""
        found = {}
        for span in self.exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found


@pytest.fixture
def tracing():
    """Telemetry with spans in memory."""
    return Tracing()


def linked(span):
    """Return the traces that a span is linked to."""
    return [f"{link.context.trace_id:032x}" for link in span.links]


def plain(topic, value=None, headers=None):
    """Send a record as kafka-python does."""
    return topic, value, headers


def last(topic, value=None, key=None, headers=None, *, timeout=None):
    """Send with headers as the third argument after the topic."""
    return topic, value, headers


async def awaited(topic, value=None, headers=None):
    """Send as aiokafka does."""
    return topic, value, headers


def test_a_send_without_a_trace_carries_its_own_span(tracing):
    """The application's headers come first, and its list stays as it was."""
    mine = [("mine", b"1")]
    topic, _, headers = traced(tracing.telemetry, plain)("t", b"v", headers=mine)
    (span,) = tracing.spans()["send t"]
    assert (topic, span.kind, span.links) == ("t", SpanKind.PRODUCER, ())
    assert headers[0] == ("mine", b"1")
    name, value = headers[1]
    assert name == "traceparent"
    assert value.split(b"-")[2].decode() == f"{span.context.span_id:016x}"
    assert mine == [("mine", b"1")]
    attributes = dict(span.attributes)
    assert attributes["messaging.destination.name"] == "t"
    assert attributes["messaging.system"] == "kafka"


@pytest.mark.parametrize(
    "given", [[("traceparent", PARENT)], {"traceparent": PARENT.decode()}]
)
@pytest.mark.parametrize("by_place", [True, False])
def test_a_record_with_a_trace_keeps_it_and_its_span_is_linked(
    tracing, given, by_place
):
    """As a replayed record, or one that is passed on; headers may be a dict."""
    send = traced(tracing.telemetry, last)
    args = (b"v", b"k", given) if by_place else ()
    kwargs = {} if by_place else {"headers": given}
    _, _, headers = send("t", *args, **kwargs)
    assert headers is given
    (span,) = tracing.spans()["send t"]
    assert linked(span) == ["0af7651916cd43dd8448eb211c80319c"]


async def test_an_awaited_send_stays_one(tracing):
    """It has a span, too, and the topic may be given by its name."""
    send = traced(tracing.telemetry, awaited)
    assert inspect.iscoroutinefunction(send)
    topic, _, headers = await send(topic="t", value=b"v")
    assert (topic, headers[0][0]) == ("t", "traceparent")
    assert len(tracing.spans()["send t"]) == 1


def test_a_send_that_raises_ends_its_span_with_the_error(tracing):
    """And raises."""

    def refuse(topic, headers=None):
        raise KeyError(topic)

    with pytest.raises(KeyError):
        traced(tracing.telemetry, refuse)("t")
    (span,) = tracing.spans()["send t"]
    assert span.status.status_code is StatusCode.ERROR


def test_a_handler_has_a_span_with_a_link_for_each_record(tracing):
    """A record without a trace, or with a broken one, has no link."""
    headers = [[("traceparent", PARENT)], [("traceparent", b"\xff")], [("a", None)]]
    observer = observer_of(tracing.telemetry)
    assert observer.traces
    with observer.processing(("t", 3), "g", headers):
        pass
    (span,) = tracing.spans()["process t"]
    assert span.kind is SpanKind.CONSUMER
    assert linked(span) == ["0af7651916cd43dd8448eb211c80319c"]
    attributes = dict(span.attributes)
    assert attributes["messaging.consumer.group.name"] == "g"
    assert attributes["messaging.destination.partition.id"] == "3"
    assert attributes["messaging.batch.message_count"] == 3


def test_without_a_tracer_provider_nothing_is_traced():
    """A send is the client's own."""
    hook = telemetry.otel()
    assert not observer_of(hook).traces
    assert traced(hook, plain) is plain
    assert traced(None, plain) is plain
    assert traced(print, plain) is plain
