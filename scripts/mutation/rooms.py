"""The packages ("rooms"), and the tests that must notice changes in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The smallest share of changes that the tests of a pure room, and of an adapter, must
#: notice.
LEAST, LEAST_OF_ADAPTERS = 0.92, 0.75

_GENERATED = {
    "kafkaguard/_verdicts/apis.py",
    "kafkaguard/_errors/generated.py",
    "kafkaguard/_errors/java_texts.py",  # compared with the jar, which needs Java
    "kafkaguard/_errors/meanings.py",  # texts for people
}


@dataclass(frozen=True)
class Room:
    """Modules and their tests.

    Attributes:
        name: The name in the report.
        folder: The folder of the modules.
        tests: The folders of its tests.
        is_pure: The modules make no I/O, and their tests need no broker.
    """

    name: str
    folder: str
    tests: tuple[str, ...]
    is_pure: bool = True

    @property
    def least(self) -> float:
        """The smallest share of changes that must be noticed."""
        return LEAST if self.is_pure else LEAST_OF_ADAPTERS

    def modules(self) -> list[str]:
        """Return the paths of the modules, relative to the checkout."""
        found = sorted((ROOT / self.folder).rglob("*.py"))
        paths = (path.relative_to(ROOT).as_posix() for path in found)
        return [path for path in paths if path not in _GENERATED]


_POLICIES = "policies/kafkaguard_policies"
ROOMS = (
    Room(
        "verdicts",
        "kafkaguard/_verdicts",
        ("tests/verdicts", "tests/asking/test_topic_facts.py"),
    ),
    Room(
        "errors",
        "kafkaguard/errors",
        ("tests/errors", "tests/verdicts", "tests/adapters/test_dual_errors.py"),
    ),
    Room("retries", "kafkaguard/_retries", ("tests/retries", "tests/policies")),
    Room("delivery", "kafkaguard/_delivery", ("tests/delivery",)),
    Room("consuming", "kafkaguard/_consuming", ("tests/consuming",)),
    Room("processing", "kafkaguard/_processing", ("tests/processing",)),
    Room("cluster", "kafkaguard/_cluster", ("tests/cluster",)),
    Room("protocol", "kafkaguard/protocol", ("tests/protocol",)),
    Room("policies: model", f"{_POLICIES}/model", ("tests/policies",)),
    Room("policies: reading", f"{_POLICIES}/reading", ("tests/policies",)),
    Room("policies: running", f"{_POLICIES}/running", ("tests/policies",)),
    Room("policies: advice", f"{_POLICIES}/advice", ("tests/policies",)),
)
_ADAPTERS = "adapters/kafkaguard_adapters"
_SHARED = ("tests/adapters",)
_CLIENTS = ("tests/kafka_python", "tests/confluent", "tests/aiokafka", *_SHARED)


def _adapter(name: str, *tests: str) -> Room:
    return Room(f"adapters: {name}", f"{_ADAPTERS}/{name}", tests, is_pure=False)


ADAPTERS = (
    _adapter("kafka_python", "tests/kafka_python", *_SHARED),
    _adapter("confluent", "tests/confluent", *_SHARED),
    _adapter("aiokafka", "tests/aiokafka", *_SHARED),
    _adapter("producing", *_CLIENTS),
    _adapter("consuming", "tests/consuming", *_CLIENTS),
    _adapter("processing", *_CLIENTS),
    _adapter("wire", "tests/wire", "tests/asking"),
    _adapter("asking", "tests/asking", *_SHARED),
    _adapter("spark", "tests/spark"),
)
