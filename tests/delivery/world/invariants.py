"""The invariants at the end of each schedule: outcomes are compared with the log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaguard.errors import SupersededError
from tests.delivery.world.clients import DELIVERY_S, GRACE_S, LINGER_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.delivery.world.world import World

MARGIN_S = 12.0
#: Hand-overs of a record while nothing fails but records that a topic refuses: halves
#: of a batch, then alone, with growing gaps if partitions have no leader.
MOST_HAND_OVERS = 24


def broken(world: World) -> Iterator[str]:
    """Describe the invariants that do not hold."""
    yield from _told(world)
    yield from _written(world)
    yield from _order(world)
    yield from _times(world)
    yield from _report(world)
    yield from _left_over(world)
    yield from _rescued(world)
    yield from _not_given_up(world)
    yield from _not_doubted(world)
    yield from _overtaken(world)
    yield from _requests(world)


def _told(world: World) -> Iterator[str]:
    """Each record has an outcome (a second outcome is detected while playing)."""
    for number in world.taken_at:
        if number not in world.told:
            yield f"#{number} was never told"


def _written(world: World) -> Iterator[str]:
    """The outcome of each record agrees with the log."""
    own: Counter[int] = Counter()
    letters: Counter[int] = Counter()
    for place, log in world.broker.logs.items():
        (letters if place.topic.endswith(".dlq") else own).update(log)
    resends = world.policy.in_doubt == "resend"
    for number, told in world.told.items():
        copies = own[number]
        if told.ending == "delivered" and not copies:
            yield f"#{number} was told delivered, and is lost"
        if copies > 1 and not resends:
            yield f"#{number} was written {copies} times"
        if told.ending in ("failed", "dead_lettered", "dropped") and copies:
            yield f"#{number} was told {told.ending}, and is there"
        if told.ending == "dead_lettered" and not letters[number]:
            yield f"#{number} was told dead-lettered, and its letter is lost"
        if letters[number] > 1 and not resends:
            yield f"the letter of #{number} was written {letters[number]} times"


def _order(world: World) -> Iterator[str]:
    """No older record of a key comes after a newer one."""
    if world.policy.rescue == "any_order":
        return
    for place, log in world.broker.logs.items():
        newest: dict[bytes, int] = {}
        if place.topic.endswith(".dlq"):
            continue
        for number in log:
            key = world.keys[number]
            if key is None:
                continue
            if number < newest.get(key, -1) and not _may_come_late(world, number):
                yield f"#{number} stands after #{newest[key]} of the same key"
            newest[key] = max(number, newest.get(key, -1))


def _may_come_late(world: World, number: int) -> bool:
    """Return whether a record may be written late, because nothing locks it out."""
    told = world.told.get(number)
    was_doubted = told is None or told.ending == "in_doubt"
    is_resent = world.policy.in_doubt == "resend"
    return (was_doubted or is_resent) and not world.kind.takes_over


def _times(world: World) -> Iterator[str]:
    for number, told in world.told.items():
        taken = world.taken_at[number]
        most = DELIVERY_S + GRACE_S + MARGIN_S
        if world.policy.attempts > 1 and world.policy.deadline > DELIVERY_S:
            # The last attempt begins before the deadline, and has the client's time.
            most += world.policy.deadline
        if told.ending == "dead_lettered" or world.policy.on_reject == "dead_letter":
            most += DELIVERY_S
        if told.at - taken > most:
            yield f"#{number} was told after {told.at - taken:.1f} s"


def _report(world: World) -> Iterator[str]:
    """The report counts each record once, in the right column."""
    report = world.machine.report(world.machine.pending())
    counted = {
        name: getattr(report, name)
        for name in ("delivered", "failed", "in_doubt", "dead_lettered", "dropped")
    }
    told = Counter(each.ending for each in world.told.values())
    for name, count in counted.items():
        if count != told[name]:
            yield f"{name}: {count} in the report, and {told[name]} were told"
    for ending, count in told.items():
        world.outcomes[ending] += count
    world.outcomes["superseded"] += report.superseded


def _left_over(world: World) -> Iterator[str]:
    machine = world.machine
    attempts = machine._attempts
    if attempts._paid - attempts._draws.keys():
        yield f"paid for nothing: {attempts._paid}"
    if pending := machine.pending():
        yield f"{pending} are pending in the end"
    if machine.holds and machine.lost is None:
        yield f"sends are held in the end: {machine.holds}"
    if machine._queue.topics:
        yield f"rounds in the end: {machine._queue.topics}"
    if machine._outcomes.open:
        yield f"records in the end: {list(machine._outcomes.open)}"
    in_flight = machine._in_flight
    if in_flight.open or in_flight.resent or any(in_flight._by_place.values()):
        yield f"batches in the end: {list(in_flight.open)} {in_flight.resent}"


def _rescued(world: World) -> Iterator[str]:
    """If only other records are refused, each good record is delivered.

    The exception is a record that a newer one of its key has overtaken.
    """
    if world.policy.rescue == "never" or not world.is_calm:
        return
    for number in world.good:
        told = world.told.get(number)
        if told is not None and told.ending != "delivered":
            yield f"#{number} is good, and was told {told.ending}"


def _not_given_up(world: World) -> Iterator[str]:
    """A good record fails early only for a reason: progress, whatever the faults are.

    The reasons: a broker refused a batch of it, a newer record of its key has overtaken
    it, the producer was closed, or no successor of a dead client could be built.
    """
    if world.policy.rescue == "never" or world.is_closed or world.was_lost:
        return
    for number in world.good - world.refused:
        told = world.told.get(number)
        if told is None or told.ending != "failed":
            continue
        is_early = told.at < world.taken_at[number] + DELIVERY_S - LINGER_S
        if is_early and not isinstance(told.error, SupersededError):
            yield f"#{number} is good, and was given up early: {told.error}"


def _not_doubted(world: World) -> Iterator[str]:
    """A record is in doubt only if a request with it could end either way.

    Or its time was over while a client had it that cannot give it back.
    """
    for number, told in world.told.items() if not world.is_closed else ():
        is_over = told.at >= world.taken_at[number] + DELIVERY_S
        if is_over and not world.kind.fails_batches:
            continue
        if told.ending == "in_doubt" and number not in world.doubtful:
            yield f"#{number} is in doubt for no reason: {told.error}"


def _overtaken(world: World) -> Iterator[str]:
    """A record is superseded only if a newer one of its key was or may be written."""
    for number, told in world.told.items():
        if told.letters or not isinstance(told.error, SupersededError):
            continue
        newer = (
            each
            for each, at in world.taken_at.items()
            if each > number
            and at <= told.at
            and world.keys[each] == world.keys[number]
            and world.topics[each] == world.topics[number]
        )
        if not any(_may_be_written(world, each, told.at) for each in newer):
            yield f"#{number} was superseded, and nothing newer of its key is there"


def _may_be_written(world: World, number: int, at: float) -> bool:
    """Return whether a record was written at that time, or might still be."""
    told = world.told[number]
    was_overtaken = isinstance(told.error, SupersededError)
    return told.at >= at or told.ending in ("delivered", "in_doubt") or was_overtaken


def _requests(world: World) -> Iterator[str]:
    """Without faults on the wire, no record is sent again and again."""
    if world.faultiness:
        return
    for number, count in world.handed.items():
        if count > MOST_HAND_OVERS:
            yield f"#{number} was handed over {count} times"
