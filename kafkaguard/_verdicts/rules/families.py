"""Rules for Kafka's own families of codes, tried last."""

from __future__ import annotations

from kafkaguard import _errors as e
from kafkaguard._errors.base import Action
from kafkaguard._verdicts.rules.rule import CHANGES, Rule, rule

RULES: tuple[Rule, ...] = (
    rule(
        "no-error",
        Action.IGNORE,
        "there is no error",
        on=(0,),
        written="yes",
        scenario="Code 0 was reported like an error.",
        source="org.apache.kafka.common.protocol.Errors.NONE",
    ),
    rule(
        "no-leader",
        Action.REFRESH,
        "the partition has no leader: start a broker that has a replica of it; the "
        "same request succeeds when there is a leader",
        on=(5,),
        apis=frozenset({"Metadata"}),
        scenario="The broker of the only replica is down; an election takes moments.",
        source="MetadataResponse; KIP-1050",
    ),
    rule(
        "refresh-and-retry",
        Action.REFRESH,
        "the client's metadata is stale: send the same request again when the client "
        "has refreshed its metadata or found the coordinator",
        on=(e.RefreshRetriableError,),
        scenario="Leaders and coordinators move; also just after a topic was created.",
        source="RefreshRetriableException; KIP-1050",
    ),
    rule(
        "retry",
        Action.RETRY,
        "a passing condition: send the same request again after a backoff",
        on=(e.RetriableError,),
        scenario="Too few replicas in sync, a coordinator that is loading.",
        source="RetriableException; KIP-1050",
    ),
    rule(
        "unrecognised-code-on-change",
        Action.IN_DOUBT,
        "kafkaguard does not know this code: the broker may have done what the "
        "request asked for",
        on=(e.UnrecognisedCodeError,),
        apis=CHANGES,
        written="maybe",
        scenario="A broker newer than kafkaguard. The number is kept.",
        source="pykafka #401; kafka-python #2306",
    ),
    rule(
        "unrecognised-code",
        Action.REJECT,
        "kafkaguard does not know this code, so it cannot be retried safely",
        on=(e.UnrecognisedCodeError,),
        scenario="A broker newer than kafkaguard.",
        source="pykafka #1001; kafka-python #2306",
    ),
    rule(
        "fatal",
        Action.REJECT,
        "this request can never succeed as it is",
        scenario="Kafka's table has the code as fatal, and no earlier rule matches.",
        source="ApiException without RetriableException; KIP-1050",
    ),
)
