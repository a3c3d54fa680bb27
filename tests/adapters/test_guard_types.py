"""What type checkers make of ``guard()``: the client's attributes, and ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: One run of mypy serves three tests.
pytestmark = [pytest.mark.types, pytest.mark.xdist_group("types")]

ROOT = Path(__file__).resolve().parents[2]
PATHS = [str(ROOT / each) for each in ("", "policies", "adapters")]

CONFLUENT = """
from confluent_kafka import Consumer, DeserializingConsumer, Message, Producer
from confluent_kafka.admin import AdminClient

from typing_extensions import assert_type
from kafkaguard import TopicFacts, guard
from kafkaguard.cluster import LagReport, LogDirsReport, OffsetsReport

config = {"bootstrap.servers": "localhost:9092"}
consumer = guard(Consumer(config), config=config, topics={"t": TopicFacts()})
assert_type(consumer.lag("billing"), LagReport)
assert_type(consumer.log_dirs(), LogDirsReport)
assert_type(consumer.poll(1.0), Message | None)


def needs_a_consumer(client: Consumer) -> None: ...


needs_a_consumer(consumer)
assert_type(guard(factory=DeserializingConsumer, config=config).lag(), LagReport)
with guard(Producer(config), strict=True) as producer:
    producer.produce("t", b"v")
    assert_type(producer.end_offsets([("t", 0)]), OffsetsReport)
    with producer.transaction():
        producer.produce("t", b"v")
consumer.commit(offsets=[], asynchronous=False, allow_unassigned=True)
assert_type(guard(AdminClient({**config})).lag(), LagReport)
"""
MISTAKES = """
from confluent_kafka import Consumer

from kafkaguard import guard

consumer = guard(Consumer({}))
consumer.pol()
consumer.lag(timout=3)
guard(Consumer({}), topic={})
"""
OTHERS = """
# mypy: disable-error-code=import-untyped, allow-subclassing-any
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from kafkaguard import guard


class OfTheirOwn(KafkaConsumer):
    def greet(self) -> str:
        return "hello"


def blocking() -> None:
    guard(KafkaAdminClient()).lag()
    guard(factory=KafkaConsumer).log_dirs()
    own = guard(OfTheirOwn())
    own.log_dirs()
    own.greet()
    for _ in guard(KafkaConsumer("t")):
        break
    with guard(KafkaProducer()) as producer:
        producer.send("t", b"v")
        producer.log_dirs()


async def awaited() -> None:
    async with guard(AIOKafkaConsumer("t")) as consumer:
        await consumer.lag()
        await consumer.getone()
    await guard(AIOKafkaProducer()).log_dirs()
    await guard(AIOKafkaAdminClient()).lag()
"""
TYPED = """
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer

from typing_extensions import assert_type
from kafkaguard import guard
from kafkaguard.cluster import LagReport

consumer = guard(KafkaConsumer())
assert_type(consumer.lag(), LagReport)
assert_type(consumer.poll(), int)
first: KafkaConsumer = consumer


async def awaited() -> None:
    async with guard(AIOKafkaConsumer()) as other:
        assert_type(await other.lag(), LagReport)
        assert_type(await other.getone(), int)
"""
STUBS = {
    "kafka/__init__.pyi": """
class KafkaConsumer:
    def poll(self) -> int: ...
    def seek_to_beginning(self) -> None: ...

class KafkaProducer:
    def send(self) -> None: ...

class KafkaAdminClient:
    def create_topics(self) -> None: ...
""",
    "aiokafka/__init__.pyi": """
class AIOKafkaConsumer:
    async def start(self) -> None: ...
    async def getone(self) -> int: ...

class AIOKafkaProducer:
    async def start(self) -> None: ...
    async def send_and_wait(self) -> None: ...
""",
    "aiokafka/admin.pyi": """
class AIOKafkaAdminClient:
    async def start(self) -> None: ...
""",
}


FINE = "Success: no issues found in 1 source file\n"


def mypy(folder, *programs):
    """Run mypy over programs of a user's; return its exit code and what it says."""
    for name, text in programs:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ran = subprocess.run(
        [
            sys.executable,
            *("-m", "mypy", "--config-file=", "--strict"),
            *(name for name, _ in programs if name.endswith(".py")),
        ],
        cwd=folder,
        env={**os.environ, "MYPYPATH": "stubs"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What mypy says of the programs without stubs, by file: it runs once for all."""
    programs = {"typed.py": CONFLUENT, "mistakes.py": MISTAKES, "others.py": OTHERS}
    code, text = mypy(tmp_path_factory.mktemp("types"), *programs.items())
    assert code == 1
    lines = text.splitlines()
    return {name: [x for x in lines if x.startswith(name)] for name in programs}


@pytest.fixture
def pyright(tmp_path):
    """Run pyright over a program of a user's."""

    def run(program):
        (tmp_path / "program.py").write_text(program)
        options = {"typeCheckingMode": "standard", "extraPaths": PATHS}
        (tmp_path / "pyrightconfig.json").write_text(json.dumps(options))
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "basedpyright", "program.py"),
                *("--pythonpath", sys.executable),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        return ran.returncode, ran.stdout + ran.stderr

    return run


def test_pyright_agrees(pyright):
    """The file of typed examples that mypy accepts is accepted by pyright, too."""
    code, said = pyright(CONFLUENT)
    assert (code, "0 errors" in said) == (0, True), said


def test_pyright_finds_the_same_mistakes(pyright):
    """The misspelt method, the misspelt argument and the misspelt option."""
    code, said = pyright(MISTAKES)
    assert code == 1
    assert 'attribute "pol"' in said
    assert '"timout"' in said
    assert "3 errors" in said


def test_typed_client_keeps_its_types_and_has_our_calls(said):
    """confluent-kafka has types: both sides are checked, and it passes for itself."""
    assert said["typed.py"] == []


def test_mistakes_are_found(said):
    """A misspelt method, argument or option is an error, as without the guard."""
    found = "\n".join(said["mistakes.py"])
    assert 'has no attribute "pol"' in found
    assert '"timout"' in found
    assert '"topic"' in found


def test_clients_without_types_work_with_all_names(said):
    """kafka-python and aiokafka have none: nothing is hidden, and nothing refused."""
    assert said["others.py"] == []


def test_clients_with_stubs_keep_their_types(tmp_path):
    """With stubs beside them the calls of both sides have theirs."""
    stubs = ((f"stubs/{name}", text) for name, text in STUBS.items())
    assert mypy(tmp_path, ("program.py", TYPED), *stubs) == (0, FINE)
