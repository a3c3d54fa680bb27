"""Sentences in the logs of clients, brokers and Spark, and what they mean.

The logs are those of librdkafka, the Java client and broker, Spark and others. Each
sentence is a pattern, because it contains names and numbers. The first match decides.
"""

from __future__ import annotations

import re
from typing import Final

from kafkaguard import _errors as e
from kafkaguard._errors.java_texts import JAVA_TEXTS
from kafkaguard.protocol._other_protocols import name_protocol, name_protocol_of_size

Key = int | type[e.KafkaGuardError]

_LINES: Final[tuple[tuple[str, Key], ...]] = (
    # TLS and SASL.
    (r"SSL handshake failed|certificate.verify failed|SSLHandshakeException", -181),
    (r"Failed to verify broker certificate|PKIX path building failed", -181),
    (r"SASL authentication (error|failed)|Authentication failed", 58),
    (r"Disconnected while requesting ApiVersion", e.ClientConfigurationError),
    (r"Unexpected handshake request with client mechanism", 33),
    # No connection to a broker.
    (r"Failed to resolve '|No resolvable bootstrap urls|UnknownHostException", -193),
    (r"Couldn't resolve server|nodename nor servname|Name or service not known", -193),
    (r"Connect to \S+ failed: |Connection setup timed out", e.ClientNotConnectedError),
    (r"Connection to node -?\d+ .*could not be established", e.ClientNotConnectedError),
    (r"Bootstrap broker .*disconnected", e.ClientNotConnectedError),
    (r"\d+/\d+ brokers are down", -187),
    (r"Node -?\d+ disconnected|Broker transport failure", e.ClientConnectionError),
    (r"Connection (reset by peer|aborted)|Broken pipe", e.ClientConnectionError),
    (r"request\(s\) timed out: disconnect", e.ClientTimeoutError),
    # Groups.
    (r"Application maximum poll interval|consumer poll timeout has expired", -147),
    (r"Partition .*(is|are) not (currently )?assigned", e.ClientGroupError),
    (r"No current assignment for partition", e.ClientGroupError),
    (r"Offset commit cannot be completed since the consumer", e.ClientGroupError),
    (r"Commit cannot be completed since the group has already", e.ClientGroupError),
    # Records.
    (r"cannot accept message without key", e.InvalidRecordKeyError),
    (r"not present in metadata after", e.ClientMetadataError),
    (r"Expiring \d+ record\(s\) for", -192),
    (r"message is \d+ bytes when serialized which is larger than", 10),
    (r"Cannot fetch offset \d+|Offsets? out of range|out of range with no", 1),
    (r"Some data may have been lost", 1),
    (r"Timeout of \d+ ?ms expired before|Timed out waiting for", e.ClientTimeoutError),
    (r"Failed to allocate memory within the configured max blocking", -184),
    # Codes in the texts of other clients, and of Kafka before 2.6.
    (r"server is not the leader for that topic-partition", 6),
    (r"topic or partition that does not exist on this broker", 3),
)
_PATTERNS: Final = tuple((re.compile(text), key) for text, key in _LINES)
#: The texts of brokers and clients that refuse a size, with the size.
_SIZE: Final = re.compile(
    r"[Ii]nvalid (?:receive |response |frame |message )?\(?size[ =]+(-?\d{4,10})"
)


def key_of_line(text: str) -> Key | None:
    """Find the error that a log line is about."""
    for pattern, key in _PATTERNS:
        if pattern.search(text):
            return key
    phrases = [words for words in JAVA_TEXTS if words in text]
    return JAVA_TEXTS[max(phrases, key=len)] if phrases else None


def other_protocol(text: str) -> str | None:
    """Name the other protocol whose first bytes a text shows, if it is not Kafka.

    Args:
        text: A log line with an invalid size, or the first bytes of the connection.
    """
    for number in _SIZE.findall(text):
        protocol = name_protocol_of_size(int(number))
        if protocol is not None:
            return f"the size {number} is the beginning of {protocol}"
    protocol = name_protocol(text.lstrip().encode(errors="replace"))
    return None if protocol is None else f"this is {protocol}"


_LAST_CAUSE = (
    "the cause is the last 'Caused by' of the whole text, or in the executor's log: "
    "explain that"
)
#: What to do, by a pattern of Spark's text; the first one that matches counts.
_SPARK_TEXTS: Final = {
    r"\bContinuousTaskRetryException\b|Continuous execution does not support task "
    r"retry": (
        "under trigger(continuous=...) Spark repeats no task: one that failed ends the "
        f"query. Start the query again from its checkpoint; {_LAST_CAUSE}."
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
        f"{_LAST_CAUSE}."
    ),
    r"\bSTREAM_FAILED\b|\bStreamingQueryException\b": (
        "a streaming query ended; it goes on from its checkpoint when it is started "
        f"again. The text shows no error of Kafka; {_LAST_CAUSE}."
    ),
}
_SPARK_PATTERNS: Final = [
    (re.compile(text), meaning) for text, meaning in _SPARK_TEXTS.items()
]


def explain_spark_text(text: str) -> str | None:
    """Return what a text of Spark means, and what to do; None: it is none of these."""
    meanings = (meaning for pattern, meaning in _SPARK_PATTERNS if pattern.search(text))
    return next(meanings, None)
