"""Worker processes that play cells, and are replaced when one of their clients hangs."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from kafkaguard.testing import KafkaCluster
from tests.atlas.cells import CLIENTS
from tests.atlas.worker import AT_ONCE

ROOT = Path(__file__).parents[2]
#: Cells of a process, which then makes room for a fresh one.
_EACH = 600
#: Processes that may end with a cell before it is given up.
_DEATHS = 3
#: Seconds without a word until a process is ended.
_SILENT_S = 300.0
#: Clients that hang until their process is replaced, since their threads still run.
_HUNG = 3
_CLUSTER = {
    "group.initial.rebalance.delay.ms": 0,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "log.index.size.max.bytes": 4096,
    "log.retention.check.interval.ms": 3_600_000,
}


def cluster():
    """Return the one broker of all cells, with a user."""
    users = {"alice": secrets.token_urlsafe()}
    return KafkaCluster(settings=_CLUSTER, users=users, super_users=["alice"])


def addresses(cluster):
    """Return the broker's addresses, and how each client logs in."""
    given = {"plain": cluster.bootstrap_servers}
    for client in CLIENTS:
        config = cluster.client_config("SASL_PLAIN", client=client, user="alice")
        servers = config.pop(
            "bootstrap.servers"
            if "bootstrap.servers" in config
            else "bootstrap_servers"
        )
        given[client] = config
        given["sasl"] = servers if isinstance(servers, str) else ",".join(servers)
    return given


class Pool:
    """Plays cells in processes.

    Args:
        servers: What `addresses` returns.
        jobs: How many processes.
    """

    def __init__(self, servers, jobs):
        self._servers = json.dumps(servers)
        self._jobs = jobs

    def play(self, cells, tell):
        """Play cells; ``tell`` gets the line of each, and returns False to stop."""
        self._left = list(reversed(cells))
        self._lock = threading.Lock()
        self._stopped = False
        self._deaths = Counter()
        threads = [
            threading.Thread(target=self._run, args=(tell,), daemon=True)
            for _ in range(self._jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _next(self):
        with self._lock:
            return self._left.pop() if self._left and not self._stopped else None

    def _run(self, tell):
        while (first := self._next()) is not None:
            self._serve(first, tell)

    def _serve(self, first, tell):
        """Feed one process with cells until it is used up, or hangs."""
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.atlas.worker"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        process.stdin.write(self._servers + "\n")
        waiting, count, hung, cell = {}, 0, 0, first
        watch = self._watch(process)
        while cell is not None or waiting:
            while cell is not None:
                waiting[cell] = None
                process.stdin.write(json.dumps(cell.as_json()) + "\n")
                count += 1
                is_full = len(waiting) >= AT_ONCE or count >= _EACH
                cell = None if is_full else self._next()
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                break
            watch()
            result = json.loads(line)
            done = next(
                c
                for c in waiting
                if all(result[k] == v for k, v in c.as_json().items())
            )
            del waiting[done]
            hung += bool(result.get("hung"))
            if hung >= _HUNG:
                count = _EACH
            with self._lock:
                self._stopped |= tell(result) is False
            if count < _EACH:
                cell = self._next()
        process.kill()
        process.wait()
        with self._lock:
            self._deaths.update(list(waiting))
            for cell in waiting:
                if self._deaths[cell] < _DEATHS:
                    self._left.append(cell)
                else:
                    lost = {"problem": "its process ended", "lag": 0.0}
                    tell({**cell.as_json(), **lost})

    def _watch(self, process):
        """End a process that says nothing for long; the function says that it did."""
        timer = None

        def again():
            nonlocal timer
            if timer is not None:
                timer.cancel()
            timer = threading.Timer(_SILENT_S, process.kill)
            timer.daemon = True
            timer.start()

        again()
        return again
