"""Texts of Spark that are about a query or a job, and not about an error of Kafka."""

from __future__ import annotations

import re
from typing import Final

_CAUSE = (
    "the cause is the last 'Caused by' of the whole text, or in the executor's log: "
    "explain that"
)
#: What to do, by a pattern of Spark's text; the first one that matches counts.
_TEXTS: Final = {
    r"\bContinuousTaskRetryException\b|Continuous execution does not support task "
    r"retry": (
        "under trigger(continuous=...) Spark repeats no task: one that failed ends the "
        f"query. Start the query again from its checkpoint; {_CAUSE}."
    ),
    r"\bCONCURRENT_STREAM_LOG_UPDATE\b|Multiple streaming jobs detected": (
        "another query uses the same checkpoint: stop one of the two, and give each "
        "query a checkpoint of its own."
    ),
    r"stage with indeterminate output was failed and retried": (
        "an executor was lost, and Spark cannot compute its rows again as they were, "
        "because a column or the order of the rows is random. Records may be written "
        "already. Run the job again; to avoid it, make the DataFrame deterministic, or "
        "write it to a file (or checkpoint it) first."
    ),
    r"\bFOREACH_BATCH_USER_FUNCTION_ERROR\b": (
        "the function of foreachBatch raised an exception, which ends the query; "
        f"{_CAUSE}."
    ),
    r"\bSTREAM_FAILED\b|\bStreamingQueryException\b": (
        "a streaming query ended; it goes on from its checkpoint when it is started "
        f"again. The text shows no error of Kafka; {_CAUSE}."
    ),
}
_PATTERNS: Final = [(re.compile(text), said) for text, said in _TEXTS.items()]


def spark_text(text: str) -> str | None:
    """Return what a text of Spark means, and what to do; None: it is none of these."""
    found = (said for pattern, said in _PATTERNS if pattern.search(text))
    return next(found, None)
