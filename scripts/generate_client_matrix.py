"""Run the producers' contract with guarded and bare clients, and write the page.

``python scripts/generate_client_matrix.py`` makes docs/producer_contract.md: scenarios
by client. It fails if a guarded client breaks the contract. Each run needs a broker and
takes some minutes; ``--keep FOLDER`` keeps the results for the next call.
"""

from __future__ import annotations

import argparse
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "producer_contract.md"
#: For each client: the module and the classes that inherit the contract.
CLIENTS = {
    "kafka-python": (
        "tests.kafka_python.test_kafka_python_contract",
        ("TestKafkaPython", "TestKafkaPythonTransactions"),
    ),
    "confluent-kafka": (
        "tests.confluent.test_confluent_contract",
        ("TestConfluent", "TestConfluentTransactions"),
    ),
    "aiokafka": (
        "tests.aiokafka.test_aiokafka_producer",
        ("TestAiokafka", "TestAiokafkaTransactions"),
    ),
}
#: The classes of the contract, by module.
PARTS = {
    "producer": ("ProducerContract", "CallbacksContract", "ExpiryContract"),
    "attempts": ("AttemptsContract",),
    "rejects": ("RejectsContract",),
    "transactions": ("TransactionsContract",),
    "cases": ("CasesContract", "SequencesContract", "BuffersContract"),
    "instrumentation": ("InstrumentationContract",),
}
#: Seconds within which a scenario of a bare client must end.
BARE_S = 10
HANGS = "hangs"
HEAD = """\
<!-- made by scripts/generate_client_matrix.py; do not edit -->
# What each producer does

The contract that every guarded producer keeps, and what the bare client does in the
same scenario. Each row is a test against a real broker; ✓ means that the test passes.
— means that the client has no such thing.

| in the column of a bare client | it means |
| --- | --- |
| ✓ | the same as guarded |
| `SomeError` | that is raised or told instead |
| hangs | no end within {bare} s |
| raises nothing | a mistake or a loss is not told |
| differs | the records, or what is told about them, differ |
| has no `name` | the client does not have what the scenario asks for |
| not run | that run has ended before |
"""
TAIL = """
## Next step

What a guarded producer does, in words: [Producers](producer.md).
"""


def scenarios() -> Iterator[tuple[str, str, str]]:
    """List part, name and docstring's first line of each scenario, in code order."""
    for part, classes in PARTS.items():
        module = import_module(f"tests.contracts.{part}")
        for name in classes:
            for test, function in vars(getattr(module, name)).items():
                if test.startswith("test_"):
                    said = inspect.getdoc(function) or ""
                    yield part, test, said.partition("\n")[0]


def bare(
    client: Any = None, *, factory: Any = None, config: Any = None, **_: Any
) -> Any:
    """Replace ``guard()``: return the bare client."""
    if factory is None:
        return _lenient(client)
    try:
        return _lenient(factory(**config))
    except TypeError:
        return factory(config)


def _lenient(client: Any) -> Any:
    """Let aiokafka's client accept the time arguments of a guarded one."""
    if hasattr(client, "send_and_wait"):
        stop, flush = client.stop, client.flush
        client.stop, client.flush = lambda *_: stop(), lambda *_: flush()
    return client


class Recorder:
    """Records the result of each scenario at once; a hanging one ends the process.

    Args:
        target: The file of results; scenarios with a result are not run again.
        is_bare: Whether the clients are not guarded.
    """

    def __init__(self, target: Path, *, is_bare: bool) -> None:
        self.found: dict[str, str] = {}
        if target.exists():
            self.found = json.loads(target.read_text())
        self._done = set(self.found)
        self._target = target
        self._is_bare = is_bare

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Replace the guard for bare clients; skip scenarios that were run before."""
        items[:] = [each for each in items if each.originalname not in self._done]
        if self._is_bare:
            for module in {item.module for item in items}:
                module.guard = bare

    def pytest_runtest_setup(self, item: Any) -> None:
        """Record that a scenario has begun, in case it hangs."""
        self._note(item.originalname, self.found.get(item.originalname, HANGS))

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Record the result of a scenario; the first failure counts."""
        name = item.originalname
        if call.excinfo is not None:
            if self.found[name] in (HANGS, "✓"):
                self._note(name, said(call.excinfo.value))
        elif call.when == "call" and self.found[name] == HANGS:
            self._note(name, "✓")

    def _note(self, name: str, end: str) -> None:
        self.found[name] = end
        self._target.write_text(json.dumps(self.found, indent=1))


