"""Decode mutated bytes as each message: they are decoded, or refused with an offset.

``make fuzz`` runs a million inputs. libFuzzer (atheris) watches which branches an input
takes, ends the run at the first exception that is not a ProtocolError, and limits the
time of an input and the memory of the process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-untyped]  # it has no types

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/protocol"))
with atheris.instrument_imports(include=["kafkaguard.protocol"]):
    from protocol_forms import forms

LIMITS = (
    "-rss_limit_mb=1024",
    "-malloc_limit_mb=64",
    "-timeout=5",
    "-max_len=2048",
    "-len_control=0",
)
FORMS = list(forms())


def test_one_input(data: bytes) -> None:
    """Check an input, whose first two bytes select the message and the version."""
    FORMS[int.from_bytes(data[:2], "big") % len(FORMS)].check(data[2:])


def main() -> None:
    """Write a sample of each message, and let libFuzzer mutate the samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as corpus:
        for number, form in enumerate(FORMS):
            seed = number.to_bytes(2, "big") + form.sample()
            Path(corpus, f"{form.name}-{form.version}").write_bytes(seed)
        arguments = [sys.argv[0], f"-runs={options.runs}", *LIMITS, corpus]
        atheris.Setup(arguments, test_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
