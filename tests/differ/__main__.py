"""Plays seeded programs guarded, and beside them bare where a promise was not kept.

``python -m tests.differ --client aiokafka --programs 300 --seed 0 --state FILE`` goes on
where an earlier run with that file stopped. ``--replay SEED`` shows one program: its
steps, what was told, and the conversation with the broker. The exit code is 1 if a
guarded client was worse than the bare one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from kafkaguard.testing import KafkaCluster
from tests.differ.judge import findings
from tests.differ.programs import CLIENTS, program
from tests.differ.runner import SETTINGS, Stage, Verdict


def _replay(stage: Stage, client: str, seed: int, *, bare: bool) -> int:
    played = program(client, seed)
    print(played.role, played.settings)
    for number, step in enumerate(played.steps):
        print(f"  {number:2} {step}")
    found = findings(played, stage.play(played, guarded=not bare, tell=print))
    print(*found or ["every promise was kept"], sep="\n")
    return bool(found)


def _entry(verdict: Verdict) -> dict[str, Any]:
    return {
        "client": verdict.program.client,
        "seed": verdict.program.seed,
        "worse": [str(each) for each in verdict.worse],
        "as_bare": [str(each) for each in verdict.found if each.kind in verdict.bare],
    }


def _read_state(file: Path | None) -> list[dict[str, Any]]:
    if file is None or not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def _run(stage: Stage, chosen: argparse.Namespace) -> int:
    clients = [chosen.client] if chosen.client else list(CLIENTS)
    entries = _read_state(chosen.state)
    known = {(entry["client"], entry["seed"]) for entry in entries}
    seeds = range(chosen.seed, chosen.seed + chosen.programs)
    todo = [
        (client, seed)
        for seed in seeds
        for client in clients
        if (client, seed) not in known
    ]
    began = time.monotonic()
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for future in as_completed(pool.submit(stage.judge, *each) for each in todo):
            entry = _entry(future.result())
            entries.append(entry)
            if chosen.state is not None:
                with chosen.state.open("a") as file:
                    file.write(json.dumps(entry) + "\n")
            for text in entry["worse"]:
                print(f"WORSE {entry['client']} {entry['seed']}: {text}", flush=True)
            for text in entry["as_bare"]:
                print(f"as bare {entry['client']} {entry['seed']}: {text}", flush=True)
    for client in clients:
        mine = [entry for entry in entries if entry["client"] == client]
        worse = Counter(text.split(":")[0] for entry in mine for text in entry["worse"])
        bare = Counter(
            text.split(":")[0] for entry in mine for text in entry["as_bare"]
        )
        print(
            f"{client}: {len(mine)} programs, worse than bare {dict(worse)}, as bare {dict(bare)}"
        )
    total = sum(bool(entry["worse"]) for entry in entries)
    took = time.monotonic() - began
    print(
        f"VERDICT differ: {len(entries)} programs, {total} worse than bare, {took:.0f} s"
    )
    return bool(total)


def main() -> int:
    """Play programs, or one again."""
    parser = argparse.ArgumentParser(prog="python -m tests.differ", description=__doc__)
    parser.add_argument("--client", choices=CLIENTS)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--state", type=Path, metavar="FILE")
    parser.add_argument("--replay", type=int, metavar="SEED")
    parser.add_argument("--bare", action="store_true", help="replay the bare client")
    chosen = parser.parse_args()
    if chosen.replay is not None and chosen.client is None:
        parser.error("--replay needs --client")
    with KafkaCluster(settings=SETTINGS) as cluster:
        stage = Stage(cluster.bootstrap_servers)
        if chosen.replay is not None:
            return _replay(stage, chosen.client, chosen.replay, bare=chosen.bare)
        return _run(stage, chosen)


if __name__ == "__main__":
    sys.exit(main())
