"""Checks of brokers, disks and rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._doctor.facts import READ, WRITE
from kafkaguard._doctor.findings import BAD, RISKY, Finding, not_judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._doctor.facts import Facts

#: How much fuller than the average a broker may be.
_UNEVEN = 0.3


def check_addresses(facts: Facts) -> Iterator[Finding]:
    """Each address of the client can be used."""
    working = [a for a, error in facts.addresses.items() if error is None]
    for address, error in facts.addresses.items():
        if error is not None:
            yield Finding(
                "address-unreachable",
                RISKY if working else BAD,
                f"address {address}",
                str(error),
                "the client cannot start while the other addresses are down",
                "correct bootstrap.servers, or the name, port, TLS or login",
            )


def check_brokers(facts: Facts) -> Iterator[Finding]:
    """Each broker can be reached at the address that the cluster gives."""
    for broker in facts.brokers.values():
        if broker.error is not None:
            yield Finding(
                "broker-unreachable",
                BAD,
                f"broker {broker.id} at {broker.address}",
                str(broker.error),
                "partitions that it leads can be neither written nor read from here",
                "start the broker, or correct its advertised.listeners",
            )
    for missing in sorted(facts.missing):
        yield Finding(
            "broker-down",
            BAD,
            f"broker {missing}",
            "it has replicas, and is not in the cluster's Metadata",
            "its partitions have fewer copies, or no leader",
            "start the broker",
        )


def check_versions(facts: Facts) -> Iterator[Finding]:
    """Each broker offers the requests that the other checks need."""
    for broker in facts.brokers.values():
        for request, missing in broker.lacks.items():
            yield not_judged(
                "broker-too-old",
                f"broker {broker.id} at {broker.address}",
                f"it does not offer {request}: {missing}",
            )


def check_sight(facts: Facts) -> Iterator[Finding]:
    """This user sees all topics and groups."""
    for look in facts.looks[-1:]:
        if look.lag.sees_all_topics is False:
            yield not_judged(
                "topics-hidden",
                "topics",
                "there may be topics that this user may not Describe",
            )
        if look.lag.sees_all_groups is False:
            yield not_judged(
                "groups-hidden",
                "groups",
                "there may be groups and transactions that this user may not Describe",
            )


def check_rights(facts: Facts) -> Iterator[Finding]:
    """This user may use the topics that it can see."""
    for topic in facts.topics.values():
        if topic.name.startswith("__"):
            continue
        if topic.allowed is None:
            continue
        lacks = [
            name
            for name, code in (("Read", READ), ("Write", WRITE))
            if code not in topic.allowed
        ]
        if lacks:
            yield not_judged(
                "topic-rights",
                f"topic {topic.name}",
                f"this user may not {' or '.join(lacks)} it: grant the operation if "
                "the client should",
            )
        if topic.settings is None:
            yield not_judged(
                "topic-settings",
                f"topic {topic.name}",
                "its settings cannot be read: grant DescribeConfigs",
            )


def check_disks(facts: Facts) -> Iterator[Finding]:
    """Disks work, and have room."""
    if facts.log_dirs is None:
        return
    used: dict[int, float] = {}
    for broker in facts.log_dirs.brokers.values():
        if broker.error is not None:
            yield not_judged("disks", f"broker {broker.broker}", str(broker.error))
        for path, each in broker.dirs.items():
            place = f"broker {broker.broker}, {path}"
            if each.error is not None:
                yield Finding(
                    "disk-offline",
                    BAD,
                    place,
                    str(each.error),
                    "its replicas are gone until it is back",
                    "mend the disk and restart the broker",
                )
            elif each.used is not None:
                used[broker.broker] = max(used.get(broker.broker, 0.0), each.used)
                if each.used > facts.full:
                    yield Finding(
                        "disk-full",
                        BAD,
                        place,
                        f"{each.used:.0%} of it is used, more than {facts.full:.0%}",
                        "the broker stops when it is full",
                        "add room, move replicas, or shorten retention",
                    )
    for number, share in sorted(used.items()):
        others = [s for other, s in used.items() if other != number]
        if others and share - sum(others) / len(others) > _UNEVEN:
            yield Finding(
                "disk-uneven",
                RISKY,
                f"broker {number}",
                f"{share:.0%} of its disk is used, of the others {others[0]:.0%}",
                "it is full long before the others",
                "move replicas to other brokers",
            )
