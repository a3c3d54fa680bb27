"""A rule: a condition and its decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkaguard import _errors as e
from kafkaguard._errors.base import Action, RuleInfo, Written

if TYPE_CHECKING:
    from collections.abc import Mapping

Api = str | None
Signal = int | type[e.KafkaGuardError]

PRODUCE: frozenset[Api] = frozenset({"Produce", None})
#: Requests about records; no other verdict speaks of them.
CARRIES_RECORDS: frozenset[Api] = PRODUCE | {"Fetch"}
READS_LOG: frozenset[Api] = frozenset({"Fetch", "ListOffsets"})
RECORDS_AND_OFFSETS: frozenset[Api] = PRODUCE | {
    "OffsetCommit",
    "TxnOffsetCommit",
    "Metadata",
}
GROUP_COMMIT: frozenset[Api] = frozenset({"TxnOffsetCommit"})
COORDINATED_TXN: frozenset[Api] = frozenset(
    {"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"}
    | {"TxnOffsetCommit"}
)
#: Administrative requests whose refusal a human must mend.
ADMIN: frozenset[Api] = frozenset(
    {
        "CreateTopics",
        "DeleteTopics",
        "CreatePartitions",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "CreateAcls",
        "DeleteAcls",
        "AlterClientQuotas",
        "AlterUserScramCredentials",
        "AlterPartitionReassignments",
        "UpdateFeatures",
    }
)
#: Requests that change something, so that an answer of unknown meaning leaves doubt.
CHANGES: frozenset[Api] = (
    ADMIN
    | COORDINATED_TXN
    | frozenset(
        {
            None,
            "Produce",
            "OffsetCommit",
            "DeleteRecords",
            "DeleteGroups",
            "OffsetDelete",
            "AlterReplicaLogDirs",
            "CreateDelegationToken",
            "RenewDelegationToken",
            "ExpireDelegationToken",
            "ElectLeaders",
            "UnregisterBroker",
            "AlterShareGroupOffsets",
            "DeleteShareGroupOffsets",
            "ShareAcknowledge",
        }
    )
)
#: Requests that take something away, so that a second time there is nothing left.
DELETES: frozenset[Api] = frozenset(
    {
        "DeleteTopics",
        "DeleteGroups",
        "OffsetDelete",
        "ExpireDelegationToken",
        "AlterUserScramCredentials",
        "AlterPartitionReassignments",
        "UnregisterBroker",
        "RemoveRaftVoter",
    }
)
#: Requests that do a second thing when they are sent a second time.
NOT_REPEATABLE: frozenset[Api] = PRODUCE | {"CreateDelegationToken"}
#: Requests that change something, and nothing more at the second time.
REPEATABLE: frozenset[Api] = CHANGES - NOT_REPEATABLE - {"EndTxn"}
#: The phases in which the client had taken the record.
SENT = (None, "single")


@dataclass(frozen=True, slots=True)
class Rule:
    """A decision: what it says, and when it applies.

    Args:
        info: The words, with their source.
        action: The right next step.
        written: Whether the cluster holds what was sent.
        on: Codes and classes that it applies to; empty for any.
        apis: Requests that it applies to (None among them is "not named"); None for
            any.
        when: For a fact of the context, the values that it may have.
        error_class: A class that says more than the code's own.
    """

    info: RuleInfo
    action: Action
    written: Written
    on: tuple[Signal, ...]
    apis: frozenset[Api] | None
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    error_class: type[e.KafkaGuardError] | None = None

    def matches(
        self, code: int | None, cls: type, api: Api, facts: Mapping[str, Any]
    ) -> bool:
        """Return whether this rule decides about an answer."""
        if self.apis is not None and api not in self.apis:
            return False
        if any(facts[name] not in values for name, values in self.when.items()):
            return False
        return not self.on or any(
            signal == code if isinstance(signal, int) else issubclass(cls, signal)
            for signal in self.on
        )


def rule(  # noqa: PLR0913 - a rule is a row of a table, and these are its columns
    rule_id: str,
    action: Action,
    sentence: str,
    *,
    on: tuple[Signal, ...] = (),
    apis: frozenset[Api] | None = None,
    written: Written = "no",
    error_class: type[e.KafkaGuardError] | None = None,
    scenario: str,
    source: str,
    **when: tuple[Any, ...],
) -> Rule:
    info = RuleInfo(rule_id, sentence, source, scenario)
    return Rule(info, action, written, on, apis, when, error_class)
