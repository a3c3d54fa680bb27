"""The generated table: the broker's own jar is the oracle."""

from __future__ import annotations

import pytest

from kafkaguard import errors as e
from kafkaguard._errors.generated import BY_CODE, RETRIABLE_CODES
from kafkaguard._verdicts.apis import API_KEYS, API_NAMES

pytestmark = pytest.mark.java


JAVA_GROUPS = {
    "RefreshRetriableException": e.RefreshRetriableError,
    "InvalidMetadataException": e.InvalidMetadataError,
    "ApplicationRecoverableException": e.ApplicationRecoverableError,
    "InvalidConfigurationException": e.InvalidConfigurationError,
    "AuthenticationException": e.AuthenticationError,
    "AuthorizationException": e.AuthorizationError,
    "InvalidOffsetException": e.InvalidOffsetError,
    "OutOfOrderSequenceException": e.OutOfOrderSequenceNumberError,
}


@pytest.fixture(scope="module")
def generator(load_script):
    """The generator, imported from its script."""
    return load_script("generate_errors")


@pytest.fixture(scope="module")
def jar(generator):
    """What the enums in the jar say: rows of errors, and request names."""
    return generator.read_jar()


def test_generated_modules_are_up_to_date(generator):
    """The generator writes the modules as they are in the repository."""
    for path, text in generator.generate().items():
        assert text == path.read_text(), f"{path} is stale: run `make generate`"


def test_every_code_of_the_broker_has_a_class_of_its_own(jar):
    """All 137 codes of Kafka 4.4.0, and no other."""
    rows, _ = jar
    assert len(rows) == 137
    assert {row.code for row in rows} == set(BY_CODE)
    assert len(set(BY_CODE.values())) == 137
    for row in rows:
        assert (row.code, row.name) == (BY_CODE[row.code].code, BY_CODE[row.code].name)


def test_retriable_flag_agrees_with_java_for_every_code(jar):
    """Each retriable flag equals Java's; a wrong one hung a client (franz-go 65ca0bd)."""
    rows, _ = jar
    for row in rows:
        cls = BY_CODE[row.code]
        assert row.retriable == issubclass(cls, e.RetriableError), row
        assert row.retriable != issubclass(cls, e.FatalError), row
        assert row.retriable == (row.code in RETRIABLE_CODES), row


def test_java_groups_are_ancestors(jar):
    """A class is in one of our groups exactly if Java's class is in its namesake."""
    rows, _ = jar
    for row in rows:
        lineage = {row.java, *row.ancestors}
        for java, ours in JAVA_GROUPS.items():
            assert (java in lineage) == issubclass(BY_CODE[row.code], ours), (row, java)


def test_every_group_of_java_is_one_of_ours(jar):
    """Each group of Java's exceptions has a class."""
    rows, _ = jar
    named = {ancestor for row in rows for ancestor in row.ancestors}
    assert named - {"ApiException", "KafkaException", "RetriableException"} <= set(
        JAVA_GROUPS
    )


def test_request_names_are_the_brokers(jar):
    """API keys and names come from the jar as well."""
    _, apis = jar
    assert dict(apis) == API_NAMES
    assert API_KEYS["Produce"] == 0


def test_abortable_group_is_of_kip_1050():
    """TRANSACTION_ABORTABLE is in the group that KIP-1050 gives it."""
    assert issubclass(e.TransactionAbortableError, e.AbortableError)
    assert issubclass(e.AbortableError, e.FatalError)
