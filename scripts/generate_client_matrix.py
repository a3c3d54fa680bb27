"""Run the producers' contract with guarded and bare clients, and write the page.

``python scripts/generate_client_matrix.py`` makes docs/producer_contract.md: scenarios
by client. It fails if a guarded client breaks the contract. Each run needs a broker and
takes some minutes; ``--keep FOLDER`` keeps the results for the next call. The results
stand in docs/producer_contract.json, and ``--draw`` only draws the page of them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
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
RESULTS = PAGE.with_suffix(".json")
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
#: The scenarios that cost a user most, in the order of the page's table.
MATTER = (
    "a_null_key_is_refused_before_anything_is_sent",
    "a_missing_key_is_told_within_two_seconds",
    "a_refused_record_costs_the_others_of_its_batch_nothing",
    "a_producer_is_never_left_dead",
    "a_key_that_a_serializer_drops_is_a_null_key",
    "what_was_not_written_is_sent_again_in_order",
    "sends_of_the_topic_wait_meanwhile",
    "a_short_dip_of_replicas_is_outlived",
    "a_broken_sequence_does_not_end_the_producer",
    "a_gap_in_the_sequence_under_load_crashes_nothing",
    "a_record_without_an_answer_is_in_doubt_in_time",
    "flush_and_the_next_send_work_once_a_silent_broker_is_back",
    "what_is_pending_is_neither_failed_nor_sent_again",
    "closing_raises_for_unseen_failures",
    "flush_raises_for_failures_that_nobody_saw",
    "close_gives_up_in_time_and_says_what_is_in_doubt",
    "close_ends_in_time_where_no_broker_answers",
    "what_a_callback_raises_is_told_at_the_flush",
    "a_factory_builds_a_client_of_the_childs_own",
    "a_topic_that_does_not_exist_is_told_as_one",
    "brokers_that_are_away_are_told_apart",
    "a_wrong_password_is_told_as_one",
    "a_denied_topic_works_once_it_is_granted",
    "a_partition_that_was_just_added_is_used",
    "a_full_buffer_is_waited_for",
    "a_buffer_that_stays_full_is_told_of_each_record",
    "a_refused_record_aborts_its_transaction",
    "a_transaction_that_is_open_at_close_is_aborted_and_told",
    "b24_a_transaction_that_was_open_for_too_long_is_told",
    "no_commit_without_offsets_that_could_not_be_sent",
)
#: What a user of a bare client sees where the scenario itself asks for more than that
#: client has; measured by tests/docs/test_start.py and test_first_screen.py.
MEASURED = {
    ("a_refused_record_costs_the_others_of_its_batch_nothing", client): words
    for client, words in (
        ("kafka-python", "all of the batch are lost"),
        ("confluent-kafka", "all of the batch are lost"),
        ("aiokafka", "all of the batch are lost, told as `UnknownError`"),
    )
} | {
    ("a_producer_is_never_left_dead", "kafka-python"): "each later record fails, too",
}
#: Errors of a bare client that say something about the client, not about the scenario,
#: which may call what only a guarded client has.
NO_FINDING = ("AttributeError", "TypeError", "KeyError")
HEAD = """\
<!-- made by scripts/generate_client_matrix.py; do not edit -->
# What each producer does

The contract that every guarded producer keeps. Each scenario is a test against a real
broker, which each guarded client passes; where a client has no such thing, it says —.

## The {count} that matter most

The columns say what a user of the bare client sees in the same scenario. A cell is
empty where the scenario asks for more than that client has: nothing can be said then.

| in a column | it means |
| --- | --- |
| as guarded | the bare client does the same |
| no end | no outcome within {bare} s |
| not told | a mistake or a loss raises nothing |
| `SomeError` | that is raised or told |
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
    return re.sub(r"^(test_)?(b\d+_)?", "", test).replace("_", " ")


def seen(cell: str) -> str:
    """Return what a user of a bare client sees, or nothing where that is not known."""
    plain = {"✓": "as guarded", HANGS: "no end", "raises nothing": "not told"}
    if cell.startswith("`") and cell.strip("`") not in NO_FINDING:
        return cell
    return "—" if cell == "—" else plain.get(cell, "")


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
    by_name = {test: (part, sentence) for part, test, sentence in scenarios()}
    lines = [HEAD.format(bare=BARE_S, count=len(MATTER))]
    lines += [f"| scenario | {' | '.join(f'bare {client}' for client in CLIENTS)} |"]
    lines += ["| --- |" + " --- |" * len(CLIENTS)]
    for name in MATTER:
        _, sentence = by_name.pop(f"test_{name}")
        cells = " | ".join(_cell(found, name, client) for client in CLIENTS)
        lines.append(f"| {_told(name, sentence)} | {cells} |")
    lines += ["\n## All others"]
    last = ""
    for test, (part, sentence) in by_name.items():
        if part != last:
            lines += [
                *([":::"] if last else []),
                f"\n:::{{dropdown}} {part.capitalize()}",
            ]
            last = part
        without = [c for c in CLIENTS if test not in found[c, False]]
        note = f" (not {', '.join(without)})" if without else ""
        lines.append(f"- {_told(test, sentence)}{note}")
    return "\n".join([*lines, ":::", TAIL])


def _cell(found: dict[tuple[str, bool], dict[str, str]], name: str, client: str) -> str:
    test = f"test_{name}"
    if test not in found[client, False]:
        return "—"
    return MEASURED.get((name, client)) or seen(found[client, True].get(test, ""))


def _told(test: str, sentence: str) -> str:
    return f"**{words(test)}**: {sentence.replace('|', '/')}"


def kept() -> dict[tuple[str, bool], dict[str, str]]:
    """Return the results of the last run."""
    found = json.loads(RESULTS.read_text())
    return {
        (client, is_bare): found[f"{client} {'bare' if is_bare else 'guarded'}"]
        for client in CLIENTS
        for is_bare in (False, True)
    }


def main() -> None:
    """Run the contract, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--run", nargs=2, metavar=("CLIENT", "FILE"))
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--draw", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if given.run:
        client, target = given.run
        run(client, is_bare=given.bare, target=Path(target))
        return
    if not given.draw:
        with TemporaryDirectory() as folder:
            found = results(given.keep or Path(folder))
        named = {f"{c} {'bare' if b else 'guarded'}": e for (c, b), e in found.items()}
        text = json.dumps(named, indent=1, ensure_ascii=False)
        RESULTS.write_text(f"{text}\n")
    PAGE.write_text(page(kept()))


if __name__ == "__main__":
    main()
