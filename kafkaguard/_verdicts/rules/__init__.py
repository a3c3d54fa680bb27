"""All rules, in the order in which they are tried.

The generated ``kafkaguard._errors.generated`` has what Kafka says about a code. The
rules say what to do about it, and why; each module of this package has the rules of one
area. They are tried in the order of :data:`ORDER`, and the first one that matches
decides. The last ones are the families of Kafka's own table, so every combination has a
verdict:

* authentication, authorization, configuration -> CONFIGURE
* retriable with stale metadata -> REFRESH; retriable otherwise -> RETRY
* an unknown code -> IN_DOUBT if the request changes something or is not known, else
  REJECT
* anything else -> REJECT

If facts are not known, the more costly case is assumed: a request that is not named may
have been a write, and a producer is not idempotent.

A sequence number protects only the client's own repeat of a batch. An exception or a
delivery report says that the client has given up, and whoever sends the record again
sends a new record. So these are judged as if the producer were not idempotent.
"""

from __future__ import annotations

from kafkaguard._verdicts.rules import (
    clients,
    families,
    groups,
    produce,
    reads,
    requests,
    settings,
    transactions,
)
from kafkaguard._verdicts.rules.rule import CARRIES_RECORDS, Rule

__all__ = ["AREAS", "CARRIES_RECORDS", "ORDER", "RULES", "Rule"]

AREAS = (
    clients,
    families,
    groups,
    produce,
    reads,
    requests,
    settings,
    transactions,
)
_BY_ID = {rule.info.id: rule for area in AREAS for rule in area.RULES}

#: The rules in the order in which they are tried, from top to bottom.
ORDER = (
    "no-error",
    "interrupted-change",
    "interrupted",
    # What a client says about itself goes before what a code says.
    "fenced-or-timed-out",
    "fenced",
    "fenced-by-coordinator",
    "mechanism-not-offered",
    "port-without-login",
    "registry-refuses",
    "denied",
    "misconfigured-for-good",
    "client-gave-itself-up",
    "client-is-dead",
    "client-wants-abort",
    "commit-without-answer",
    "abort-without-answer",
    "commit-again",
    "end-transaction-again-after-refresh",
    "end-transaction-again",
    "client-closed",
    "serialiser-had-no-answer",
    "created-already",
    "deleted-already",
    "nothing-to-delete",
    "token-provider-failed",
    "background-report",
    # Records.
    "null-key-in-transaction",
    "send-failed-in-transaction",
    "null-key-behind-a-lost-code",
    "null-key-on-compacted-topic",
    "refused-alone",
    "batch-mate-refused",
    "batch-mate-refused-locally",
    "record-refused",
    "damaged-on-the-way",
    "record-too-large-for-client",
    "record-too-large",
    "record-never-valid",
    "call-under-way",
    "queue-full",
    "too-much-in-flight",
    "throttled",
    # Written or not.
    "already-written",
    "sequence-protects",
    "sequence-protects-after-refresh",
    "not-waited-for-replicas",
    "leader-lost-after-append",
    "gave-up-before-handing-over",
    "topic-not-there",
    "not-connected",
    "change-may-be-done",
    "answer-lost",
    "gave-up-waiting",
    "connection-lost-in-flight",
    "connection-lost",
    "state-of-a-failed-transaction",
    "purged-in-flight",
    "purged",
    "commit-of-unknown-result",
    "client-must-start-over",
    "abort-refused",
    "abort-and-go-on",
    "abort-after-sequence-error",
    "sequence-broken",
    "offsets-of-a-lost-membership",
    "neighbour-stopped-transaction",
    "not-attempted",
    # Groups.
    "group-in-use",
    "group-in-use-anywhere",
    "group-in-use-by-members",
    "commit-for-others",
    "group-moved-on",
    "join-with-given-id",
    # The same code means something else on these requests.
    "remote-storage-not-ready",
    "replica-down-in-metadata",
    "election-not-needed",
    "end-offset-not-known-yet",
    "ask-the-controller",
    "start-from-bootstrap",
    "disk-has-failed",
    "offset-out-of-range",
    "code-not-kept",
    "server-error-on-change",
    "server-error-on-read",
    "tiered-follower-only",
    # Settings.
    "administrator-must-mend",
    "settings-refused",
    "tls-failed",
    "client-refuses-settings",
    "configuration",
    # Conditions of the client itself.
    "topic-not-known-yet",
    "no-metadata-of-topic",
    "cluster-not-known-yet",
    "garbled-answer",
    "notice",
    "partition-not-there",
    "cannot-serialise",
    "not-kafka",
    # Kafka's own families: the fall-back of every code.
    "no-leader",
    "refresh-and-retry",
    "retry",
    "unrecognised-code-on-change",
    "unrecognised-code",
    "fatal",
)
#: Every rule, in that order. A rule that ORDER does not name would never be tried, so
#: a test compares the two.
RULES: tuple[Rule, ...] = tuple(_BY_ID[rule_id] for rule_id in ORDER)
