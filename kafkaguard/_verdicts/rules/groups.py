"""Rules for consumer groups: membership and commits."""

from __future__ import annotations

from kafkaguard import _errors as e
from kafkaguard._errors.base import Action
from kafkaguard._verdicts.rules.rule import Rule, rule

RULES: tuple[Rule, ...] = (
    rule(
        "group-moved-on",
        Action.REJOIN,
        "the group has moved on: read again (poll, getmany), then continue only with "
        "partitions that this member still owns",
        on=(22, 25, 27, 110, 113, e.ClientGroupError),
        scenario=(
            "A commit or heartbeat after a rebalance. Repeating it keeps a doomed "
            "request alive and stalls the consumer."
        ),
        source="librdkafka #2933; faust #104; KIP-848",
    ),
    rule(
        "commit-for-others",
        Action.REJOIN,
        "this member does not own the partitions any more: read again (poll, "
        "getmany), then commit only for partitions that it still owns",
        on=(-172, e.ClientStateError),
        apis=frozenset({"OffsetCommit"}),
        scenario="A rebalance took them while their records were worked on.",
        source="faust #104; librdkafka RD_KAFKA_RESP_ERR__STATE",
    ),
    rule(
        "group-in-use",
        Action.CONFIGURE,
        "the group is in use: stop its members first, then change its offsets or "
        "delete it",
        on=(25, 68, 86),
        apis=frozenset({"DeleteGroups", "OffsetDelete"}),
        scenario="An administrator is not a member, and polls nothing.",
        source="KIP-229, KIP-496; Errors.NON_EMPTY_GROUP",
    ),
    rule(
        "group-in-use-anywhere",
        Action.CONFIGURE,
        "the group is in use: stop its members first, then change its offsets or "
        "delete it",
        on=(68, 86),
        scenario="The request is not named; members are never answered like this.",
        source="KIP-229, KIP-496; Errors.GROUP_SUBSCRIBED_TO_TOPIC",
    ),
    rule(
        "group-in-use-by-members",
        Action.CONFIGURE,
        "the group is in use: stop its members first, then change its offsets or "
        "delete it",
        on=(22, 25, 27, 110, 113, e.ClientGroupError),
        phase=("admin",),
        scenario="An administrator sets the offsets of a group that is in use.",
        source="KIP-396; KafkaAdminClient.alterConsumerGroupOffsets",
    ),
    rule(
        "join-with-given-id",
        Action.RETRY,
        "the client joins again with the member id of the answer",
        on=(79,),
        scenario="The first step of joining a group.",
        source="KIP-394",
    ),
)
