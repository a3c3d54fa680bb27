"""Plays programs against a real broker, and labels what is worse than bare."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.differ.judge import Finding, Played, findings
from tests.differ.programs import INPUT, PARTITIONS, Program, program

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
#: Seconds until a player's process is ended.
MOST_S = 150.0
#: How often the bare client plays a program that differs, at most: what depends on a
#: race shows in one run of several.
BARE_RUNS = 9

#: Settings of the broker.
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "log.message.timestamp.after.max.ms": 9223372036854775807,
}
#: Nothing is compacted, though records have times of years ago: they all stay in the
#: active segment.
_WITH_LIMIT = {"max.message.bytes": "20000", "segment.ms": str(2**63 - 1)}
TOPICS: dict[str, dict[str, str]] = {
    "plain": _WITH_LIMIT,
    "compacted": {**_WITH_LIMIT, "cleanup.policy": "compact"},
    "letters": {},
}


@dataclass
class Verdict:
    """What one program showed.

    Attributes:
        program: The program.
        found: The promises that the guarded client did not keep.
        bare: The kinds that the bare client broke as well.
    """

    program: Program
    found: list[Finding] = field(default_factory=list)
    bare: set[str] = field(default_factory=set)

    @property
    def worse(self) -> list[Finding]:
        """What the bare client does not do."""
        return [each for each in self.found if each.kind not in self.bare]


class Stage:
    """Topics, groups and processes for programs.

    Args:
        servers: The cluster's address.
    """

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})

    def judge(self, client: str, seed: int) -> Verdict:
        """Play a program guarded; if a promise was not kept, play it bare as well."""
        played = program(client, seed)
        verdict = Verdict(played, findings(played, self.play(played, guarded=True)))
        if verdict.found:
            for _ in range(BARE_RUNS):
                bare = findings(played, self.play(played, guarded=False))
                verdict.bare |= {each.kind for each in bare}
                if not verdict.worse:
                    break
        return verdict

    def play(
        self,
        played: Program,
        *,
        guarded: bool,
        tell: Callable[[str], object] | None = None,
    ) -> Played:
        """Play a program in a process of its own."""
        world = self._world(played)
        given = {
            "program": played.as_json(),
            "world": world,
            "guarded": guarded,
            "journal": tell is not None,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.differ.player"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        hung = False
        try:
            out, errors = process.communicate(json.dumps(given), MOST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
            hung = True
        if tell is not None:
            tell(out)
            tell(errors)
        lines = [json.loads(line) for line in out.splitlines() if line[:1] == "{"]
        return self._after(
            played,
            world,
            Played(lines, {}, {}, hung, process.returncode, errors[-600:]),
        )

    def _world(self, played: Program) -> dict[str, Any]:
        mark = uuid.uuid4().hex[:8]
        world = {"cluster": self.servers, "group": f"g-{mark}"}
        configs = {"input": {}} if played.role == "consumer" else TOPICS
        new = []
        for role, config in configs.items():
            world[role] = f"{role}-{mark}"
            new.append(NewTopic(world[role], PARTITIONS, 1, config=config))
        for answer in self._admin.create_topics(new).values():
            answer.result(20)
        if played.role == "consumer":
            self._fill(world["input"])
        return world

    def _fill(self, topic: str) -> None:
        writer = Producer({"bootstrap.servers": self.servers, "linger.ms": 50})
        for number in range(INPUT):
            writer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
        assert not writer.flush(20)

    def _after(self, played: Program, world: dict[str, Any], outcome: Played) -> Played:
        if played.role == "consumer":
            outcome.committed = self._committed(world)
            return outcome
        level = "committed" if played.role == "transactions" else "uncommitted"
        roles = {world[role]: role for role in TOPICS}
        for topic, role in roles.items():
            outcome.logs[role] = self._read(topic, f"read_{level}")
        for line in outcome.lines:
            if line["kind"] == "told" and line["place"]:
                line["place"][0] = roles.get(line["place"][0], line["place"][0])
        return outcome

    def _committed(self, world: dict[str, Any]) -> dict[int, int]:
        places = [TopicPartition(world["input"], n) for n in range(PARTITIONS)]
        reader = Consumer(
            {"bootstrap.servers": self.servers, "group.id": world["group"]}
        )
        try:
            offsets = reader.committed(places, timeout=20)
        finally:
            reader.close()
        return {each.partition: each.offset for each in offsets if each.offset >= 0}

    def _read(self, topic: str, level: str) -> dict[int, list[tuple[int, str]]]:
        reader = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": level,
            }
        )
        logs: dict[int, list[tuple[int, str]]] = {n: [] for n in range(PARTITIONS)}
        reader.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
        left = PARTITIONS
        while left:
            message = reader.poll(30)
            assert message is not None, f"{topic} cannot be read"
            if message.error():
                left -= 1
                continue
            value = message.value() or b""
            logs[message.partition()].append(
                (message.offset(), value.decode().rstrip("."))
            )
        reader.close()
        return logs
