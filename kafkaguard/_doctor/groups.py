"""Checks of consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._cluster.lag import NO_SUCH_GROUP, LagReason
from kafkaguard._doctor.findings import BAD, RISKY, Finding, not_judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._cluster.lag import GroupLag, PartitionLag
    from kafkaguard._doctor.facts import Facts

#: Looks that are needed to see a change, and the changes that a deployment makes.
_LOOKS, _CHANGES = 2, 2


def check_offsets(facts: Facts) -> Iterator[Finding]:
    """What groups have committed is in the log."""
    for group, each in _partitions(facts):
        place = f"group {group.group}, topic {each.topic}, partition {each.partition}"
        if each.reason is LagReason.COMMITTED_BEYOND_END:
            yield Finding(
                "group-beyond-end",
                BAD,
                place,
                f"it has committed {each.committed}, and the end is {each.end}",
                "it waits or skips records: the topic was made anew, or lost records",
                "stop its members, then move its offset to the end",
                _reset(facts, group.group, each, "latest"),
            )
        elif each.lost:
            yield Finding(
                "group-below-start",
                BAD,
                place,
                f"it has committed {each.committed}, and the log starts at "
                f"{each.log_start}",
                f"{each.lost} offsets were deleted before it read them",
                "stop its members, then move its offset to the start; keep records "
                "for longer",
                _reset(facts, group.group, each, "earliest"),
            )


def _reset(facts: Facts, group: str, each: PartitionLag, spec: str) -> str:
    """Return the command that moves an offset to the nearest one that exists."""
    return facts.admin(
        *("groups", "reset-offsets", "-g", group),
        *("-p", f"{each.topic}:{each.partition}", "-s", spec),
    )


def check_progress(facts: Facts) -> Iterator[Finding]:
    """Groups that are behind commit; needs two looks or more."""
    last = facts.looks[-1].lag if facts.looks else None
    for name, group in sorted(last.groups.items() if last else ()):
        place = f"group {name}"
        if name in facts.wanted_groups and group.state == NO_SUCH_GROUP:
            yield Finding(
                "group-absent",
                RISKY,
                place,
                "there is none, or this user may not see it",
                "nothing is known of it",
                "look at the name, start it, or grant Describe",
            )
        if group.error is not None:
            yield not_judged("group-stalled", place, str(group.error))
            continue
        if not group.total:
            continue
        if group.state == "Empty":
            yield _expiring(facts, group)
        elif len(facts.looks) < _LOOKS:
            yield not_judged(
                "group-stalled",
                place,
                f"it is {group.total:,} offsets behind; whether it commits needs "
                "--samples 2 or more",
            )
        elif _committed(facts, 0, name) == _committed(facts, -1, name):
            seconds = facts.interval * (len(facts.looks) - 1)
            yield Finding(
                "group-stalled",
                BAD,
                place,
                f"it is {group.total:,} offsets behind and has committed nothing in "
                f"{seconds:g} s",
                "its records are not handled",
                "look at its members: a handler that hangs, a record that fails, a "
                "partition that cannot be read",
            )


def _committed(facts: Facts, index: int, group: str) -> object:
    found = facts.looks[index].lag.groups.get(group)
    if found is None:
        return None
    return {place: each.committed for place, each in found.partitions.items()}


def _expiring(facts: Facts, group: GroupLag) -> Finding:
    minutes = facts.broker_setting("offsets.retention.minutes")
    kept = (
        "as long as the brokers keep them"
        if minutes is None
        else (
            f"{int(minutes) / 1440:.3g} days after its last member left; when that was "
            "cannot be judged"
        )
    )
    return Finding(
        "group-empty-behind",
        RISKY,
        f"group {group.group}",
        f"it has no members and is {group.total:,} offsets behind",
        f"its offsets expire: {kept}",
        "start it; if nobody needs the group any more, delete it",
    )


def check_members(facts: Facts) -> Iterator[Finding]:
    """Members stay, and no two share an id."""
    if len(facts.looks) < _LOOKS:
        return
    for group in sorted(facts.looks[-1].members):
        looks: list[set[str]] = [
            set(look.members.get(group, {})) for look in facts.looks
        ]
        gone = looks[0].union(*looks) - looks[0].intersection(*looks)
        owners: dict[str, set[str]] = {}
        for look in facts.looks:
            for member, instance in look.members.get(group, {}).items():
                if instance is not None:
                    owners.setdefault(instance, set()).add(member)
        shared = {instance for instance, ids in owners.items() if len(ids) > _LOOKS}
        for instance in sorted(shared):
            yield Finding(
                "group-shared-instance-id",
                BAD,
                f"group {group}",
                f"group.instance.id {instance} had {len(owners[instance])} members",
                "two members with one id throw each other out",
                "give each member its own group.instance.id",
            )
        there = set(facts.looks[-1].members[group].values())
        for instance in sorted(owners.keys() - shared - there):
            yield Finding(
                "group-static-member-gone",
                RISKY,
                f"group {group}",
                f"the member with group.instance.id {instance} was there and is gone",
                "nobody read its partitions until session.timeout.ms was over",
                "start it again with this id, or one member less from now on",
            )
        if not shared and len(gone) > _CHANGES:
            yield Finding(
                "group-members-change",
                RISKY,
                f"group {group}",
                f"{len(gone)} members came or went in "
                f"{facts.interval * (len(facts.looks) - 1):g} s",
                "each change stops the group for a rebalance",
                "look for members that end, or exceed max.poll.interval.ms",
            )


def _partitions(facts: Facts) -> Iterator[tuple[GroupLag, PartitionLag]]:
    if facts.looks:
        for _, group in sorted(facts.looks[-1].lag.groups.items()):
            for each in group.partitions.values():
                yield group, each
