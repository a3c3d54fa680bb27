"""The atlas as data in the package: written here, read by ``kafkaguard explain``."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import kafkaguard.cli
from kafkaguard.testing.cluster.jars import DEFAULT_VERSION
from tests.atlas.caller import LASTS_S, POLICY
from tests.atlas.cells import CLIENTS, NOT_MADE, all_cells
from tests.atlas.worker import MODULES

PATH = Path(kafkaguard.cli.__file__).with_name("atlas.json.gz")
#: The columns of a cell; what is not there is None.
COLUMNS = (
    *("requests", "seconds", "error", "raised", "retriable", "written", "lives"),
    *("ended", "action", "told"),
)
#: Seconds by which the process may be late during a cell that counts.
LAG_S = 0.4
#: The place of a cell among the four of its client, request and code.
PLACES = [(False, False), (False, True), (True, False), (True, True)]


def is_sound(line):
    """Say whether a cell was played without delays of a busy machine."""
    return line["lag"] <= LAG_S and "problem" not in line


def key(line):
    """Return what names a cell."""
    return tuple(line[name] for name in ("client", "guarded", "api", "code", "ever"))


def pack(lines):
    """Return the data of finished cells."""
    answers = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: [None] * 4)))
    wanted = {key(cell.as_json()) for cell in all_cells()}
    for line in lines:
        if key(line) in wanted:
            cells = answers[line["api"]][line["code"]][line["client"]]
            place = PLACES.index((line["guarded"], line["ever"]))
            cells[place] = [line.get(name) for name in COLUMNS]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "kafka": DEFAULT_VERSION,
        "clients": {name: version(name) for name in CLIENTS},
        "lasts": LASTS_S,
        "policy": POLICY,
        "settings": {name: MODULES[name].SETTINGS for name in CLIENTS},
        "not_made": {name: sorted(apis) for name, apis in NOT_MADE.items()},
        "of": len(wanted),
        "columns": COLUMNS,
        "answers": answers,
    }


def write(lines):
    """Write the data into the package; equal data are equal bytes."""
    text = json.dumps(pack(lines), separators=(",", ":"), sort_keys=True)
    PATH.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def read():
    """Return the data of the package as lines."""
    data = json.loads(gzip.decompress(PATH.read_bytes()))
    return [
        {
            **dict(zip(COLUMNS, values, strict=True)),
            "client": client,
            "api": api,
            "code": int(code),
            "guarded": guarded,
            "ever": ever,
        }
        for api, codes in data["answers"].items()
        for code, clients in codes.items()
        for client, cells in clients.items()
        for (guarded, ever), values in zip(PLACES, cells, strict=True)
        if values is not None
    ]
