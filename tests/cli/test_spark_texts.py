"""``kafkaguard explain`` of the texts with which Spark ends queries and jobs."""

from __future__ import annotations

import json

import pytest

from kafkaguard import errors as e
from kafkaguard.cli.group import run
from kafkaguard.cli.lookup import find_error

CONTINUOUS = (
    "org.apache.spark.sql.execution.streaming.continuous.ContinuousTaskRetryException: "
    "Continuous execution does not support task retry"
)
CONCURRENT = (
    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming "
    "jobs detected for 0"
)
INDETERMINATE = (
    "A shuffle map stage with indeterminate output was failed and retried. However, "
    "Spark cannot rollback the ResultStage 3 to re-process the input"
)
FAILED = "[STREAM_FAILED] Query [id = 4c00, runId = a28d] terminated with exception: "
USER = "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user function"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CONTINUOUS, "Spark repeats no task"),
        (FAILED + "Job aborted due to stage failure", "goes on from its checkpoint"),
        (FAILED + USER, "the function of foreachBatch raised"),
        (CONCURRENT, "another query uses the same checkpoint"),
        (INDETERMINATE, "Records may be written already"),
    ],
)
def test_text_of_spark_without_an_error_of_kafka_is_explained(text, said, capsys):
    """What happened to the query, and where its cause is."""
    assert run(["explain", text, "--json"]) == 0
    assert said in json.loads(capsys.readouterr().out)["note"]


def test_error_of_kafka_in_the_text_of_a_query_comes_first():
    """It says more than Spark's words around it."""
    cause = "org.apache.kafka.common.errors.RecordTooLargeException: 2 bytes"
    assert find_error(f"{FAILED}Task failed\nCaused by: {cause}").key == 10
    assert find_error("no text of Spark") is None
    assert find_error(FAILED).error_class is e.UnrelatedError