def said(error: BaseException) -> str:
    """Describe in a word how a test failed."""
    text = str(error)
    name = type(error).__name__
    if name == "AttributeError" and "attribute" in text:
        attribute = text.rpartition("attribute ")[2].strip("'")
        if attribute in ("verdict", "report", "transaction", "events"):
            return f"has no `{attribute}`"
    if "DID NOT RAISE" in text:
        return "raises nothing"
    if "Timeout" in name or "timeout" in text.lower()[:40] or "no outcome" in text:
        return HANGS
    if "did not come true" in text:
        return HANGS
    if isinstance(error, AssertionError) or name == "Failed":
        return "differs"
    return f"`{name}`"


def run(client: str, *, is_bare: bool, target: Path) -> None:
    """Run the contract of a client in this process."""
    import pytest

    module, classes = CLIENTS[client]
    path = ROOT / (module.replace(".", "/") + ".py")
    recorder = Recorder(target, is_bare=is_bare)
    options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=no"]
    if is_bare:
        bound = ["--timeout", str(BARE_S), "--timeout-method", "thread"]
        options += [*bound, "-o", "timeout_func_only=true", "-W", "ignore"]
    pytest.main([*options, *(f"{path}::{name}" for name in classes)], [recorder])


def results(folder: Path) -> dict[tuple[str, bool], dict[str, str]]:
    """Run the missing scenarios, in processes of their own; return all results."""
    found = {}
    for client in CLIENTS:
        for is_bare in (False, True):
            target = folder / f"{client}-{'bare' if is_bare else 'guarded'}.json"
            run_all(client, target, is_bare=is_bare)
            found[client, is_bare] = json.loads(target.read_text())
    return found


def run_all(client: str, target: Path, *, is_bare: bool) -> None:
    """Run a client's contract; after a hanging scenario, run again without it."""
    options = ["--bare"] if is_bare else []
    command = [sys.executable, __file__, "--run", client, str(target), *options]
    before = -1
    while before < (now := len(_kept(target))):
        before = now
        subprocess.run(command, check=False, cwd=ROOT)


def _kept(target: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(target.read_text()) if target.exists() else {}
    return found


def words(test: str) -> str:
    """Convert the name of a test to words."""
    return test.removeprefix("test_").replace("_", " ")


def page(found: dict[tuple[str, bool], dict[str, str]]) -> str:
    """Write the page.

    Raises:
        SystemExit: A guarded client breaks the contract.
    """
    broken = [
        f"{client}: {test}: {end}"
        for (client, is_bare), ends in found.items()
        for test, end in ends.items()
        if not is_bare and end != "✓"
    ]
    if broken:
        sys.exit("\n".join(["the contract is broken:", *broken]))
    lines = [HEAD.format(bare=BARE_S)]
    last = ""
    for part, test, sentence in scenarios():
        if part != last:
            columns = " | ".join(f"{client} | bare" for client in CLIENTS)
            lines += [f"\n## {part.capitalize()}\n", f"| scenario | {columns} |"]
            lines.append("| --- |" + " --- |" * (2 * len(CLIENTS)))
            last = part
        cells = []
        for client in CLIENTS:
            guarded = found[client, False].get(test, "—")
            missing = "—" if guarded == "—" else "not run"
            cells += [guarded, found[client, True].get(test, missing)]
        row = " | ".join(cells)
        lines.append(f"| **{words(test)}**: {sentence.replace('|', '/')} | {row} |")
    return "\n".join([*lines, TAIL])


def main() -> None:
    """Run the contract, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--run", nargs=2, metavar=("CLIENT", "FILE"))
    parser.add_argument("--bare", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if given.run:
        client, target = given.run
        run(client, is_bare=given.bare, target=Path(target))
        return
    with TemporaryDirectory() as folder:
        PAGE.write_text(page(results(given.keep or Path(folder))))


if __name__ == "__main__":
    main()
