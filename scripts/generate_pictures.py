"""Draw the pictures of the documentation, from the code and from real output.

``python scripts/generate_pictures.py`` draws them all; ``--check`` compares and exits
with 1 if one is out of date. Pictures that need a broker or Spark are drawn from
recordings. ``--record`` runs the demo and a group that falls behind, and records both.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from kafkaguard import __version__, load_policy
from kafkaguard.cli.lag_table import table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from schedule_picture import schedule_picture  # noqa: E402 - it is in docs/
from svg import element, picture, text  # noqa: E402 - likewise

IMAGES = ROOT / "docs/images"
RECORDED = IMAGES / "recorded"
SCHEDULES = ("default", "low-latency", "bulk-load", "consumer")
_GOOD, _ASIDE, _LOST, _LINE = "#2c7fb8", "#fdae61", "#d7191c", "#4a6fa5"


def pictures() -> dict[str, str]:
    """Draw all pictures; return the documents by file name."""
    return {
        "demo.svg": demo_chart(
            json.loads((RECORDED / "demo.json").read_text()), made()
        ),
        "explain.svg": terminal("kafkaguard explain 87", explained()),
        "lag-watch.svg": terminal(
            "kafkaguard lag --watch", (RECORDED / "lag.txt").read_text()
        ),
        "layers.svg": layers(),
        **{f"schedule-{name}.svg": schedule(name) for name in SCHEDULES},
    }


def made() -> dict[str, str]:
    """Return the version and the day of the recordings."""
    written: dict[str, str] = json.loads((RECORDED / "made.json").read_text())
    return written


def schedule(preset: str) -> str:
    """Draw the waits of a preset."""
    drawn = load_policy(preset).preview()
    title = f"{drawn.policy} ({drawn.policy_id}), if the verdict is {drawn.action}"
    return schedule_picture(title, drawn.rows, drawn.deadline, drawn.ending)


def explained() -> str:
    """Return the output of the command, with its styles."""
    kept = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    done = subprocess.run(
        [sys.executable, "-m", "kafkaguard", "explain", "87"],
        env={**kept, "FORCE_COLOR": "1", "COLUMNS": "110", "TERM": "xterm-256color"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def terminal(command: str, output: str, width: int = 110) -> str:
    """Draw a terminal with a command and its output."""
    screen = Console(record=True, width=width, file=io.StringIO())
    screen.print(Text(f"$ {command}", "bold green"))
    screen.print(Text.from_ansi(output.rstrip()))
    # A picture must not download a font.
    form = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    drawn = screen.export_svg(
        title="", theme=MONOKAI, code_format=form, unique_id="terminal"
    )
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def demo_chart(demo: dict[str, Any], made: dict[str, str]) -> str:
    """Draw the outcomes of the flights: a bar for each way to write them."""
    left, wide, high, top = 150, 560, 34, 62
    before, after = demo["unguarded"], demo["guarded"]
    once = demo["flights"] - demo["keyless"] - before["lost"]
    right = demo["aircraft"] - before["wrong_last"]
    ways = (
        (
            "Spark's own sink",
            (once, 0, before["lost"] + demo["keyless"]),
            (
                f"job failed after {before['seconds']:.0f} s: {before['error']}; "
                f"{before['repeated']:,} duplicates; {right:,} of "
                f"{demo['aircraft']:,} last flights right"
            ),
        ),
        (
            "kafkaguard",
            (after["delivered"], after["dead_lettered"], after["lost"]),
            (
                f"job done after {after['seconds']:.0f} s; "
                f"{after['repeated']:,} duplicates; {after['latest']:,} of "
                f"{demo['aircraft']:,} last flights right"
            ),
        ),
    )
    parts = [
        text(
            left,
            22,
            f"{demo['flights']:,} flights into a compacted topic, "
            f"{demo['keyless']:,} of them without a key",
            font_weight="bold",
            font_size=14,
        )
    ]
    for row, (name, counts, words) in enumerate(ways):
        y = top + row * 78
        parts.append(text(left - 10, y + 22, name, text_anchor="end", font_size=13))
        x: float = left
        for count, colour in zip(counts, (_GOOD, _ASIDE, _LOST), strict=True):
            width = wide * count / demo["flights"]
            parts.append(
                element("rect", x=x, y=y, width=width, height=high, fill=colour)
            )
            x += width
        parts.append(text(left, y + high + 17, words, fill="#333"))
    legend = (
        (_GOOD, "delivered"),
        (_ASIDE, "dead-lettered"),
        (_LOST, "missing"),
    )
    x = left
    for colour, words in legend:
        square = {"x": x, "y": top + 158, "width": 12, "height": 12}
        parts.append(element("rect", **square, fill=colour))
        parts.append(text(x + 18, top + 168, words))
        x += 34 + 7 * len(words)
    by = f"kafkaguard {made['version']}, {made['date']}"
    parts.append(
        text(left + wide, top + 168, by, text_anchor="end", font_size=11, fill="#555")
    )
    return picture(left + wide + 30, top + 184, *parts)


def layers() -> str:
    """Draw the layers from the settings of import-linter."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    rows = next(each for each in contracts if each["type"] == "layers")["layers"]
    words = {
        "kafkaguard.cli": "the command line",
        "kafkaguard.testing": "brokers and faults for tests",
        "kafkaguard.spark": "writes from Spark",
        "kafkaguard_adapters": "kafka-python, confluent-kafka, aiokafka, Spark",
        "kafkaguard_policies": "retry policies: files, presets, running calls",
        "kafkaguard.telemetry": "metrics and spans",
        "kafkaguard.protocol": "messages on the wire",
        "kafkaguard._errors": "one class for each code",
    }
    rows = [re.findall(r"[\w.]+", row) for row in rows]
    rows.insert(-1, ["core"])
    words["core"] = "verdicts, retries, delivery, cluster reports: no I/O"
    high, gap, wide, margin = 44, 20, 640, 20
    parts = []
    for number, names in enumerate(rows):
        y = margin + number * (high + gap)
        box = (wide - gap * (len(names) - 1)) / len(names)
        for place, name in enumerate(names):
            x = margin + place * (box + gap)
            frame = {"x": x, "y": y, "width": box, "height": high, "rx": 6}
            parts.append(element("rect", **frame, fill="#eef3fb", stroke=_LINE))
            middle = x + box / 2
            parts.append(
                text(middle, y + 18, name, text_anchor="middle", font_weight="bold")
            )
            parts.append(
                text(middle, y + 34, words[name], text_anchor="middle", font_size=11)
            )
        if number:
            at = margin + wide / 2
            parts.append(
                element(
                    "path",
                    d=f"M {at} {y - gap} v {gap - 4} m -4 -5 l 4 5 l 4 -5",
                    fill="none",
                    stroke="#888",
                )
            )
    height = margin * 2 + len(rows) * (high + gap) - gap
    return picture(wide + 2 * margin, height, *parts)


