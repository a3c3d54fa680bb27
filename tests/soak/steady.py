"""A steady load side by side: memory, descriptors, threads and sockets stay flat.

Each part is a process: the guarded producer of each client, a service of each client
that handles what they write, lag under a policy whose file changes, and Spark with two
streams. Samples are kept in a file, so that a second call goes on after the first one;
each call is a segment with a level of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path

from kafkaguard.testing import KafkaCluster
from tests.chaos.faults import Faults
from tests.chaos.ground import Ground
from tests.soak.kills import descendants, kill
from tests.soak.trends import sparkline, trend

CLIENTS = ("kafka-python", "confluent", "aiokafka")
PARTS = (
    *(f"produce-{client}" for client in CLIENTS),
    *(f"process-{client}" for client in CLIENTS),
    "lag",
    "spark",
)
#: What is sampled, and how much of it may be added in the time that is judged.
BOUNDS = {"memory, MB": 4.0, "descriptors": 3.0, "threads": 3.0, "sockets": 3.0}
TOPIC = {"retention.bytes": 20 << 20, "segment.bytes": 5 << 20}
#: Seconds until each part works, between two samples at least, and their number.
UP_S, LEAST_S, SAMPLES = 900.0, 0.5, 400
KEPT = ("keep-guarded", "keep-bare")


class Part:
    """A process whose resources are sampled.

    Args:
        name: Its name in ``PARTS``.
        connect: Returns the settings with which a client connects.
        topic: The topic of its client.
        folder: Where it tells how much it has done.
        leaking: Whether it keeps a bit of everything.
    """

    def __init__(self, name, connect, topic, folder, *, leaking=False):
        kind, _, client = name.partition("-")
        settings = {"lag": "kafka-python", "keep": "kafka-python", "spark": "spark"}
        self.name = name
        self._progress = folder / name
        self._is_service = kind == "process"
        connection = json.dumps(connect(settings.get(kind, client)))
        module, arguments = "tests.soak.steady_program", [kind, client, connection]
        arguments += [topic, str(folder), *(["--leak"] if leaking else [])]
        if self._is_service:
            module = "tests.chaos.service"
            arguments = [client, connection, topic, "4", str(self._progress)]
        self._errors = (folder / f"{name}.err").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *arguments],
            stdout=self._errors,
            stderr=self._errors,
        )

    @property
    def done(self):
        """How much it has done."""
        with suppress(OSError, ValueError):
            if self._is_service:
                return self._progress.stat().st_size
            return int(self._progress.read_text())
        return 0

    @property
    def has_ended(self):
        """Whether it has ended, which it must not."""
        return self._process.poll() is not None

    def sample(self):
        """Add up what it and its Python processes use now."""
        totals = dict.fromkeys(BOUNDS, 0)
        for pid in descendants(self._process.pid):
            with suppress(OSError):
                one = look(pid)
                for measure in BOUNDS:
                    totals[measure] += one.get(measure, 0)
        return list(totals.values())

    def close(self):
        """Kill it; return what it wrote to its output."""
        kill(descendants(self._process.pid))
        self._process.wait()
        self._errors.seek(0)
        with self._errors as errors:
            return errors.read()


def look(pid):
    """Return what a process uses; of Java, whose heap is not ours, nothing."""
    folder = Path(f"/proc/{pid}")
    if (folder / "comm").read_text().strip() == "java":
        return {}
    status = dict(
        line.split(":", 1) for line in (folder / "status").read_text().splitlines()
    )
    if "VmRSS" not in status:  # it has ended
        return {}
    files = []
    for each in (folder / "fd").iterdir():
        with suppress(OSError):
            files.append(str(each.readlink()))
    return {
        "memory, MB": int(status["VmRSS"].split()[0]) / 1024,
        "threads": int(status["Threads"]),
        "descriptors": len(files),
        "sockets": sum(name.startswith("socket:") for name in files),
    }


def run(minutes, state=None, parts=PARTS, leaking=None):
    """Run the load, and print a table; return what is wrong, in sentences.

    Args:
        minutes: How long, in all calls together.
        state: The file of samples; None: none is kept.
        parts: Which parts.
        leaking: The part that leaks, for a test.
    """
    file = None if state is None else Path(state)
    segments = json.loads(file.read_text()) if file and file.exists() else []
    segments = [each for each in segments if each and set(each) == set(parts)]
    left = 60 * minutes - sum(lasted(each) for each in segments)
    wrong = []
    if left > 0:
        segments.append({name: [] for name in parts})
        with KafkaCluster() as cluster, tempfile.TemporaryDirectory() as folder:
            topics = {c: cluster.create_topic(None, 3, config=TOPIC) for c in CLIENTS}
            for topic in topics.values():
                cluster.create_topic(f"{topic}.dlq", config=TOPIC)
            connect = partial(_connect, cluster)

            def start(name):
                client = name.partition("-")[2]
                topic = topics[client if client in topics else CLIENTS[0]]
                return Part(
                    name, connect, topic, Path(folder), leaking=name == leaking
                )  # fmt: skip

            wrong = _sample([start(each) for each in parts], left, segments, file)
    return wrong or judge(segments)


def _connect(cluster, client):
    return cluster.client_config(client=client)


def lasted(segment):
    """Return the seconds of a segment."""
    return max((samples[-1][0] for samples in segment.values() if samples), default=0)


def _sample(players, seconds, segments, file):
    """Sample until the time is over or a part has ended; return what is wrong."""
    ended = []
    with ExitStack() as stack:
        outputs = {}
        for player in players:
            stack.callback(lambda p=player: outputs.update({p.name: p.close()}))
        begin = time.monotonic()
        while idle := [player.name for player in players if not player.done]:
            if time.monotonic() > begin + UP_S or any(p.has_ended for p in players):
                seconds = 0  # nothing is judged while a part still begins
                break
            time.sleep(0.2)
        pause = max(LEAST_S, seconds / SAMPLES)
        begin = time.monotonic()
        while not ended and (now := time.monotonic() - begin) < seconds:
            for player in players:
                segments[-1][player.name].append([round(now, 2), *player.sample()])
            if file is not None:
                fresh = file.with_suffix(".fresh")
                fresh.write_text(json.dumps(segments))
                fresh.rename(file)
            ended = [player.name for player in players if player.has_ended]
            time.sleep(pause)
        ended = [player.name for player in players if player.has_ended]
        counts = {player.name: player.done for player in players}
    print(f"done: {counts}")
    for name in ended:
        print(outputs[name][-2000:])
    return [
        *(f"{name} has ended" for name in ended),
        *(f"{name} did not begin to work" for name in idle),
    ]


def judge(segments):
    """Print a table of all measures; return those that are not flat, in sentences."""
    series = defaultdict(list)
    for segment in segments:
        for name, samples in segment.items():
            for column, measure in enumerate(BOUNDS, 1):
                series[name, measure].append([(s[0], s[column]) for s in samples])
    titles = "part,measure,first,last,an hour,95 % interval,growth"
    widths = "{:22}{:13}{:>8}{:>8}{:>10}{:>22}{:>8}  "
    print(widths.format(*titles.split(",")) + "verdict")
    wrong = []
    for (name, measure), lines in series.items():
        values = [value for line in lines for _, value in line]
        try:
            found = trend(lines)
        except ValueError as error:
            return [f"{name}: {error}"]
        is_flat = found.is_flat(BOUNDS[measure])
        interval = f"{found.low:.1f} to {found.high:.1f}"
        row = (name, measure, f"{values[0]:.0f}", f"{values[-1]:.0f}")
        row += (f"{found.slope:.1f}", interval, f"{found.growth:.1f}")
        verdict = "flat" if is_flat else "GROWS"
        print(widths.format(*row) + f"{verdict:6}{sparkline(values)}")
        if not is_flat:
            wrong.append(
                f"{name}: {measure} grows by {found.slope:.1f} an hour ({interval})"
            )
    return wrong


def keep(minutes, seed):
    """Let kafka-python send while brokers fail, and keep all futures: compare memory.

    Guarded and bare, side by side; what a thousand records cost is printed.
    """
    with (
        Ground(["keep"]) as ground,
        tempfile.TemporaryDirectory() as folder,
    ):
        topic = ground.cluster.create_topic(None, 3, config=TOPIC)
        connect = partial(ground.settings, "keep")
        players = [Part(name, connect, topic, Path(folder)) for name in KEPT]
        with ExitStack() as stack:
            for player in players:
                stack.enter_context(closing(player))
            faults = Faults(ground, [], seed, 5.0)
            thread = threading.Thread(target=faults.run, args=[60 * minutes])
            before = {}
            while len(before) < len(players):
                for player in players:
                    if player.done:
                        before.setdefault(player.name, player.sample()[0])
                time.sleep(0.1)
            thread.start()
            most = dict.fromkeys(before, 0.0)
            while thread.is_alive():
                for player in players:
                    most[player.name] = max(most[player.name], player.sample()[0])
                time.sleep(0.5)
            print(dict(faults.done))
            for player in players:
                memory = player.sample()[0]
                cost = (memory - before[player.name]) / max(1, player.done) * 1e6
                print(
                    f"{player.name}: {player.done:,} records kept, "
                    f"{before[player.name]:.0f} MB before, {memory:.0f} MB at the end, "
                    f"{most[player.name]:.0f} MB at most, {cost:.0f} bytes a record"
                )
            return [f"{p.name} has ended" for p in players if p.has_ended]
