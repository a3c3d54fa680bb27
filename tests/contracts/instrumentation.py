"""The contract of guarded producers that OpenTelemetry's own package instruments."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from kafkaguard import errors
from tests.contracts.producer import ONE_BATCH_S, records, stale_topic


class InstrumentationContract:
    """A guarded producer whose client is traced."""

    def instrumented(self, provider, writer=None):
        """Return a context manager in which the client's package is active.

        `writer` is given if the package is activated after the producer was guarded.
        """
        raise NotImplementedError

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_each_record_has_one_span_and_one_trace_header(self, kafka_cluster, when):
        """Also one that is sent again, after another record of its batch was refused."""
        topic, stale = stale_topic(kafka_cluster)
        spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        with ExitStack() as stack:
            if when == "before":
                stack.enter_context(self.instrumented(provider))
            servers = kafka_cluster.bootstrap_servers
            writer = stack.enter_context(
                self.open(servers, topics=stale, linger=ONE_BATCH_S)
            )
            if when == "after":
                stack.enter_context(self.instrumented(provider, writer))
            batch = [{"value": b"%d" % n, "key": b"k"} for n in range(6)]
            batch[2]["headers"] = [("mine", b"1")]
            batch.insert(3, {"value": b"no key"})
            handles = writer.send_batch(topic, batch)
            refused = writer.outcome(handles.pop(3))
            assert isinstance(refused, errors.InvalidRecordKeyError)
            assert list(range(6)) == writer.outcomes(handles)
        there = records(kafka_cluster, topic)
        names = [[name for name, _ in record.headers] for record in there]
        assert [each.count("traceparent") for each in names] == [1] * 6
        assert names[2][0] == "mine"
        sent = [s for s in spans.get_finished_spans() if s.kind is SpanKind.PRODUCER]
        assert len(sent) == 7
        told = {
            dict(record.headers)["traceparent"].split(b"-")[2].decode()
            for record in there
        }
        assert told < {f"{span.context.span_id:016x}" for span in sent}
