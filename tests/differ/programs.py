"""Seeded programs: calls of a client, with pairs of faults between them."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Role = Literal["producer", "transactions", "consumer"]
CLIENTS = ("kafka-python", "confluent-kafka", "aiokafka")
ROLES: tuple[Role, ...] = ("producer", "consumer", "transactions")
KEYS = (None, "a", "b", "c")
#: Records in the topic that a consumer reads, and its partitions.
INPUT, PARTITIONS = 90, 3

_Fault = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A call, a fault or a pause.

    Attributes:
        name: A method of the player.
        arguments: Its arguments.
    """

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Show it as a call."""
        return (
            f"{self.name}({', '.join(f'{k}={v}' for k, v in self.arguments.items())})"
        )


@dataclass(frozen=True)
class Program:
    """What one seed plays.

    Attributes:
        seed: The seed.
        client: The client's name.
        role: The kind of client.
        settings: Choices for the client, by a neutral name.
        steps: What happens, in order.
    """

    seed: int
    client: str
    role: Role
    settings: dict[str, Any]
    steps: list[Step]

    def as_json(self) -> dict[str, Any]:
        """Return it as data for the process that plays it."""
        return asdict(self)


def from_json(data: dict[str, Any]) -> Program:
    """Return a program from its data."""
    steps = [Step(**step) for step in data["steps"]]
    return Program(**{**data, "steps": steps})


def program(client: str, seed: int) -> Program:
    """Make the program of a seed."""
    rng = random.Random(f"{client} {seed}")
    role = rng.choices(ROLES, (4, 4, 2))[0]
    make = {"producer": _producer, "consumer": _consumer, "transactions": _transactions}
    settings, steps = make[role](rng, client)
    settings["by_factory"] = rng.random() < 0.6
    return Program(seed, client, role, settings, steps)


# --- faults ---------------------------------------------------------------------------


def _fault(api: str, action: str, **more: Any) -> _Fault:
    return {"api": api, "action": action, **more}


def _answer(rng: random.Random, api: str, codes: tuple[int, ...]) -> _Fault:
    """Choose one way in which a request of this API fails."""
    return rng.choice(
        [
            _fault(api, "fail", code=rng.choice(codes), times=rng.choice((1, 1, 2, 5))),
            _fault(api, "close", written=rng.random() < 0.5, times=rng.choice((1, 2))),
            _fault(api, "reset", written=rng.random() < 0.5, times=1),
            _fault(api, "drop", times=1),
            _fault(api, "delay", seconds=rng.choice((0.3, 1.2, 2.5)), times=1),
        ]
    )


_PRODUCE = (7, 20, 19, 6, 3, 87, 10, 2, 29, 45, 59, 47, 37, -1, 55, 56)
_FETCH = (6, 3, 1, 9, -1, 2, 56, 78)
_GROUP = (15, 14, 16, 22, 25, 27)


def _write_pair(rng: random.Random) -> list[_Fault]:
    """Return two faults of a producer that meet."""
    lost = rng.choice(
        [
            _fault("Produce", "fail", code=rng.choice((7, 20)), written=True, times=1),
            _fault("Produce", "close", written=True, times=1),
            _fault("Produce", "drop", times=1),
            _answer(rng, "Produce", _PRODUCE),
        ]
    )
    second = rng.choice(
        [
            _fault("Produce", "fail", code=rng.choice(_PRODUCE), times=1),
            _answer(rng, "Produce", _PRODUCE),
            _fault("Metadata", "fail", code=rng.choice((5, 3, -1)), times=3),
            _fault("InitProducerId", "fail", code=rng.choice((35, 53, 15)), times=3),
            _fault("", "down", seconds=rng.choice((0.3, 1.5)), times=1),
            _fault("Produce", "compact"),
        ]
    )
    return [lost, second]


def _read_pair(rng: random.Random) -> list[_Fault]:
    """Return two faults of a consumer that meet."""
    kinds = [
        lambda: _answer(rng, "Fetch", _FETCH),
        lambda: _answer(rng, "OffsetCommit", (*_GROUP, 28, -1, 7, 30)),
        lambda: _answer(rng, "Heartbeat", (27, 25, 22, 16)),
        lambda: _answer(rng, "JoinGroup", (15, 16, 25, 14)),
        lambda: _answer(rng, "SyncGroup", (27, 16, 25)),
        lambda: _answer(rng, "FindCoordinator", (15, -1)),
        lambda: _answer(rng, "OffsetFetch", (14, 16, 88)),
        lambda: _answer(rng, "ListOffsets", (6, 3, -1)),
        lambda: _answer(rng, "Metadata", (5, -1)),
        lambda: _fault("", "down", seconds=rng.choice((0.3, 1.5)), times=1),
    ]
    return [rng.choice(kinds)() for _ in range(2)]


def _transaction_pair(rng: random.Random) -> list[_Fault]:
    kinds = [
        lambda: _answer(rng, "EndTxn", (15, 51, 14, 16)),
        lambda: _answer(rng, "AddPartitionsToTxn", (51, 15, 16, 29)),
        lambda: _answer(rng, "InitProducerId", (51, 15, 14)),
        lambda: _answer(rng, "FindCoordinator", (15,)),
        lambda: _answer(rng, "Produce", (7, 19, 6, 10, 87)),
        lambda: _fault("", "down", seconds=rng.choice((0.3, 1.0, 1.5)), times=1),
        lambda: _fault("EndTxn", "down", seconds=1.0, times=1),
    ]
    return [rng.choice(kinds)() for _ in range(2)]


def _with_faults(
    rng: random.Random, steps: list[Step], pairs: list[list[_Fault]]
) -> list[Step]:
    """Put each pair between two calls, its second fault soon after the first."""
    for pair in pairs:
        at = rng.randrange(1, len(steps) + 1)
        together = rng.random() < 0.6
        for fault in pair:
            steps.insert(at, Step("fault", fault))
            at = min(len(steps), at + (1 if together else rng.choice((1, 2, 3))))
    return steps


# --- producers ------------------------------------------------------------------------


def _producer(rng: random.Random, client: str) -> tuple[dict[str, Any], list[Step]]:
    settings = {
        "idempotent": rng.random() < 0.8,
        "linger": rng.choice((0, 20, 100)),
        "policy": rng.choice(
            (
                None,
                None,
                {"on_reject": "drop"},
                {"on_reject": "dead_letter"},
                {"rescue": "never"},
                {"max_attempts": 4},
            )
        ),
    }
    steps = [_send(rng, few=True), Step("flush", {"seconds": 10})]
    for _ in range(rng.randint(5, 14)):
        steps.append(
            rng.choice(
                [
                    _send(rng),
                    _send(rng),
                    _send(rng),
                    Step("pause", {"seconds": rng.choice((0.0, 0.05, 0.4))}),
                    Step("flush", {"seconds": rng.choice((0.05, 1, 8))}),
                    Step("outcome", {"back": rng.randint(1, 4), "seconds": 3}),
                ]
            )
        )
        if client == "confluent-kafka" and rng.random() < 0.03:
            steps.append(Step("purge"))
    steps = _with_faults(
        rng, steps, [_write_pair(rng) for _ in range(rng.choice((1, 2)))]
    )
    return settings, [*steps, _end(rng)]


def _send(rng: random.Random, *, few: bool = False) -> Step:
    records = [
        {
            "topic": "plain" if few or rng.random() < 0.7 else "compacted",
            "key": rng.choice(KEYS),
            "form": rng.choice(("positional", "keywords", "headers", "timestamp")),
            "size": 30_000 if not few and rng.random() < 0.02 else 20,
            "partition": rng.choice((None, None, 0)),
        }
        for _ in range(rng.choice((1, 2, 3, 6)))
    ]
    return Step("send", {"records": records})


def _end(rng: random.Random) -> Step:
    if rng.random() < 0.15:
        return Step("die", {"after": rng.choice((0.0, 0.05, 0.3))})
    return Step("close")


# --- transactions ---------------------------------------------------------------------


def _transactions(rng: random.Random, _: str) -> tuple[dict[str, Any], list[Step]]:
    steps: list[Step] = []
    for _number in range(rng.randint(2, 5)):
        steps += [Step("begin"), _send(rng, few=True)]
        if rng.random() < 0.3:
            steps.append(Step("flush", {"seconds": 3}))
        if rng.random() < 0.3:
            steps.append(_send(rng, few=True))
        steps.append(Step("commit" if rng.random() < 0.75 else "abort"))
    pairs = [_transaction_pair(rng) for _ in range(rng.choice((1, 2)))]
    steps = _with_faults(rng, steps, pairs)
    # What lasts is over then: what is open can be ended, and a transaction succeeds.
    final = [Step("end_open"), Step("begin"), _send(rng, few=True), Step("commit")]
    return {"linger": rng.choice((0, 20))}, [*steps, Step("calm"), *final, _end(rng)]


# --- consumers ------------------------------------------------------------------------


def _consumer(rng: random.Random, client: str) -> tuple[dict[str, Any], list[Step]]:
    automatic = rng.random() < 0.5
    settings = {
        "automatic": automatic,
        "strategy": rng.choice(("eager", "cooperative")),
        "interval": rng.choice((50, 300, 5000)),
    }
    by_hand = rng.random() < 0.15
    steps = [Step("assign" if by_hand else "subscribe"), Step("poll", {"seconds": 2.0})]
    has_second = False
    for _ in range(rng.randint(6, 16)):
        steps.append(_read_step(rng, client, automatic=automatic))
        if not by_hand and rng.random() < 0.12:
            steps.append(Step("leave" if has_second else "join"))
            has_second = not has_second
    pairs = [_read_pair(rng) for _ in range(rng.choice((1, 1, 2)))]
    steps = _with_faults(rng, steps, pairs)
    end = _end(rng)
    if end.name == "die":
        return settings, [*steps, end, _reading(rng, client)]
    if has_second:
        steps.append(Step("leave"))
    return settings, [*steps, Step("calm"), Step("drain", {"seconds": 15}), end]


def _reading(rng: random.Random, client: str) -> Step:
    seconds = rng.choice((0.0, 0.1, 0.5, 1.0))
    most = rng.choice((1, 5, 500))
    if client == "confluent-kafka" and rng.random() < 0.5:
        return Step("consume", {"most": most, "seconds": seconds})
    return Step("poll", {"seconds": seconds, "most": most})


def _read_step(rng: random.Random, client: str, *, automatic: bool) -> Step:
    reading = [_reading(rng, client) for _ in range(6)]
    others = [
        Step("pause_reading", {"partition": rng.randrange(PARTITIONS)}),
        Step("resume_reading"),
        Step("seek_back", {"partition": rng.randrange(PARTITIONS)}),
        Step("position", {"partition": rng.randrange(PARTITIONS)}),
        Step("committed", {"partition": rng.randrange(PARTITIONS)}),
        Step("pause", {"seconds": rng.choice((0.05, 0.4))}),
    ]
    forms = ["all", "offsets", "later"]
    if client == "confluent-kafka":
        forms += ["message"]
    if not automatic:
        others += [Step("commit_read", {"form": rng.choice(forms)}) for _ in range(4)]
    elif rng.random() < 0.3:
        others.append(Step("commit_read", {"form": rng.choice(forms)}))
    return rng.choice([*reading, *others])
