"""What reads the bytes of others, and what must hold for any bytes.

Each target takes bytes. It may refuse them with the documented error of what it calls;
any other exception is a finding, and so is an input that takes seconds.
"""

from __future__ import annotations

import asyncio
import base64
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CORPUS = Path(__file__).with_name("corpus")


class Target(NamedTuple):
    """Something that reads bytes.

    Attributes:
        check: Reads an input; raises what is a finding.
        seeds: Makes inputs to begin with.
        watched: The packages whose branches are watched.
    """

    check: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    watched: tuple[str, ...]


def read_corpus(name):
    """Return the inputs that are kept for a target."""
    file = CORPUS / f"{name}.txt"
    lines = file.read_text().split() if file.exists() else ()
    return [base64.b85decode(line) for line in lines]


def write_corpus(name, inputs):
    """Keep inputs for a target, one in each line."""
    CORPUS.mkdir(exist_ok=True)
    lines = sorted({base64.b85encode(each).decode() for each in inputs} - {""})
    (CORPUS / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


# Codecs: the first two bytes select the message and the version.


@cache
def _forms():
    from tests.protocol.protocol_forms import forms

    return list(forms())


def check_codec(data):
    """Decode a message of Kafka; what was read can be written and read again."""
    number = int.from_bytes(data[:2], "big") % len(_forms())
    _forms()[number].check(data[2:])


def codec_seeds():
    """Write a sample of each message and version."""
    for number, form in enumerate(_forms()):
        yield number.to_bytes(2, "big") + form.sample()


# Policies: the first byte selects YAML or TOML.


def check_policy(data):
    """Read a policy file without its folder."""
    from kafkaguard_policies.model.problems import PolicyError
    from kafkaguard_policies.reading.documents import read_document
    from kafkaguard_policies.reading.sources import _build

    ending = ".toml" if data[:1] == b"t" else ".yaml"
    text = data[1:].decode(errors="replace")
    try:
        policy = _build(read_document(text, f"policy{ending}"), None)
    except PolicyError as error:
        assert str(error)
        return
    assert policy.policy_id


def policy_seeds():
    """Take the presets, and one with each key."""
    from kafkaguard_policies.reading.sources import load_policy, preset_text, presets

    for name in presets():
        yield b"y" + preset_text(name).encode()
        content = load_policy(name).model_dump(mode="json", exclude_unset=True)
        yield b"y" + yaml.safe_dump(content, default_flow_style=True).encode()
    yield b"y&a {name: x, deadline: *a, <<: {wait: 1}}\n--- !!map {? [1] : 2}\n"
    yield b"y!!python/name:os.system {}\nx: !!binary aGk=\ny: 2026-01-01\n"
    yield b'textends = "default"\ndeadline = 1979-05-27T07:32:00Z\n[[overrides]]\n'


# Dead letters: key, value and headers, one in each line.


def check_letter(data):
    """Read a dead letter, and what a replay keeps of it."""
    from kafkaguard._delivery.dialects import NAMES, write_headers
    from kafkaguard_adapters.replay import letters

    lines = [line.partition(b"=") for line in data.split(b"\n")]
    headers = [
        (name.decode(errors="replace"), value if sign else None)
        for name, sign, value in lines[1:]
    ]
    key, _, value = lines[0]
    letter = letters.read_letter(key or None, value or None, headers, len(data))
    letter.check()
    letters.Selection(codes=frozenset({"87"})).takes(letter)
    letters.make_entry(letters.Place(0, 1), 2, letter, letter.topic)
    for dialect in NAMES:
        write_headers(_facts(letter), dialect)


def _facts(letter):
    from kafkaguard._delivery.dialects import LetterFacts

    names = LetterFacts.__dataclass_fields__
    return LetterFacts(**{n: getattr(letter, n) for n in names if n in dir(letter)})


def letter_seeds():
    """Write letters in each dialect."""
    from kafkaguard._delivery.dialects import NAMES, LetterFacts, write_headers

    facts = LetterFacts(
        "NULL_KEY", "orders", 3, 7, 1_700_000_000_000, "billing", "INVALID_RECORD", 87,
        "app.Bad", "NULL_KEY: no key",
    )  # fmt: skip
    for dialect in NAMES:
        headers = write_headers(facts, dialect)
        lines = [name.encode() + b"=" + (value or b"") for name, value in headers]
        yield b"\n".join([b"key=value", *lines])
    yield b"k=v\nkafkaguard.attempts=2\nkafkaguard.value.bytes=100\nown"


# Texts for `explain`.


def check_explain(data):
    """Find the errors that a text names, and classify them."""
    from kafkaguard import classify
    from kafkaguard.cli.lookup import find_error, find_errors

    text = data.decode(errors="replace")
    first = find_error(text)
    found = find_errors(text)
    assert (first is None) == (not found)
    for each in found:
        assert classify(each.subject).action


def explain_seeds():
    """Take the texts of kafkaguard's errors, of clients and of Java."""
    from kafkaguard import errors as e

    for code in (3, 6, 10, 29, 58, 87, -1):
        yield str(e.for_code(code)("words", api="Produce")).encode()
    yield b"Traceback (most recent call last):\n  File 'x', line 1\nkafka.errors."
    yield b"KafkaTimeoutError: x\n\nThe above exception was the direct cause of the "
    yield b"following exception:\n\nRuntimeError: [Error 6] NotLeader"
    yield b'cimpl.KafkaException: KafkaError{code=_MSG_TIMED_OUT,val=-192,str="x"}'
    yield b"org.apache.spark.SparkException: Job aborted\nCaused by: org.apache.kafka."
    yield b"common.errors.TimeoutException: Expiring 3 record(s) for t-0:120000 ms"
    yield b"Invalid receive (size = 1213486160 larger than 524288)\n87\nINVALID_RECORD"


# Addresses, and files of settings.


def check_address(data):
    """Read addresses as the command line, the wire and the proxy do."""
    from kafkaguard._cluster.reports import make
    from kafkaguard._common.arguments import read_address
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard.testing import FaultProxy, ProxyError
    from kafkaguard_adapters.wire.settings import read_bootstrap

    text = data.decode(errors="replace")
    found = read_address(text)
    assert found is None or 0 < found[1] < 65536
    for call, refusal in (
        (lambda: read_bootstrap(text, make), KafkaGuardError),
        (lambda: FaultProxy(text), ProxyError),
    ):
        try:
            call()
        except refusal as error:
            assert str(error)


def address_seeds():
    """Take each form of an address."""
    yield b"localhost:9092,[::1]:9093, SSL://broker.example.org"
    yield b"::1,fe80::1%eth0,SASL_SSL://[2001:db8::1]:65535,a_b-c.d:1"
    yield b"user:password@host:9092,host:99999,host:,:1"


def check_settings(data):
    """Read a file of settings, and make the connection's settings of it."""
    from kafkaguard._cluster.reports import make
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.confluent.settings import read_settings
    from kafkaguard_adapters.wire.client_settings import SettingError, read_properties

    try:
        lines = read_properties(data.decode(errors="replace"))
        values = {name: value for name, (value, _) in lines.items()}
        settings = read_settings(values, make)
    except (SettingError, KafkaGuardError) as error:
        assert str(error)
        return
    assert settings.bootstrap
    for word in (settings.client_id, *settings.sasl.values()):
        str(word).encode()


def settings_seeds():
    """Take files in Java's format, with logins and escapes."""
    yield (
        b"bootstrap.servers=a:1,b:2\nsecurity.protocol=SASL_SSL\n! note\n"
        b"sasl.mechanism : SCRAM-SHA-256\nsasl.jaas.config org.apache.kafka.common."
        b"security.scram.ScramLoginModule required username=\"u\" \\\n password='p';\n"
    )
    yield b"metadata.broker.list=a\nclient.id=\\u00e9\\t\nssl.ca.location=/none\n"
    yield (
        b"bootstrap.servers=a\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism="
        b"OAUTHBEARER\nenable.sasl.oauthbearer.unsecure.jwt=true\n"
        b"sasl.oauthbearer.config=principal=bob scope=a,b extension_x=1 life=60\n"
    )
    yield (
        b"bootstrap.servers=a\nsecurity.protocol=SSL\nssl.truststore.type=PEM\n"
        b"ssl.truststore.certificates=-----BEGIN CERTIFICATE-----\\nx\n"
        b"ssl.endpoint.identification.algorithm=\n"
    )


# Frames of the proxy: the length of a request, the request, and the broker's answer.


@cache
def _hub():
    from kafkaguard.testing.proxy import language
    from kafkaguard.testing.proxy.hub import Hub
    from kafkaguard.testing.proxy.journal import Recorder

    class ClosedHub(Hub):
        """A hub that opens no port for a broker that an answer names."""

        async def listener(self, upstream, broker=None):
            """Return an address only."""
            return SimpleNamespace(address=("127.0.0.1", 1))

    hub = ClosedHub(Recorder(10), "127.0.0.1", 0, "127.0.0.1", 1 << 20)
    faults = []
    for code in (3, 87):
        add = faults.append
        language.when(add, rate=0.5, seed=code).fail(code, written=code == 87)
    language.when(faults.append, rate=0.2, seed=1).throttle(1.0)
    language.when(faults.append, rate=0.2, seed=2).empty()
    hub.faults = tuple(faults)
    return hub, asyncio.new_event_loop()


def check_frames(data):
    """Let a request and its answer through the proxy, with and without faults."""
    from kafkaguard.testing.proxy.frames import GarbageError
    from kafkaguard.testing.proxy.listener import Listener
    from kafkaguard.testing.proxy.plan import outgoing

    size = int.from_bytes(data[:2], "big")
    request, answer = data[2 : 2 + size], data[2 + size :]
    hub, loop = _hub()
    request = len(request).to_bytes(4, "big") + request
    listener = Listener(("b", 1), ("p", 2))
    for paused in (True, False):
        hub.paused = paused
        try:
            plan = hub.plan(request, listener, 1)
            outgoing(plan, request)
            number = request[8:12]
            raw = (len(answer) + 4).to_bytes(4, "big") + number + answer
            made = plan.is_made_here and plan.layout is not None
            loop.run_until_complete(hub.answer(plan, None if made else raw, listener))
        except GarbageError as error:
            assert str(error)


def frames_seeds():
    """Write a request and an answer of each API that the proxy knows, newest and oldest."""
    from kafkaguard._verdicts.apis import API_NAMES
    from kafkaguard.testing.proxy import frames
    from kafkaguard.testing.proxy.places import _make_blank, layout

    for key in API_NAMES:
        newest = frames.max_version(key)
        for version in {0, newest} - {None} if newest is not None else ():
            schema = frames.request_schema(key, version)
            body = _make_blank(schema, schema, version, {})
            head = (
                key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(3) + b"\7"
            )
            head += b"\0\1c" + (b"\0" if schema.flexible_version_q(version) else b"")
            request = head + frames._encode(body, version)
            header = frames.Header(key, version, 7, None, 0)
            answer = frames.encode_answer(header, layout(key, version).blank())
            yield len(request).to_bytes(2, "big") + request + answer[8:]


TARGETS = {
    "codecs": Target(check_codec, codec_seeds, ("kafkaguard.protocol",)),
    "policies": Target(
        check_policy, policy_seeds, ("kafkaguard_policies.reading", "yaml", "tomllib")
    ),
    "letters": Target(
        check_letter,
        letter_seeds,
        ("kafkaguard._delivery.dialects", "kafkaguard_adapters.replay"),
    ),
    "explain": Target(check_explain, explain_seeds, ("kafkaguard.cli.lookup",)),
    "addresses": Target(
        check_address, address_seeds, ("kafkaguard._common", "kafkaguard_adapters.wire")
    ),
    "settings": Target(
        check_settings,
        settings_seeds,
        ("kafkaguard_adapters.wire", "kafkaguard_adapters.confluent.settings"),
    ),
    "frames": Target(
        check_frames, frames_seeds, ("kafkaguard.testing.proxy", "kafka.protocol")
    ),
}


def replay(names=None):
    """Check the kept inputs of each target, or of some; return how many."""
    count = 0
    for name in names or TARGETS:
        for data in read_corpus(name):
            TARGETS[name].check(data)
            count += 1
    return count
