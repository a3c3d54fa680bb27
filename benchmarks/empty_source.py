"""A data source in Python that drops its records: the least that such a sink costs.

Spark starts Python processes for any of them, and asks two of them in each micro-batch.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

NAME = "empty"


class _Writer:
    def write(self, iterator):
        """Read a partition, and drop it."""
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, *_):
        """Do nothing."""


class _BatchWriter(_Writer, DataSourceArrowWriter):
    pass


class _StreamWriter(_Writer, DataSourceStreamArrowWriter):
    pass


class EmptySource(DataSource):
    """Drops batches and micro-batches."""

    @classmethod
    def name(cls):
        """Return the name for ``format(...)``."""
        return NAME

    def writer(self, schema, overwrite):  # noqa: ARG002 - Spark names them
        """Return the writer of a batch."""
        return _BatchWriter()

    def streamWriter(self, schema, overwrite):  # noqa: ARG002, N802 - Spark names them
        """Return the writer of a stream."""
        return _StreamWriter()
