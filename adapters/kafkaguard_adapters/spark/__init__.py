"""The Spark sink: batch writes, streams, pipelines."""
