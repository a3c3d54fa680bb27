"""The report of a run: one page with a timeline of faults and of each actor."""

from __future__ import annotations

import platform
from collections import Counter
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version

WIDTH, LEFT, LANE, FAULT = 1160, 190, 64, 16
#: Bars of an actor's lane: so many at most.
BARS = 240
COLOURS = {
    "told": "#2e7d32", "failed": "#f9a825", "there": "#1565c0", "wrong": "#d50000",
    "cluster": "#8e24aa", "network": "#00838f", "actors": "#6d4c41",
}  # fmt: skip
LEGEND = {
    "told": "told as done",
    "failed": "told as not done",
    "there": "is there",
    "wrong": "wrong",
}
STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:1200px}"
    "td,th{padding:2px 10px 2px 0;text-align:left;vertical-align:top}"
    ".bad{color:#d50000;font-weight:bold}svg text{font:11px sans-serif}"
)


def write(path, title, verdict, begin, seconds, happened, outcomes):
    """Write the page.

    Args:
        path: Its file.
        title: What was run.
        verdict: The line that the program ends with.
        begin: When the faults began (``time.monotonic()``).
        seconds: How long they lasted.
        happened: What happened.
        outcomes: How each actor ended, by name.
    """
    wheels = ("kafkaguard", "kafka-python", "confluent-kafka", "aiokafka", "pyspark")
    versions = ", ".join(f"{name} {version(name)}" for name in wheels)
    rows = "".join(_row(name, outcome) for name, outcome in outcomes.items())
    faults = Counter((each.lane, each.kind) for each in happened)
    counts = ", ".join(f"{kind} {n}" for (_, kind), n in sorted(faults.items()))
    path.write_text(
        f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title>"
        f"<style>{STYLE}</style><h1>{escape(title)}</h1><p><b>{escape(verdict)}</b>"
        f"<p>{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python "
        f"{platform.python_version()}, {versions}.<p>Faults: {counts}.\n"
        f"{timeline(begin, seconds, happened, outcomes)}\n"
        f"<table><tr><th>Actor<th>Must be 0<th>What happened{rows}</table>\n"
    )


def timeline(begin, seconds, happened, outcomes):
    """Draw the lanes of faults above those of actors, as SVG."""
    last = max((max(each, default=0) for o in outcomes.values() for each in o.series),
               default=0)  # fmt: skip
    seconds = max(seconds, last - begin, 1.0)
    scale = (WIDTH - LEFT) / seconds
    parts, y = [], 20

    def x(moment):
        return LEFT + max(0.0, min(seconds, moment - begin)) * scale

    for (lane, kind), _ in sorted(Counter((e.lane, e.kind) for e in happened).items()):
        parts.append(_text(0, y + FAULT - 4, f"{lane}: {kind}"))
        for each in happened:
            if (each.lane, each.kind) == (lane, kind):
                width = max(1.5, x(each.stop) - x(each.start))
                words = f"{each.subject}: {each.start - begin:.1f} s to "
                words += f"{each.stop - begin:.1f} s"
                parts.append(
                    _box(x(each.start), y + 2, width, FAULT - 4, COLOURS[lane], words)
                )
        y += FAULT
    y += 10
    for name, outcome in outcomes.items():
        parts.append(_text(0, y + LANE / 2, name))
        parts += _bars(outcome.series, begin, seconds, y)
        y += LANE + 8
    for second in range(0, int(seconds) + 1, max(10, int(seconds / 10) // 10 * 10)):
        at = LEFT + second * scale
        parts.insert(0, f'<path d="M{at:.1f} 14V{y}" stroke="#ddd"/>')
        parts.append(_text(at, 10, f"{second} s"))
    for number, (kind, words) in enumerate(LEGEND.items()):
        at = LEFT + number * 160
        parts.append(_box(at, y + 6, 10, 10, COLOURS[kind], words))
        parts.append(_text(at + 16, y + 15, words))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 24}">'
        f"{''.join(parts)}</svg>"
    )


def _bars(series, begin, seconds, y):
    """Draw what was told upwards, and what is there downwards."""
    slot = seconds / BARS
    told, failed, there, wrong = (
        Counter(int((each - begin) / slot) for each in times) for times in series
    )
    most = max([1, *(told + failed).values(), *there.values()])
    middle, unit = y + LANE / 2, LANE / 2 / most
    width = (WIDTH - LEFT) / BARS
    parts = [f'<path d="M{LEFT} {middle}H{WIDTH}" stroke="#999"/>']
    for each in sorted({*told, *failed, *there, *wrong}):
        at = LEFT + min(max(each, 0), BARS - 1) * width
        done, not_done = told[each] * unit, failed[each] * unit
        words = f"{each * slot:.1f} s: {told[each]} told, {failed[each]} failed, "
        words += f"{there[each]} there, {wrong[each]} wrong"
        parts += [
            _box(at, middle - done, width, done, COLOURS["told"], words),
            _box(at, middle - done - not_done, width, not_done, COLOURS["failed"],
                 words),
            _box(at, middle, width, there[each] * unit, COLOURS["there"], words),
        ]  # fmt: skip
        if wrong[each]:
            parts.append(_box(at, y, width, LANE, COLOURS["wrong"], words))
    return parts


def _box(x, y, width, height, colour, words):
    if not height:
        return ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="{colour}"><title>{escape(words)}</title></rect>'
    )


def _text(x, y, words):
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def _row(name, outcome):
    bad = "<br>".join(
        f"<span class=bad>{escape(word)}: {n}</span>" if n else f"{escape(word)}: 0"
        for word, n in outcome.bad.items()
    )
    facts = "<br>".join(f"{escape(str(w))}: {n}" for w, n in outcome.facts.items())
    return f"<tr><td>{escape(name)}<td>{bad}<td>{facts}"
