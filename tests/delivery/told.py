"""A machine without a client, and the facts that tests tell it."""

from __future__ import annotations

from kafka.errors import for_code

from kafkaguard._delivery import commands as c
from kafkaguard._delivery.facts import Place, Raw, Refusal, Traits
from kafkaguard._delivery.machine import DeliveryMachine
from kafkaguard._delivery.sizes import batch_size
from tests.delivery.world.batches import Item, Items
from tests.delivery.world.words import PlainErrors, PlainPolicy

HERE = Place("t", 0)


def traits(**more):
    """Make the traits of a client."""
    return Traits("model", 30.0, "delivery.timeout", **more)


def machine_of(policy=None, shared=None, **more):
    """Make a machine whose client has these traits."""
    known = traits(**more)

    def size_alone(raw):
        size = batch_size(raw.key, raw.value, raw.headers)
        return None if known.compresses else size

    return DeliveryMachine(
        known,
        policy or PlainPolicy(),
        PlainErrors(),
        size_alone=size_alone,
        shared=shared,
    )


def begun(machine, count=1):
    """Begin a batch."""
    batch = Items(HERE, (0, 0), 31.0)
    items = (Item(Raw(b"k", b"%d:good" % n), is_new=True) for n in range(count))
    batch.items = [*items]
    machine.began(batch)
    return batch


def refusals(batch, code, blame="unknown", sent="answered", **more):
    """Refuse all records of a batch."""
    return [
        Refusal(item, n, for_code(code)(), blame, sent, **more)
        for n, item in enumerate(batch.items)
    ]


def resent(machine, batch, **more):
    """Refuse a batch, and have its records handed over; return them and their batch."""
    machine.failed(batch, refusals(batch, 19, **more), 0.0)
    [send] = [told for told in machine.held("t", 0.0) if isinstance(told, c.Send)]
    again = Items(HERE, (0, 1), 31.0)
    again.items = [Item(record.raw, is_new=False) for record in send.records]
    machine.began(again)
    return send.records, again


def only(kind, commands):
    """Return the only command of a kind."""
    [command] = [each for each in commands if isinstance(each, kind)]
    return command


def record_of(machine, token):
    """Return the record that has failed and is not settled, by its first token."""
    [record] = [each for each in machine._outcomes.open if each.first_token is token]
    return record
