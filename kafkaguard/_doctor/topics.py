"""Checks of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._doctor.facts import number_of
from kafkaguard._doctor.findings import BAD, RISKY, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._doctor.facts import Facts

_DAY_MS = 86_400_000
#: Dead letters are kept for at least so many days, so that a fault can be mended.
REPAIR_DAYS = 7
#: A topic's name that says that it has dead letters.
_LETTER_ENDINGS = (".dlq", "-dlq", ".dlt", "-dlt", ".deadletter", "-deadletter")
#: The least bounds of timestamps: a day for late records, and Kafka's own for clocks.
_TIME_BOUNDS = {
    "message.timestamp.before.max.ms": _DAY_MS,
    "message.timestamp.after.max.ms": 3_600_000,
}


def check_leaders(facts: Facts) -> Iterator[Finding]:
    """Each partition has a leader and all its replicas in sync."""
    for topic in facts.topics.values():
        least = topic.number("min.insync.replicas")
        for each in topic.partitions:
            place = f"topic {topic.name}, partition {each.number}"
            count = f"{len(each.in_sync)} of {len(each.replicas)} replicas are in sync"
            if each.leader is None:
                yield Finding(
                    "topic-no-leader",
                    BAD,
                    place,
                    f"no broker leads it; its replicas are on {list(each.replicas)}",
                    "it can be neither written nor read",
                    "start these brokers",
                )
            elif least is not None and len(each.replicas) < least:
                yield Finding(
                    "topic-min-isr-above-replicas",
                    BAD,
                    place,
                    f"min.insync.replicas is {least}, and it has "
                    f"{len(each.replicas)} replicas",
                    "acks=all is always refused with NOT_ENOUGH_REPLICAS",
                    "lower it, or add replicas",
                    facts.alter(
                        topic.name, f"min.insync.replicas={len(each.replicas)}"
                    ),
                )
            elif least is not None and len(each.in_sync) < least:
                yield Finding(
                    "topic-under-min-isr",
                    BAD,
                    place,
                    f"{count}, and min.insync.replicas is {least}",
                    "acks=all is refused with NOT_ENOUGH_REPLICAS",
                    "start the brokers of the missing replicas",
                )
            elif len(each.in_sync) < len(each.replicas):
                yield Finding(
                    "topic-under-replicated",
                    RISKY,
                    place,
                    count,
                    "one more broker that fails can make it unavailable",
                    "start the brokers of the missing replicas",
                )


def check_replication(facts: Facts) -> Iterator[Finding]:
    """A topic outlasts a broker; judged where there are three brokers or more."""
    if not facts.is_replicated:
        return
    for topic in facts.topics.values():
        if topic.name.startswith("__") or not topic.partitions:
            continue
        copies = min(len(each.replicas) for each in topic.partitions)
        least = topic.number("min.insync.replicas")
        place = f"topic {topic.name}"
        if copies == 1:
            yield Finding(
                "topic-one-replica",
                RISKY,
                place,
                "its replication factor is 1",
                "it is gone while its broker is, and lost with its disk",
                "add replicas with a reassignment",
            )
        elif least is not None and least >= copies:
            yield Finding(
                "topic-no-spare-replica",
                RISKY,
                place,
                f"min.insync.replicas is {least}, and it has {copies} replicas",
                "acks=all is refused while one broker is down, also for its restart",
                "lower it below the replication factor",
                facts.alter(topic.name, f"min.insync.replicas={max(1, copies - 1)}"),
            )
        elif least == 1:
            yield Finding(
                "topic-min-isr-one",
                RISKY,
                place,
                f"min.insync.replicas is 1 with {copies} replicas",
                "a record that was confirmed is lost with the one broker that had it",
                "raise it to 2",
                facts.alter(topic.name, "min.insync.replicas=2"),
            )


def check_unclean(facts: Facts) -> Iterator[Finding]:
    """No replica that lacks records becomes the leader."""
    for topic in facts.topics.values():
        settings = topic.settings or {}
        if settings.get("unclean.leader.election.enable") == "true":
            yield Finding(
                "topic-unclean-election",
                RISKY,
                f"topic {topic.name}",
                "unclean.leader.election.enable is true",
                "records that were confirmed are lost when such a replica leads",
                "set it to false",
                facts.alter(topic.name, "unclean.leader.election.enable=false"),
            )


def check_keys(facts: Facts) -> Iterator[Finding]:
    """Compacted topics have no records without keys."""
    for place, count in facts.keyless.items():
        yield Finding(
            "topic-keyless-records",
            BAD,
            f"topic {place.topic}, partition {place.partition}",
            f"{count} of the last records have no key, and the topic is compacted",
            "the log cleaner fails or drops them, and their producer is refused now",
            "give the records keys, or set cleanup.policy to delete",
            facts.alter(place.topic, "cleanup.policy=delete"),
        )


def check_sizes(facts: Facts) -> Iterator[Finding]:
    """What the client takes, its topics take."""
    most = number_of(facts, "message.max.bytes")
    batch = number_of(facts, "batch.size")
    for topic in facts.topics.values():
        limit = topic.number("max.message.bytes")
        if limit is None or topic.name.startswith("__"):
            continue
        if "batch.size" in facts.settings and batch > limit:
            yield Finding(
                "batch-above-topic-limit",
                BAD,
                f"topic {topic.name}",
                f"batch.size is {batch:,} and max.message.bytes of the topic {limit:,}",
                "full batches are refused with MESSAGE_TOO_LARGE",
                f"set batch.size to at most {limit:,}",
            )
        elif "message.max.bytes" in facts.settings and most > limit:
            yield Finding(
                "message-above-topic-limit",
                RISKY,
                f"topic {topic.name}",
                f"message.max.bytes of the client is {most:,}, and max.message.bytes "
                f"of the topic {limit:,}",
                "the client takes records that the topic refuses",
                "make the two equal",
                facts.alter(topic.name, f"max.message.bytes={most}"),
            )


def check_timestamps(facts: Facts) -> Iterator[Finding]:
    """Records of yesterday can be written."""
    for topic in facts.topics.values():
        for name, least in _TIME_BOUNDS.items():
            bound = topic.number(name)
            if bound is not None and bound < least:
                yield Finding(
                    "topic-timestamp-bound",
                    RISKY,
                    f"topic {topic.name}",
                    f"{name} is {bound:,} ms",
                    "records that are older or newer are refused: INVALID_TIMESTAMP",
                    f"raise it to {least:,} or more",
                    facts.alter(topic.name, f"{name}={least}"),
                )


def check_letters(facts: Facts) -> Iterator[Finding]:
    """Dead-letter topics are there, and keep what is in them."""
    for source, letters in facts.letters.items():
        if letters not in facts.topics:
            yield Finding(
                "letters-missing",
                BAD,
                f"topic {letters}",
                f"the policy sends dead letters of {source} there, and there is none",
                "rejected records fail with their error instead",
                "create it",
                facts.admin(
                    *("topics", "create", "-t", letters, "--num-partitions", "1"),
                    *("--replication-factor", "3" if facts.is_replicated else "1"),
                ),
            )
    for topic in facts.topics.values():
        is_named = topic.name in facts.letters.values()
        if not (is_named or topic.name.lower().endswith(_LETTER_ENDINGS)):
            continue
        settings = topic.settings or {}
        if "compact" in settings.get("cleanup.policy", ""):
            yield Finding(
                "letters-compacted",
                BAD,
                f"topic {topic.name}",
                f"cleanup.policy is {settings['cleanup.policy']}",
                "of letters with the same key only the last is kept, and letters "
                "without a key are refused",
                "set it to delete",
                facts.alter(topic.name, "cleanup.policy=delete"),
            )
        kept = topic.number("retention.ms")
        if kept is not None and 0 <= kept < REPAIR_DAYS * _DAY_MS:
            yield Finding(
                "letters-short-lived",
                RISKY,
                f"topic {topic.name}",
                f"retention.ms is {kept:,} ({kept / _DAY_MS:.3g} days)",
                "letters are deleted before the fault is mended",
                f"raise it to {REPAIR_DAYS} days or more",
                facts.alter(topic.name, f"retention.ms={REPAIR_DAYS * _DAY_MS}"),
            )


def check_remote_storage(facts: Facts) -> Iterator[Finding]:
    """Tiered topics can be read."""
    for place, error in facts.cold.items():
        yield Finding(
            "remote-storage-not-ready",
            BAD,
            f"topic {place.topic}, partition {place.partition}",
            str(error),
            "what is in remote storage cannot be read, and offsets are not known",
            "wait for the brokers, or look at their remote log metadata manager",
        )


def check_absent(facts: Facts) -> Iterator[Finding]:
    """Topics that were named are there."""
    for name in facts.absent:
        yield Finding(
            "topic-absent",
            BAD,
            f"topic {name}",
            "there is none, or this user may not see it",
            "it can be neither written nor read",
            "create it, or grant Describe",
        )
