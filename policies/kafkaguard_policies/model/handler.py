"""The settings of handlers: consumers that handle records."""

from typing import Annotated

from pydantic import Field

from kafkaguard_policies.model.base import Part
from kafkaguard_policies.model.fields import (
    Attempts,
    Duration,
    InMemory,
    Seconds,
    allow_none,
    one_or_more,
)

_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")]
_Names = Annotated[tuple[_Name, ...], one_or_more(_Name)]
_Limit = Annotated[Duration | None, allow_none(Duration)]


class Handler(Part):
    """How ``consumer.process(handler)`` handles records.

    A Kafka error means what its verdict says. Any other exception is judged by its
    class: the most specific name in ``wait_on``, ``reject_on`` or ``retry_on`` decides.
    """

    max_attempts: Attempts = 3
    """How often a record is handled, the first time included."""
    max_age: _Limit = None
    """For how many seconds after its first failure a record is tried again; null (or
    ``none``): only ``max_attempts`` counts."""
    retry_on: _Names = ()
    """Classes of exceptions, as ``OperationalError`` or
    ``sqlalchemy.exc.OperationalError``, after which a record is tried again. So is any
    other, unless it is rejected: a name here saves a class from the name of its base
    class in ``reject_on``."""
    reject_on: _Names = ()
    """Classes of exceptions after which a record is rejected at once. Always, unless
    another name is more specific: ``TypeError``, ``AttributeError``, pydantic's
    ``ValidationError``, and records that cannot be deserialized."""
    wait_on: _Names = ()
    """Classes of exceptions that say that a dependency is down. No attempt is counted:
    reading stops, and the record is tried again after the policy's backoff, until the
    dependency is back."""
    timeout: _Limit = None
    """How many seconds a handler may run. An async handler is cancelled, which counts
    as a failure; one in a thread cannot be, so an event says that it runs longer."""
    commit_interval: Duration = 5.0
    """How many seconds pass between two commits of what is done."""
    max_in_flight: InMemory = 10_000
    """How many records are in memory before reading stops. Records behind one that
    waits for its next attempt have a bound of the same size."""
    drain_timeout: Seconds = 5.0
    """How many seconds running handlers get when partitions are revoked, and when the
    run ends."""
