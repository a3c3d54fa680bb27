"""Plays one program in a process of its own: ``python -m tests.differ.player``.

The program and the addresses come as JSON on standard input, and each thing that the
client tells goes to standard output as a line of JSON (see `trace`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from kafkaguard.testing import FaultProxy
from tests.differ import trace
from tests.differ.programs import INPUT, Step, from_json

if TYPE_CHECKING:
    from collections.abc import Iterator


class Player:
    """Calls one client; each client has a subclass for each role.

    Args:
        world: Addresses, topics and group of this program.
        settings: The program's choices.
        guarded: Whether the client is guarded.
    """

    def __init__(
        self, world: dict[str, Any], settings: dict[str, Any], *, guarded: bool
    ):
        self.world = world
        self.settings = settings
        self.guarded = guarded
        self.numbers = iter(range(1_000_000))
        #: The next offset that the application has not handled, by partition.
        self.handled: dict[int, int] = {}

    def guard(self, factory: Any, config: dict[str, Any]) -> Any:
        """Return the client, guarded or bare."""
        from kafkaguard import guard

        if not self.guarded:
            return factory(**config) if self.settings["keywords"] else factory(config)
        options: dict[str, Any] = {}
        if self.settings.get("policy"):
            policy = {"extends": "default", **self.settings["policy"]}
            if policy.get("on_reject") == "dead_letter":
                policy["dead_letter"] = {"topic": self.world["letters"]}
            options["policy"] = policy
        if self.settings["by_factory"] or not self.settings["keywords"]:
            return guard(factory=factory, config=config, **options)
        return guard(factory(**config), **options)

    def told(self, record: str, outcome: Any = None, failure: Any = None) -> None:
        """Write the outcome of a record."""
        trace.write("told", record=record, place=outcome, error=trace.error(failure))

    def handed(self, who: str, records: list[tuple[int, int]]) -> None:
        """Write which records the application got, by partition and offset."""
        if records:
            trace.write("handed", who=who, records=records)
        if who == "main":
            for partition, offset in records:
                self.handled[partition] = max(
                    self.handled.get(partition, 0), offset + 1
                )

    def named(
        self, records: list[dict[str, Any]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give each record of a step its name, its topic and its bytes."""
        for record in records:
            name = f"r{next(self.numbers)}"
            yield (
                name,
                {
                    "form": record["form"],
                    "topic": self.world[record["topic"]],
                    "value": name.encode().ljust(record["size"], b"."),
                    "key": record["key"] and record["key"].encode(),
                    "partition": record["partition"],
                },
            )

    def poll(self, seconds: float) -> Any:
        """Read once."""
        raise NotImplementedError

    def resume_reading(self) -> None:
        """Resume all partitions."""
        raise NotImplementedError

    def commit(self) -> None:
        """Commit a transaction, or offsets."""
        raise NotImplementedError

    def abort(self) -> None:
        """Abort a transaction."""
        raise NotImplementedError

    def drain(self, seconds: float) -> None:
        """Read until the input's records were all handed out, or the time is over."""
        with contextlib.suppress(Exception):
            self.resume_reading()
        end, failures = time.monotonic() + seconds, 0
        while time.monotonic() < end and failures < 20:
            if sum(self.handled.values()) >= INPUT:
                return
            try:
                self.poll(0.3)
            except Exception as failure:
                failures += 1
                trace.write("drain", error=trace.error(failure))
                time.sleep(0.1)

    def end_open(self) -> None:
        """End the open transaction, as the errors say: commit it again, or abort it."""
        for call in (self.commit, self.abort):
            try:
                call()
            except Exception as failure:
                trace.write("ending", error=trace.error(failure))
            else:
                return

    def pause(self, seconds: float) -> None:
        """Let the application do something else."""
        time.sleep(seconds)

    def end(self) -> None:
        """Close what is open, whatever the program did."""


