"""Records that can never succeed: raised, set aside as dead letters, or dropped.

``on_reject`` of the policy decides, and its overrides. Only a record that was refused
itself is set aside: not one in doubt, not one that a human has to make way for, and no
dead letter.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafkaguard._retries.machine import CallContext
from kafkaguard._verdicts.verdict import Action
from kafkaguard.errors import (
    ClientConfigurationError,
    ClientStateError,
    KafkaGuardError,
)
from kafkaguard_adapters.kafka_python._fate import Fate
from kafkaguard_adapters.kafka_python._future import GuardedFuture
from kafkaguard_adapters.kafka_python._letters import CLOSED, Letter
from kafkaguard_adapters.kafka_python._private import moving, reading
from kafkaguard_adapters.kafka_python.errors import add_words, errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._retries.machine import OnReject
    from kafkaguard_adapters.kafka_python._letters import Letters
    from kafkaguard_adapters.kafka_python._private.reading import Handed, RawRecord
    from kafkaguard_adapters.kafka_python._session import Session
    from kafkaguard_policies import RetryPolicy

_log = logging.getLogger("kafkaguard.producer")


class Rejects:
    """Does with refused records what the policy says.

    Args:
        session: Whose records they are.
        policy: Says what becomes of them, and where dead letters go.

    Attributes:
        letters: Sends dead letters.
    """

    letters: Letters

    def __init__(self, session: Session, policy: RetryPolicy) -> None:
        self._session = session
        self._policy = policy
        self._warned: set[str] = set()
        self._at_hand: dict[Any, Handed] = {}

    def on_reject(self, error: KafkaGuardError) -> OnReject:
        """Return what the policy does with a record that has failed so."""
        verdict = error.verdict
        if verdict.action is not Action.REJECT or isinstance(error, ClientStateError):
            return "raise"
        context = CallContext(api="Produce", topic=error.topic, client=errors.client)
        ruling = self._policy.ruling(verdict, context, error)
        return ruling.on_reject if ruling.action is Action.REJECT else "raise"

    def refused(self, error: KafkaGuardError, handed: Handed) -> GuardedFuture:
        """Deal with a record that ``send`` refuses.

        Returns:
            The future of a record that is set aside.

        Raises:
            KafkaGuardError: It is not set aside.
        """
        on_reject = self.on_reject(error)
        if on_reject == "raise":
            self._session.teller.rejected(error)
            self._session.teller.tell()
            raise error
        inner = moving.never_sent(handed.topic, handed.partition)
        fate = Fate(inner, self._session.ledger)
        moving.attach(inner, fate)
        with self._keeping(inner, handed):
            self.set_aside(fate, error, None, on_reject)
        self._session.teller.tell()
        return GuardedFuture(inner, self._session.tracker)

    def set_aside(
        self,
        fate: Fate,
        error: KafkaGuardError,
        record: RawRecord | None,
        on_reject: OnReject,
    ) -> bool:
        """Drop a refused record, or begin to send its dead letter.

        Args:
            fate: What the record's sender holds.
            error: Why it was refused.
            record: Its bytes, as far as its batch tells them.
            on_reject: ``"drop"`` or ``"dead_letter"``.

        Returns:
            Whether it has its outcome, so that its callbacks are due.
        """
        self._session.teller.rejected(error, on_reject)
        if on_reject == "drop":
            self._warn(error)
            fate.set_aside(error, "dropped")
            return True
        try:
            letter = self._letter(fate, error, record)
        except Exception as failure:  # noqa: BLE001 - it becomes the record's outcome
            add_words(error, f"no dead letter was sent: {_told(failure)}")
            fate.fail(error)
            return True
        fate.hold()
        if self.letters.add(letter):
            return False
        add_words(error, f"no dead letter was sent: {CLOSED}")
        fate.fail(error)
        return True

    def settle(self, inner: Any, handed: Handed) -> None:
        """Settle a record that has failed, perhaps before it came into any batch."""
        with self._keeping(inner, handed):
            self._session.tracker.settle_failed(inner)

    @contextmanager
    def _keeping(self, inner: Any, handed: Handed) -> Iterator[None]:
        """Keep what ``send`` was given, for a record that is in no batch."""
        self._at_hand[inner] = handed
        try:
            yield
        finally:
            self._at_hand.pop(inner, None)

    def _letter(
        self, fate: Fate, error: KafkaGuardError, record: RawRecord | None
    ) -> Letter:
        assert error.topic is not None
        where = self._policy.dead_letter
        topic = where.topic_for(error.topic)
        if topic == error.topic:
            raise errors.make(
                ClientConfigurationError,
                "dead_letter.topic is the record's own topic, which would refuse it "
                "again: name another one",
                topic=topic,
            )
        return Letter(fate, error, record or self._bytes(fate), topic, where.headers)

    def _bytes(self, fate: Fate) -> RawRecord:
        handed = self._at_hand[fate.inner]
        return reading.serialized(self._session.producer, handed)

    def _warn(self, error: KafkaGuardError) -> None:
        topic = error.topic or ""
        if topic not in self._warned:
            self._warned.add(topic)
            _log.warning(
                "policy %s drops records of topic %s that are refused; the first one "
                "with %s. Later ones are only counted (DeliveryReport.dropped)",
                self._policy.name,
                topic,
                error.name,
            )


def _told(failure: Exception) -> str:
    """Say what happened; the text of an application's exception may hold the record."""
    if isinstance(failure, KafkaGuardError):
        return str(failure)
    return f"its bytes could not be had ({type(failure).__name__})"


def check_policy(policy: RetryPolicy, producer: Any) -> None:
    """Refuse a policy that sets records of transactions aside.

    Raises:
        ClientConfigurationError: It does, and the producer is transactional.
    """
    ways = {policy.on_reject, *(each.on_reject for each in policy.overrides)}
    aside = sorted(way for way in ways if way not in (None, "raise"))
    if aside and producer.config["transactional_id"]:
        raise errors.make(
            ClientConfigurationError,
            f"policy {policy.name} has on_reject {' and '.join(aside)}, and the "
            f"producer is transactional: a refused record fails its whole transaction, "
            f"and its dead letter would be aborted with it; use on_reject: raise",
        )
