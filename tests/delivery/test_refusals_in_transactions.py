"""Which record of a transaction is to blame, although none of them is sent again."""

from __future__ import annotations

import pytest
from kafka.errors import for_code

from kafkaguard import Action, classify, errors
from kafkaguard._delivery import commands as c
from kafkaguard._delivery.facts import Place, Raw, Refusal
from tests.delivery.told import begun, machine_of, only, refusals
from tests.delivery.world.batches import Item, Items

LIMIT = 1000
LARGE, MIDDLE, SMALL = (b"0:%b" % (b"x" * size) for size in (5000, 600, 1))


def refused(machine, values, code=10, blame="unknown"):
    """Refuse a batch with these values, and return the commands."""
    batch = Items(Place("t", 0), (0, 0), 30.0)
    batch.items = [Item(Raw(b"k", value), is_new=True) for value in values]
    machine.began(batch)
    refusals = [
        Refusal(item, n, for_code(code)(), blame, "answered", null_key=False)
        for n, item in enumerate(batch.items)
    ]
    return machine.failed(batch, refusals, 0.0)


def outcomes(*values, limit=LIMIT, compresses=False, **refusal):
    """Refuse a batch; return the errors of its records and of the transaction."""
    machine = machine_of(transactional=True, compresses=compresses)
    told = [*refused(machine, values, **refusal)]
    if c.AskSizeLimit("t") in told:
        assert machine.transaction.failure is None
        told += machine.size_limit("t", limit, 0.0)
    settled = [each.record for each in told if isinstance(each, c.Settle)]
    settled.sort(key=lambda record: record.index)
    return [record.outcome.error for record in settled], machine.transaction.failure


@pytest.mark.parametrize("sent", ["never", "answered"])
def test_failed_record_ends_its_transaction(sent):
    """Also one that never left the client; alone, the same code is no end."""
    machine = machine_of(transactional=True)
    batch = begun(machine)
    told = machine.failed(batch, refusals(batch, 87, "record", sent=sent), 0.0)
    error = only(c.Settle, told).record.outcome.error
    assert error.verdict is classify(error, api="Produce", transactional=True)
    assert error.verdict.action is Action.ABORT


@pytest.mark.parametrize("blame", ["unknown", "batch"])
@pytest.mark.parametrize("limit", [LIMIT, None])
def test_a_record_that_is_alone_and_too_large_is_to_blame(blame, limit):
    """The code is the broker's; its size and the limit are named."""
    [error], failure = outcomes(LARGE, blame=blame, limit=limit)
    assert error is failure
    assert isinstance(error, errors.MessageTooLargeError)
    assert error.verdict.action is Action.ABORT
    assert "makes a batch of 5073 bytes" in str(error)
    assert ("max.message.bytes of topic t is 1000" in str(error)) == (limit is not None)


@pytest.mark.parametrize("blame", ["unknown", "batch"])
def test_sizes_show_which_record_of_a_batch_is_to_blame(blame):
    """The others are its batch mates; the transaction's error names the record."""
    (first, second, third), failure = outcomes(SMALL, LARGE, SMALL, blame=blame)
    assert second is failure
    assert second.code == 10
    for mate in (first, third):
        assert isinstance(mate, errors.BatchMateRefusedError)
        assert mate.verdict.action is Action.ABORT


def test_a_batch_of_small_records_that_is_too_large_blames_none():
    """Each of them alone would have fitted."""
    told, failure = outcomes(MIDDLE, MIDDLE)
    assert [type(error) for error in told] == [type(failure)] * 2
    assert isinstance(failure, errors.BatchMateRefusedError)


def test_a_size_that_compression_hides_blames_a_record_alone():
    """With others in its batch it is not known which one was too large."""
    [alone], _ = outcomes(LARGE, compresses=True)
    assert alone.code == 10
    both, _ = outcomes(LARGE, LARGE, compresses=True)
    assert {type(error) for error in both} == {type(both[0])}
    assert isinstance(both[0], errors.BatchMateRefusedError)


def test_a_record_that_is_alone_has_its_own_refusal():
    """A timestamp out of the topic's range, for example."""
    [error], _ = outcomes(SMALL, code=32)
    assert error.code == 32
    assert error.verdict.action is Action.ABORT


@pytest.mark.parametrize(
    ("is_part", "sent", "is_mate"),
    [(True, "never", True), (True, "maybe", False), (False, "never", False)],
)
def test_what_a_client_drops_for_a_record_that_is_too_large_is_not_too_large(
    is_part, sent, is_mate
):
    """The parts of the refused batch are mates; no size is asked for, or named."""
    machine = machine_of(transactional=True)
    whole = begun(machine)
    part = Items(Place("t", 0), (0, 0, 1), 30.0, whole if is_part else None)
    part.items = [Item(Raw(b"k", SMALL), is_new=True)]
    machine.began(part)
    told = machine.failed(part, refusals(part, 10, "client", sent), 0.0)
    error = only(c.Settle, told).record.outcome.error
    assert isinstance(error, errors.BatchMateRefusedError) == is_mate
    assert error.verdict.action is Action.ABORT
    assert not isinstance(error, errors.MessageTooLargeError)
    assert "max.message.bytes" not in str(error)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_small_part_of_a_batch_that_was_too_large_is_a_mate(size):
    """The client fails all parts with the answer, although each was alone."""
    machine = machine_of(transactional=True)
    whole = begun(machine)
    part = Items(Place("t", 0), (0, 0, 1), 30.0, whole)
    part.items = [Item(Raw(b"k", size), is_new=True)]
    machine.began(part)
    machine.failed(part, refusals(part, 10, "batch"), 0.0)
    told = machine.size_limit("t", LIMIT, 0.0)
    error = only(c.Settle, told).record.outcome.error
    assert isinstance(error, errors.BatchMateRefusedError) == (size is SMALL)
    assert ("send less" in str(error).lower()) == (size is LARGE)


def test_a_closed_producer_asks_for_no_size():
    """The record still has the broker's error."""
    machine = machine_of(transactional=True)
    machine.closing(0.0)
    [settle] = [
        told for told in refused(machine, [LARGE]) if isinstance(told, c.Settle)
    ]
    assert settle.record.outcome.error.code == 10
