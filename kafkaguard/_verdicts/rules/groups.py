"""Consumer groups: membership and commits."""

from __future__ import annotations

from kafkaguard import errors as e
from kafkaguard._verdicts.rules.rule import Rule, rule
from kafkaguard._verdicts.verdict import Action

RULES: tuple[Rule, ...] = (
    rule(
        "group-moved-on",
        Action.REJOIN,
        "the group has moved on: poll, then only for partitions still owned",
        on=(22, 25, 27, 110, 113, e.ClientGroupError),
        scenario=(
            "A commit or heartbeat after a rebalance. Repeating it keeps a doomed "
            "request alive and stalls the consumer."
        ),
        source="librdkafka #2933; faust #104; KIP-848",
    ),
    rule(
        "join-with-given-id",
        Action.RETRY,
        "join again with the member id that the answer gave",
        on=(79,),
        scenario="The first step of joining a group.",
        source="KIP-394",
    ),
)
