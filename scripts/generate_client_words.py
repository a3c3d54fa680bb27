"""Write how clients name errors: aiokafka's classes and librdkafka's texts.

So ``kafkaguard explain`` knows them even if these clients are not installed. ``python
scripts/generate_client_words.py`` writes the file; ``--check`` compares it and exits
with 1 if it differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from confluent_kafka import KafkaError
from kafka import errors as kafka_errors

from aiokafka import errors as aiokafka_errors
from kafkaguard._errors.generated import BY_CODE
from kafkaguard._errors.librdkafka import LOCAL_CODES

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "kafkaguard/cli/client_words.json"


def classes() -> dict[str, int]:
    """Return the numbered classes of aiokafka that kafka-python does not have."""
    known = {cls.__name__ for cls in kafka_errors.kafka_errors.values()}
    numbered = aiokafka_errors.kafka_errors.items()
    return {c.__name__: code for code, c in numbered if c.__name__ not in known}


def phrases() -> dict[str, int]:
    """Return librdkafka's text for each code; "Err-..." means that it has no text."""
    words = {KafkaError(code).str(): code for code in [*BY_CODE, *LOCAL_CODES]}
    return {text: code for text, code in words.items() if not text.startswith("Err")}


def text() -> str:
    """Return the content of the file."""
    words = {"classes": classes(), "phrases": phrases()}
    return json.dumps(words, indent=1, sort_keys=True) + "\n"


def main() -> int:
    """Write the file, or with ``--check`` say that it is out of date."""
    stale = not PATH.exists() or PATH.read_text() != text()
    if stale and "--check" in sys.argv:
        print(f"{PATH.relative_to(ROOT)} is out of date: run `make generate`")
        return 1
    if stale:
        PATH.write_text(text())
        print(f"wrote {PATH.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
