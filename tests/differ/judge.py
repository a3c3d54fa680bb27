"""The promises that a played program must have kept. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.differ.programs import INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.differ.programs import Program

#: Seconds beyond its own time that a call may take on a busy machine; and what a call
#: without a time of its own may take.
MARGIN_S, CALL_S = 6.0, 15.0
#: Exceptions that no call of a client is documented to raise.
UNDOCUMENTED = frozenset(
    {
        "AttributeError",
        "SystemError",
        "KeyError",
        "IndexError",
        "UnboundLocalError",
        "RecursionError",
        "NotImplementedError",
        "StopIteration",
    }
)
#: The documented types of results, by client and call.
RESULTS = {
    ("kafka-python", "flush"): {"NoneType", "DeliveryReport"},
    ("kafka-python", "poll"): {"dict"},
    ("kafka-python", "position"): {"int"},
    ("kafka-python", "committed"): {"int", "OffsetAndMetadata"},
    ("kafka-python", "commit_read"): {"NoneType"},
    ("confluent-kafka", "flush"): {"int", "DeliveryReport"},
    ("confluent-kafka", "poll"): {"Message"},
    ("confluent-kafka", "consume"): {"list"},
    ("confluent-kafka", "position"): {"list"},
    ("confluent-kafka", "committed"): {"list"},
    ("confluent-kafka", "commit_read"): {"list"},
    ("aiokafka", "flush"): {"NoneType", "DeliveryReport"},
    ("aiokafka", "poll"): {"dict", "ConsumerRecord"},
    ("aiokafka", "position"): {"int"},
    ("aiokafka", "committed"): {"int"},
    ("aiokafka", "commit_read"): {"NoneType"},
}


@dataclass(frozen=True)
class Finding:
    """A promise that was not kept.

    Attributes:
        kind: Which one, in a few words; the same kind is counted once.
        text: What was seen.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        """Show both."""
        return f"{self.kind}: {self.text}"