def record() -> None:
    """Run the demo, and groups that fall behind; save the results."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "kafkaguard", "demo", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=1200,
        check=True,
    )
    (RECORDED / "demo.json").write_text(done.stdout)
    record_lag()
    today = datetime.now(UTC).date().isoformat()
    written = json.dumps({"version": __version__, "date": today})
    (RECORDED / "made.json").write_text(f"{written}\n")


def record_lag() -> None:
    """Record three groups: one follows a topic, one pauses, and one stops for good."""
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

    from kafkaguard import guard
    from kafkaguard.testing import KafkaCluster

    ended, slow = threading.Event(), threading.Event()

    def produce(producer: KafkaProducer) -> None:
        while not ended.wait(0.02):
            producer.send("orders", b"x")

    def consume(group: str, stopped: threading.Event) -> None:
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
        )
        while not ended.is_set():
            if not stopped.is_set():
                consumer.poll(timeout_ms=200)
            else:
                consumer.pause(*consumer.assignment())
                consumer.poll(timeout_ms=200)
                consumer.resume(*consumer.assignment())
        consumer.close()

    with KafkaCluster() as cluster:
        cluster.create_topic("orders")
        servers = cluster.bootstrap_servers
        with KafkaConsumer(bootstrap_servers=servers, group_id="reports") as gone:
            gone.subscribe(["orders"])
            while not gone.assignment():
                gone.poll(timeout_ms=200)
            gone.commit()
        with KafkaProducer(bootstrap_servers=servers) as producer:
            threads = [
                threading.Thread(target=produce, args=(producer,)),
                threading.Thread(target=consume, args=("search", slow)),
            ]
            for thread in threads:
                thread.start()
            with guard(KafkaAdminClient(bootstrap_servers=servers)) as admin:
                history = _watch(admin, slow)
            ended.set()
            for thread in threads:
                thread.join(30)
    screen = Console(
        file=io.StringIO(), force_terminal=True, width=110, color_system="standard"
    )
    at_worst = _WORST_LOOK
    screen.print(
        table(history[at_worst], history[at_worst - 5], partitions=False, watched=True)
    )
    (RECORDED / "lag.txt").write_text(screen.file.getvalue())


_LOOKS, _WORST_LOOK = 40, 24


def _watch(admin: Any, slow: threading.Event) -> list[Any]:
    history = []
    for look in range(_LOOKS):
        if look == _LOOKS // 5:
            slow.set()
        if look == _WORST_LOOK + 1:
            slow.clear()
        history.append(admin.lag())
        time.sleep(1)
    return history


def main() -> int:
    """Draw the pictures, or compare them."""
    if "--record" in sys.argv:
        record()
    stale = 0
    for name, drawn in pictures().items():
        path = IMAGES / name
        if path.exists() and path.read_text() == drawn:
            continue
        stale = 1
        if "--check" in sys.argv:
            print(f"{path.relative_to(ROOT)} is out of date: run `make generate`")
        else:
            path.write_text(drawn)
            print(f"wrote {path.relative_to(ROOT)}")
    return stale if "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
