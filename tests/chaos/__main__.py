"""What guarded clients tell, against what is in the topics, while everything fails.

``python -m tests.chaos --all --seconds 600 --seed 7 --report FILE`` runs three brokers
(replication factor 3, min.insync.replicas 2) behind a proxy. Actors work on them side by
side: the producer of each client, services of each client that handle records, a copy
that is exactly once, and a Spark stream. Brokers crash, pause and run out of disk, rights
are taken away, topics change, connections break, and services are killed. It exits with
1 where a word was wrong. ``--client`` runs one producer, and ``--process`` its services;
``--once 50`` kills a service 50 times that handles records exactly once.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

from kafkaguard.testing import KafkaCluster
from tests.chaos import copying, page, producers, services
from tests.chaos.clients import CLIENTS, DELIVERY_S
from tests.chaos.faults import Faults
from tests.chaos.ground import Ground, enter_mounts
from tests.contracts.once import check_kills

#: Seconds between two records of a thread: alone, and beside all others.
PACE_S, SHARED_PACE_S = 0.001, 0.01
BEGIN = time.monotonic()


class Uncaught(logging.Handler):
    """Counts what ended a thread, and what the guard logs as a fault of its own."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.found = []
        threading.excepthook = lambda args: self.found.append(repr(args.exc_value))
        logging.getLogger("kafkaguard").addHandler(self)

    def emit(self, record):
        """Take in a line."""
        self.found.append(self.format(record))


def cast(chosen):
    """List the actors: their users, and functions of the ground that make them."""
    seed, client = chosen.seed, chosen.client
    produce = partial(producers.Producing, seed=seed)
    process, shared = services.Processing, {"pace": SHARED_PACE_S}
    if chosen.process:
        each = {"pace": 0.002, "workers": (1, 8), "bare": chosen.bare}
        return [(services.user_of(client), partial(process, client=client, **each))]
    if not chosen.all:
        make = partial(produce, client=client, pace=PACE_S)
        return [(producers.user_of(client), make)]
    actors = []
    for each in CLIENTS:
        make = partial(produce, client=each, **shared)
        actors.append((producers.user_of(each), make))
        make = partial(process, client=each, workers=(8,), **shared)
        actors.append((services.user_of(each), make))
    copier = Random(seed).choice(list(CLIENTS))
    make = partial(copying.Copying, client=copier, **shared)
    actors.append((copying.user_of(copier), make))
    if not chosen.without_spark:
        from tests.chaos import streaming

        actors.append((streaming.USER, streaming.Streaming))
    return actors


def say(words):
    """Print what happens, with the seconds since the start."""
    print(f"{time.monotonic() - BEGIN:6.1f} s: {words}", flush=True)


def play(chosen):
    """Play; print what was found, and return the exit code."""
    uncaught = Uncaught()
    actors = cast(chosen)
    with Ground([user for user, _ in actors]) as ground, ExitStack() as stack:
        if not ground.disks:
            print("no small disks: mounting is not permitted here")
        players = []
        for _, make in actors:
            players.append(make(ground))
            stack.callback(players[-1].close)
        for player in players:
            player.start()
        say(f"{len(players)} actors work")
        faults = Faults(ground, players, chosen.seed, DELIVERY_S + 1)
        begin = time.monotonic()
        faults.run(chosen.seconds)
        say("the faults are over")
        with ThreadPoolExecutor(len(players)) as pool:
            ends = [pool.submit(player.finish, faults) for player in players]
        say("all has been compared")
        outcomes = {
            player.name: end.result() for player, end in zip(players, ends, strict=True)
        }
    whole = {"uncaught": uncaught.found, "faults that failed": faults.failures}
    words = " --all" if chosen.all else f", {chosen.client}"
    title = f"chaos, seed {chosen.seed}{words}"
    print(f"{title}: {dict(faults.done)}")
    for name, outcome in outcomes.items():
        print(name)
        for word, count in {**outcome.facts, **outcome.bad}.items():
            print(f"  {word}: {count}")
    for word, lines in whole.items():
        print(f"{word}: {len(lines)}", *lines[:5], sep="\n    ")
    wrong = [
        f"{name}: {word}: {count}"
        for name, outcome in outcomes.items()
        for word, count in outcome.bad.items()
        if count
    ]
    wrong += [f"{word}: {len(lines)}" for word, lines in whole.items() if lines]
    verdict = "; ".join(wrong) or "nothing was lost, and every word was true"
    if chosen.report:
        page.write(
            chosen.report, title, verdict, begin, chosen.seconds, faults.happened,
            outcomes,
        )  # fmt: skip
    print(f"verdict: {verdict}")
    return int(bool(wrong))


def main():
    """Run what is asked for; exit with 1 if a word was wrong, and 2 if it broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="all actors side by side")
    parser.add_argument("--without-spark", action="store_true")
    parser.add_argument("--report", type=Path, help="the page to write")
    parser.add_argument("--client", choices=CLIENTS, default="kafka-python")
    parser.add_argument("--process", action="store_true", help="services, not sends")
    parser.add_argument("--once", type=int, metavar="KILLS", help="exactly once")
    parser.add_argument("--bare", action="store_true", help="a loop written by hand")
    chosen = parser.parse_args()
    if chosen.once:
        with KafkaCluster() as cluster:
            check_kills(cluster, chosen.client, chosen.once)
        print(f"verdict: {chosen.once} kills, and each input has its output once")
        return
    enter_mounts()
    for name in ("kafka", "aiokafka"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        code = play(chosen)
    except Exception:  # what it leaves behind must not keep the process
        traceback.print_exc()
        code = 2
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