class AssignedReading(Player):
    """Calls about its partitions that kafka-python and aiokafka have in common.

    Attributes:
        client: The consumer.
    """

    client: Any

    def mine(self, partition: int | None = None) -> list[Any]:
        """Return the assigned partitions, or the one that is named."""
        mine = self.client.assignment()
        return [p for p in mine if partition in (None, p.partition)]

    def pause_reading(self, partition: int) -> None:
        """Pause a partition that is assigned."""
        self.client.pause(*self.mine(partition))

    def resume_reading(self) -> None:
        """Resume all."""
        self.client.resume(*self.client.paused())

    def seek_back(self, partition: int) -> None:
        """Read a partition again from its start."""
        for place in self.mine(partition):
            self.client.seek(place, 0)


def make_player(
    client: str,
    role: str,
    world: dict[str, Any],
    settings: dict[str, Any],
    guarded: bool,
) -> Player:
    """Make the player of a client."""
    from tests.differ import aiokafka_player, confluent_player, kafka_python_player

    players = {
        "kafka-python": kafka_python_player,
        "confluent-kafka": confluent_player,
        "aiokafka": aiokafka_player,
    }[client]
    kind = players.Reader if role == "consumer" else players.Writer
    settings = {**settings, "keywords": client != "confluent-kafka", "role": role}
    return kind(world, settings, guarded=guarded)


class Faults:
    """Sets a program's faults at the proxy.

    Args:
        proxy: The proxy.
        world: Addresses and topics.
    """

    def __init__(self, proxy: FaultProxy, world: dict[str, Any]) -> None:
        self._proxy = proxy
        self._world = world

    def set(self, api: str, action: str, **more: Any) -> None:
        """Set a fault."""
        if action == "compact":
            self._compact()
            return
        on = self._proxy.on(api or None)
        if action == "fail":
            on.fail(more.pop("code"), **more)
        else:
            getattr(on, action)(**more)

    def _compact(self) -> None:
        """Let the plain topic refuse records without a key from now on."""
        from confluent_kafka.admin import (
            AdminClient,
            AlterConfigOpType,
            ConfigEntry,
            ConfigResource,
        )

        entry = ConfigEntry(
            "cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(
            "topic", self._world["plain"], incremental_configs=[entry]
        )
        admin = AdminClient({"bootstrap.servers": self._world["cluster"]})
        for answer in admin.incremental_alter_configs([resource]).values():
            answer.result(10)

    def calm(self) -> None:
        """Remove all faults."""
        self._proxy.clear()
        time.sleep(0.2)


def _die(after: float) -> None:
    """Kill this process, at once or within its next call."""
    if not after:
        os.kill(os.getpid(), signal.SIGKILL)
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()


def _play(player: Player, faults: Faults, step: Step) -> None:
    if step.name == "fault":
        faults.set(**step.arguments)
    elif step.name == "calm":
        faults.calm()
    elif step.name == "die":
        _die(**step.arguments)
    else:
        result = getattr(player, step.name)(**step.arguments)
        if result is not None:
            trace.write("result", call=step.name, type=type(result).__name__)


def main() -> None:
    """Play the program."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    threading.excepthook = lambda args: trace.write(
        "thread", error=trace.error(args.exc_value)
    )
    given = json.loads(sys.stdin.read())
    program, world = from_json(given["program"]), given["world"]
    with FaultProxy(world["cluster"]) as proxy:
        world["servers"] = proxy.bootstrap_servers
        faults = Faults(proxy, world)
        player = make_player(
            program.client, program.role, world, program.settings, given["guarded"]
        )
        for number, step in enumerate(program.steps):
            trace.write("step", number=number, step=str(step))
            try:
                _play(player, faults, step)
            except BaseException as failure:
                trace.write("raised", number=number, error=trace.error(failure))
                if isinstance(failure, KeyboardInterrupt):
                    raise
            trace.write("done", number=number)
        if any(step.name == "die" for step in program.steps):
            signal.pause()  # the kill is on its way
        player.end()
        trace.write("end")
        if given.get("journal"):
            print(proxy.journal, file=sys.stderr)
    sys.stdout.flush()
    os._exit(0)  # threads of bare clients may still run


if __name__ == "__main__":
    main()
