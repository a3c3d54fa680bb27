"""Every message, in each direction and version: there and back, cut off, mutated."""

from __future__ import annotations

import importlib
import math
import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kafkaguard.errors import ProtocolError
from kafkaguard.protocol import message, message_names
from kafkaguard.protocol._layout import names
from tests.effort import cases
from tests.protocol.protocol_forms import Form, forms

MUTATIONS = 30_000
INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
VALUES = {
    **{k: st.integers(-(2**bits), 2**bits - 1) for k, bits in INTEGERS.items()},
    "uint16": st.integers(0, 65535),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.uuids(),
    "string": st.text(max_size=6),
    "bytes": st.binary(max_size=6),
    "records": st.binary(max_size=6),
}
TAGS = st.dictionaries(
    st.integers(10_000, 2**31 - 1), st.binary(max_size=4), min_size=1, max_size=2
)
HEADERS = st.fixed_dictionaries({"correlation_id": VALUES["int32"]})
ENGINE_PARTS = ("admin", "consumer", "metadata", "producer", "sasl")


def contents(schema, fields, version, *, tags=True):
    """Content that fills every field of a version, with unknown tags if it has tags."""
    filled = {
        field.name: values(schema, field, version, tags=tags)
        for field in fields
        if version in field.versions
    }
    unknown = {"unknown_tags": TAGS} if tags and version in schema.flexible else {}
    return st.fixed_dictionaries(filled, optional=unknown)


def values(schema, field, version, *, tags):
    """Values of one field."""
    single = (
        contents(schema, field.fields, version, tags=tags)
        if field.fields
        else VALUES[field.kind]
    )
    every = st.lists(single, max_size=2) if field.array else single
    return st.none() | every if version in field.nullable else every


def versions_of(name, side):
    """Each version of one direction of a message."""
    return [form for form in FORMS if form.name == f"{name}{side}"]


FORMS = list(forms())
NAMES = [name for name in message_names() if name != "BrokerRegistration"]
BOTH = [
    (name, side)
    for name in [*NAMES, "BrokerRegistration"]
    for side in ("Request", "Response")
]
few = settings(
    max_examples=cases(4, quick=2),  # the first is the simplest one
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
)


def test_every_message_of_the_engine_is_there():
    """Each request class of kafka-python, by key, with its versions."""
    engine = [
        cls
        for part in ENGINE_PARTS
        for cls in vars(importlib.import_module(f"kafka.protocol.{part}")).values()
        if isinstance(cls, type) and hasattr(cls, "API_KEY") and cls.type == "request"
    ]
    ours = {message(name).api_key() for name in names()}
    assert ours == {cls.API_KEY for cls in engine} | {62}
    for cls in engine:
        found = message(cls.API_KEY)
        versions = (found.min_supported_version(), found.max_supported_version())
        assert versions == tuple(cls.valid_versions)


def hold(form, strategy, check):
    """Check a few of a strategy's values."""

    @few
    @given(strategy)
    def run(value):
        check(form, value)

    run()


@pytest.mark.parametrize(("name", "side"), BOTH)
def test_message_round_trips_in_every_version(name, side):
    """What was written is read as it was, headers and unknown tags too."""
    for form in versions_of(name, side):
        content = contents(form.schema, form.schema.fields, form.version)
        hold(form, st.tuples(content, HEADERS), round_trips)


def round_trips(form, value):
    """Write and read."""
    content, header = value
    if form.name == "ApiVersionsResponse" and content["error_code"] == 35:
        return  # it has the layout of version 0
    read = form.read(form.write({**content, "header": header}))
    assert header.items() <= read.pop("header").items()
    assert content == read


@pytest.mark.parametrize(("name", "side"), BOTH[:-2])
def test_engine_reads_and_writes_the_same_bytes(name, side):
    """kafka-python's engine is the oracle, but for the tags that it drops."""
    cls = engine_class(f"{name}{side}")

    def agree(form, content):
        if form.name == "ApiVersionsResponse" and content["error_code"]:
            return  # the engine takes the layout of version 0 for any error
        written = form.write(content, with_header=False)
        decoded = cls.decode(written, version=form.version)
        decoded._header = None  # it is left unset when there was none
        assert written == decoded.encode(version=form.version)

    for form in versions_of(name, side):
        fields = form.schema.fields
        hold(form, contents(form.schema, fields, form.version, tags=False), agree)


def engine_class(name):
    """Find the engine's class of a message."""
    parts = [importlib.import_module(f"kafka.protocol.{part}") for part in ENGINE_PARTS]
    return next(getattr(part, name) for part in parts if hasattr(part, name))


@pytest.mark.parametrize(("name", "side"), BOTH)
def test_input_that_is_cut_off_or_too_long_is_refused(name, side):
    """Input of every wrong length is refused, with the offset."""
    for form in versions_of(name, side):
        sample = form.sample()
        assert form.check(sample)
        for size in range(len(sample)):
            assert not form.check(sample[:size]), (form, size)
        with pytest.raises(ProtocolError, match="1 bytes too many") as caught:
            form.read(sample + b"\0")
        assert caught.value.offset == len(sample)


@pytest.mark.parametrize("seed", range(3))
def test_mutated_input_is_read_or_refused(seed):
    """Bytes changed, cut out, doubled or made huge; `make fuzz` goes further."""
    chance = random.Random(seed)
    samples = [form.sample() for form in FORMS]
    for _ in range(MUTATIONS // 3):
        place = chance.randrange(len(FORMS))
        data = bytearray(samples[place])
        for _ in range(chance.randint(1, 3)):
            mutate(data, chance)
        FORMS[place].check(bytes(data))


def mutate(data, chance):
    """Do one thing to the bytes."""
    start = chance.randrange(len(data) + 1)
    end = min(len(data), start + chance.randint(0, 4))
    data[start:end] = chance.choice(
        [
            chance.randbytes(end - start),
            chance.randbytes(chance.randint(0, 4)),
            b"",
            data[start:end] * 2,
            b"\x7f\xff\xff\xff",
            b"\xff\xff\xff\xff\x07",
            b"\xff\xff\xff\xff\x0f",
            b"\x80\x00\x00\x00",
        ]
    )


def test_no_element_is_free():
    """An array's length is bounded by its bytes, so each element must take some."""
    for form in FORMS:
        check_elements(form, form.schema.fields)


def check_elements(form: Form, fields):
    """Look into each array of structs."""
    for field in fields:
        if field.fields and field.array and form.version in field.versions:
            here = [each for each in field.fields if form.version in each.versions]
            assert here or form.version in form.schema.flexible, (form, field.name)
        check_elements(form, field.fields)


def test_infinity_and_nan_are_kept():
    """float64 fields, as in quotas, keep infinity and nan."""
    found = message("AlterClientQuotas")
    for number in (math.inf, -math.inf, math.nan, -0.0, 5e-324):
        entry = {"ops": [{"key": "k", "value": number}]}
        sent = found.serialize_request({"entries": [entry]}, 1)
        read = found.deserialize_request(sent, 1)["entries"][0]["ops"][0]["value"]
        assert repr(read) == repr(number)
