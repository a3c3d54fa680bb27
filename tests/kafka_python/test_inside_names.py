"""kafka-python's inside: every name listed and checked, every replacement exact."""

from __future__ import annotations

import inspect
import tokenize
from itertools import pairwise
from pathlib import Path

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.producer.producer_batch import ProducerBatch
from kafka.producer.transaction_manager import InitProducerIdHandler
from kafka.record import MemoryRecordsBuilder

from kafkaguard import errors, guard
from kafkaguard_adapters import kafka_python
from kafkaguard_adapters.kafka_python._private import (
    moving,
    names,
    reading,
    transactions,
)

ADAPTER = Path(kafka_python.__file__).parent
LISTED = {name for group in names.USED.values() for name in group}
#: What is looked at without being inside: of Python's, ours, and the public interface.
ELSEWHERE = {
    "__init__",
    "__module__",
    "__package__",
    "_delivery",
    "_private",
    "_producer",
    "_then",
}


@pytest.fixture
def build(kafka_cluster):
    """Build producers of the client's own that are closed in the end."""
    made = []

    def build(**settings):
        settings["bootstrap_servers"] = kafka_cluster.bootstrap_servers
        made.append(KafkaProducer(**settings))
        return made[-1]

    yield build
    for producer in made:
        producer.close(5)


def attributes(path):
    """Every attribute that a file looks up."""
    with path.open("rb") as file:
        tokens = [token.string for token in tokenize.tokenize(file.readline)]
    return {
        name for dot, name in pairwise(tokens) if dot == "." and name.isidentifier()
    }


def used_inside():
    """Every attribute that the private room looks up."""
    return set().union(*map(attributes, (ADAPTER / "_private").glob("*.py")))


class TestNames:
    """What is used inside is listed once, and used in one place only."""

    def test_every_private_name_that_is_used_is_listed(self):
        """A name that is used but not listed would not be checked."""
        used = used_inside()
        private = {n for n in used if n.startswith("_") and not n.endswith("__")}
        own = {"_init_transactions_result"}  # set, never read
        assert set() == private - LISTED - ELSEWHERE - own

    def test_every_name_that_is_listed_is_used(self):
        """The list holds no name of yesterday."""
        used = used_inside()
        assert set() == LISTED - used

    def test_no_other_file_touches_the_inside(self):
        """Private names of the client's stand in ``_private`` only."""
        private = {name for name in LISTED if name.startswith("_")}
        ambiguous = {"_closed", "_lock", "_future", "_batches", "_client", "_sender"}
        found = {
            (path.name, name)
            for path in ADAPTER.glob("*.py")
            for name in attributes(path) & (private - ambiguous)
        }
        assert set() == found

    @pytest.mark.parametrize(
        "settings",
        [{}, {"enable_idempotence": False}, {"transactional_id": "names"}],
        ids=["idempotent", "plain", "transactional"],
    )
    def test_nothing_is_missing_today(self, build, settings):
        """Every name is there in the version that is installed."""
        assert names.missing(build(**settings)) == []


class TestReplacedMethods:
    """What takes a method's place takes exactly its arguments, keywords included."""

    def test_each_has_the_clients_own_signature(self, build):
        """Name by name, in the same order and of the same kind."""
        producer = build(transactional_id="signatures")
        manager = producer._transaction_manager
        moving.report_batches(producer, lambda _: None)
        moving.report_retries(producer, lambda *_: None)
        moving.note_requests(producer)
        moving.keep_numbers(producer, lambda _: False)
        moving.report_late_acceptances(producer, lambda *_: None)
        moving.report_late_refusals(producer, lambda *_: None)
        moving.check_appends(producer, lambda *_: None)
        transactions.mend(producer)
        handler = InitProducerIdHandler(manager, 0)
        manager._enqueue_request(handler)
        replaced = {
            ("IncompleteProducerBatches", "add"): producer._accumulator._incomplete,
            ("RecordAccumulator", "append"): producer._accumulator,
            ("Sender", "_can_split"): producer._sender,
            ("Sender", "_complete_batch"): producer._sender,
            ("Sender", "_create_produce_requests"): producer._sender,
            ("Sender", "_dispatch_error"): producer._sender,
            ("Sender", "_is_retention_based_unknown_producer_id"): producer._sender,
            ("Sender", "_send_producer_data"): producer._sender,
            ("TransactionManager", "_enqueue_request"): manager,
            ("TransactionManager", "bump_producer_id_and_epoch"): manager,
            ("InitProducerIdHandler", "on_complete"): handler,
            ("ClusterMetadata", "request_update"): producer._metadata,
            ("KafkaNetClient", "await_ready"): producer._sender._client,
        }
        moving.fail_metadata_waiters(producer)
        assert set(replaced) == set(names.REPLACED)
        for (kind, name), owner in replaced.items():
            ours = vars(owner)[name]
            theirs = getattr(super(type(owner), owner), name, None) or getattr(
                type(owner), name
            ).__get__(owner)
            assert kinds(theirs) == kinds(ours), (kind, name)

    def test_a_batch_that_expires_is_told_of_by_keyword(self, build):
        """The client passes ``partition_response`` by keyword where no answer came."""
        producer = build(enable_idempotence=False, retries=0)
        told = []
        moving.report_late_refusals(producer, lambda *refusal: told.append(refusal))
        records = MemoryRecordsBuilder(2, 0, 1024)
        batch = ProducerBatch(TopicPartition("t", 0), records)
        future = batch.try_append(None, b"k", b"v", [])
        error = KafkaTimeoutError("expired")
        producer._sender._complete_batch_with_exception(batch, error)
        assert error is future.exception
        assert told == []


def kinds(method):
    """Name and kind of each parameter."""
    parameters = inspect.signature(method).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


class TestAnotherVersion:
    """A kafka-python without one of the names is refused."""

    @pytest.mark.parametrize(
        ("owner", "name"),
        [
            (lambda p: p._accumulator._incomplete, "all"),
            (lambda p: p._sender, "_record_exceptions_fn"),
            (lambda p: p._transaction_manager, "is_bumping_epoch"),
        ],
        ids=["accumulator", "sender", "transactions"],
    )
    def test_a_missing_method_is_named(self, build, monkeypatch, owner, name):
        """guard() refuses the producer, and the error has the name."""
        producer = build()
        monkeypatch.delattr(type(owner(producer)), name)
        with pytest.raises(errors.ClientConfigurationError, match=name):
            guard(producer)

    def test_a_missing_attribute_is_found(self, build, monkeypatch):
        """An attribute that only an object of the class has is found as well."""
        producer = build()
        monkeypatch.delattr(producer._accumulator, "_flushes_in_progress")
        missing = r"RecordAccumulator\._flushes_in_progress"
        with pytest.raises(errors.ClientConfigurationError, match=missing):
            guard(producer)

    def test_a_changed_signature_is_found(self, build, monkeypatch, caplog):
        """A method that takes more than its replacement would is as good as missing."""
        producer = build()
        sender = type(producer._sender)
        original = sender._dispatch_error

        def changed(self, batch, exception, partition_response, now):
            return original(self, batch, exception, partition_response)

        monkeypatch.setattr(sender, "_dispatch_error", changed)
        assert (
            names.missing(producer)
            == ["Sender._dispatch_error(batch, exception, partition_response)"]
        )  # fmt: skip


def test_a_guarded_producer_is_told_apart(build):
    """One guard can account for a producer's records, and no second one."""
    producer = build()
    guard(producer)
    assert reading.is_guarded(producer)
    with pytest.raises(TypeError, match="guarded already"):
        guard(producer)