@dataclass
class Played:
    """What came of one run of a program.

    Attributes:
        lines: What the player wrote.
        logs: The records in each topic, by its role and partition: name and key.
        committed: The group's committed offset, by partition; absent: none.
        hung: Whether it had to be ended.
        exit_code: How the player's process ended.
        errors: The end of what it wrote to standard error.
    """

    lines: list[dict[str, Any]]
    logs: dict[str, dict[int, list[tuple[int, str]]]] = field(default_factory=dict)
    committed: dict[int, int] = field(default_factory=dict)
    hung: bool = False
    exit_code: int = 0
    errors: str = ""

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the lines of a kind."""
        return [line for line in self.lines if line["kind"] == kind]

    @property
    def was_killed(self) -> bool:
        """Whether the program killed its own process."""
        return not self.of("end") and not self.hung


def _ended_by_itself(program: Program, played: Played) -> bool:
    """Return whether the program was to run to its end, and did.

    One that is killed during its last calls may have ended just before.
    """
    dies = any(step.name == "die" for step in program.steps)
    return not (dies or played.was_killed or played.hung)


def findings(program: Program, played: Played) -> list[Finding]:
    """Return the promises that were not kept."""
    return [*_findings(program, played)]


def _findings(program: Program, played: Played) -> Iterator[Finding]:
    dies = any(step.name == "die" for step in program.steps)
    if played.hung:
        yield Finding("hung", f"the program did not end: {_last(played)}")
    elif played.was_killed and not dies:
        yield Finding(
            "crashed", f"exit code {played.exit_code}: {_last(played)} {played.errors}"
        )
    yield from _bounds(program, played)
    yield from _types(program, played)
    if program.role == "consumer":
        yield from _handed_out(program, played)
    else:
        yield from _told(program, played)
    if program.role == "producer":
        yield from _order(program, played)
    if program.role == "transactions":
        yield from _transactions(program, played)


def _last(played: Played) -> str:
    steps = played.of("step")
    return steps[-1]["step"] if steps else "before its first step"


# --- every program --------------------------------------------------------------------


def _bounds(program: Program, played: Played) -> Iterator[Finding]:
    """No call takes longer than its own time and a margin."""
    began = {line["number"]: line["at"] for line in played.of("step")}
    for line in played.of("done"):
        step = program.steps[line["number"]]
        most = float(step.arguments.get("seconds", CALL_S)) + MARGIN_S
        if step.name == "send":  # each record may wait for metadata
            most = CALL_S * len(step.arguments["records"])
        elif step.name in {"close", "leave"}:
            most = 2 * CALL_S
        took = line["at"] - began[line["number"]]
        if took > most:
            yield Finding("late", f"{step} took {took:.1f} s")


def _types(program: Program, played: Played) -> Iterator[Finding]:
    """Results and exceptions are of the types that the client documents."""
    for line in played.of("result"):
        expected = RESULTS.get((program.client, line["call"]))
        if expected is not None and line["type"] not in expected:
            yield Finding("type", f"{line['call']} returned {line['type']}")
    for line in (*played.of("raised"), *played.of("drain"), *played.of("told")):
        failure = line["error"]
        if failure and failure["classes"][0] in UNDOCUMENTED:
            yield Finding(
                "undocumented",
                f"{failure['classes'][0]} {failure['text']} (cause {failure['cause']})",
            )
    for line in played.of("thread"):
        yield Finding("thread", f"a thread died of {line['error']}")


# --- producers ------------------------------------------------------------------------


def _told(program: Program, played: Played) -> Iterator[Finding]:
    """What was told of each record is what is in the topic."""
    there: Counter[str] = Counter()
    places: dict[tuple[str, int, int], str] = {}
    for role, partitions in played.logs.items():
        if role in ("plain", "compacted"):
            for partition, log in partitions.items():
                for offset, name in log:
                    there[name] += 1
                    places[role, partition, offset] = name
    told: dict[str, dict[str, Any]] = {}
    for line in played.of("told"):
        name = line["record"]
        if name in told:
            yield Finding("told twice", name)
        told[name] = line
    for name, line in told.items():
        yield from _outcome(program, line, there[name], places)
    bound = sum(line["count"] for line in played.of("maybe_twice"))
    doubled = [name for name, count in there.items() if count > 1]
    if program.settings.get("idempotent", True) and len(doubled) > bound:
        for name in doubled:
            count, outcome = there[name], told.get(name, {})
            words = _words(outcome)
            yield Finding("doubled", f"{name} is there {count} times, told {words}")
    sent = sum(
        len(step.arguments["records"])
        for step in program.steps[: len(played.of("done"))]
        if step.name == "send"
    )
    if _ended_by_itself(program, played) and len(told) < sent:
        yield Finding("untold", f"{sent - len(told)} of {sent} records have no outcome")


def _words(line: dict[str, Any]) -> str:
    failure = line.get("error")
    if not line:
        return "nothing"
    if failure is None:
        return "delivered"
    return f"{failure['classes'][0]} {failure['action']} {failure['written']}"


def _outcome(
    program: Program,
    line: dict[str, Any],
    count: int,
    places: dict[tuple[str, int, int], str],
) -> Iterator[Finding]:
    name, failure = line["record"], line["error"]
    is_transaction = program.role == "transactions"
    if failure is None and line["place"]:
        if is_transaction:
            return
        if not count:
            yield Finding("lost", f"{name} was told delivered, and is not there")
        role, partition, offset = line["place"]
        if offset is not None and offset >= 0:
            there = places.get((role, partition, offset))
            if there != name:
                yield Finding(
                    "misplaced", f"{name} was told at {partition}@{offset}: {there}"
                )
    elif failure and failure["written"] == "no" and count:
        yield Finding(
            "ghost",
            f"{name} is there, and was told {_words(line)}: {failure['text']}",
        )


def _order(program: Program, played: Played) -> Iterator[Finding]:
    """Records of one key are first written in the order in which they were sent.

    Later copies are another promise: they are doubled.
    """
    if not program.settings["idempotent"]:
        return
    delivered = {line["record"] for line in played.of("told") if line["error"] is None}
    keys = _keys(program)
    for partitions in played.logs.values():
        for log in partitions.values():
            newest: dict[str, int] = defaultdict(lambda: -1)
            for name in dict.fromkeys(name for _, name in log):
                key = keys.get(name)
                if key is None or name not in delivered:
                    continue
                number = int(name[1:])
                if number < newest[key]:
                    yield Finding("order", f"{name} after r{newest[key]} of its key")
                newest[key] = max(newest[key], number)


def _keys(program: Program) -> dict[str, str | None]:
    records = [
        record
        for step in program.steps
        if step.name == "send"
        for record in step.arguments["records"]
    ]
    return {f"r{number}": record["key"] for number, record in enumerate(records)}


# --- transactions ---------------------------------------------------------------------


def _transactions(program: Program, played: Played) -> Iterator[Finding]:
    """Readers of committed records see all of a transaction or nothing."""
    committed = {name for log in played.logs["plain"].values() for _, name in log}
    last: bool | None = None
    for end, names in _ends(program, played):
        there = names & committed
        if end is True and there != names:
            yield Finding("half", f"committed, and {sorted(names - there)} are missing")
        elif end is False and there:
            yield Finding("half", f"aborted, and {sorted(there)} are there")
        elif there and there != names:
            yield Finding("half", f"{sorted(there)} of {sorted(names)} are there")
        last = end
    if last is not True and _ended_by_itself(program, played):
        raised = [line["error"]["text"] for line in played.of("raised")]
        yield Finding(
            "stuck", f"the last transaction, without faults, failed: {raised[-1:]}"
        )


def _ends(program: Program, played: Played) -> Iterator[tuple[bool | None, set[str]]]:
    """Return how each transaction ended, with the records that it took.

    True: committed; False: certainly aborted; None: unknown, or it never began.
    """
    raised = {line["number"] for line in played.of("raised")}
    failed = {line["record"] for line in played.of("told") if line["error"]}
    names: set[str] = set()
    number, is_open = 0, False
    for at, step in enumerate(program.steps[: len(played.of("done"))]):
        if step.name == "begin":
            names, is_open = set(), at not in raised
        elif step.name == "send":
            mine = {f"r{number + n}" for n in range(len(step.arguments["records"]))}
            number += len(mine)
            if is_open:
                names |= mine
        elif step.name in ("commit", "abort") and is_open:
            is_good = at not in raised
            if step.name == "commit":
                yield (True if is_good else None), names if is_good else names - failed
            elif is_good:
                yield False, names
            is_open = False


# --- consumers ------------------------------------------------------------------------


def _handed_out(program: Program, played: Played) -> Iterator[Finding]:
    """Nothing is committed, or skipped, that no member has handed out."""
    handed: dict[int, set[int]] = defaultdict(set)
    for line in played.of("handed"):
        for partition, offset in line["records"]:
            handed[partition].add(offset)
    for partition, offset in played.committed.items():
        missing = set(range(offset)) - handed[partition]
        if missing:
            yield Finding(
                "lost",
                f"{len(missing)} records of partition {partition} were committed "
                f"({offset}) and handed to nobody: {sorted(missing)[:5]}",
            )
    for partition, offsets in handed.items():
        missing = set(range(max(offsets))) - offsets
        if missing:
            yield Finding(
                "skipped",
                f"{len(missing)} records of partition {partition} were passed over: "
                f"{sorted(missing)[:5]}",
            )
    total = sum(map(len, handed.values()))
    if _ended_by_itself(program, played) and total < INPUT:
        raised = [line["error"]["text"] for line in played.of("drain")]
        yield Finding("stuck", f"{total} of {INPUT} records were read: {raised[-1:]}")
    yield from _each_call(played)


def _each_call(played: Played) -> Iterator[Finding]:
    """One call hands out a partition's records in order, without a hole."""
    for line in played.of("handed"):
        by_partition: dict[int, list[int]] = defaultdict(list)
        for partition, offset in line["records"]:
            by_partition[partition].append(offset)
        for partition, offsets in by_partition.items():
            if offsets != [*range(offsets[0], offsets[0] + len(offsets))]:
                yield Finding("hole", f"partition {partition}: {offsets[:10]}")
