"""Calls of ``send`` of a subclass of ``KafkaProducer``.

It gets exactly what the caller gave, so only what comes into the client's buffer in the
end tells which record it sends. There it is looked at: null key, and held topics.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError
from kafka.producer.future import FutureRecordMetadata

from kafkaguard._delivery.facts import Place
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.kafka_python._private import moving
from kafkaguard_adapters.kafka_python.future import GuardedFuture
from kafkaguard_adapters.kafka_python.sending import Sending

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Raw

#: A topic's name has at least one character, so only a hold of all topics is meant.
_ANY = ""


class OwnSending(Sending):
    """Hands calls to a client whose class has a ``send`` of its own."""

    __slots__ = ("__weakref__",)

    def send(self, *args: Any, **kwargs: Any) -> Any:
        """Call the client's ``send``.

        Args:
            args: What it takes.
            kwargs: What it takes.

        Returns:
            What it returns; a future has the guard's outcome.

        Raises:
            InvalidRecordKeyError: It sends a record without a key to a compacted topic.
            KafkaGuardError: What else the client raises, also of its own class.
        """
        me = get_ident()
        try:
            if None in self.machine.holds:
                self._wait_while_held(me, _ANY, None)
            producer = self.shell.producer
            made = producer.send(*args, **kwargs)
        except KafkaGuardError:
            raise
        except (KafkaError, RuntimeError) as error:  # a dying client raises both
            self.under_way.pop(me, None)
            if self._is_replaced(producer):
                return self.send(*args, **kwargs)
            if not isinstance(error, KafkaError):
                raise
            first = args[0] if args else kwargs.get("topic")
            refusal = self.refusal_of(error, str(first))
            self.driver.raised(refusal)
            raise refusal from error
        finally:
            self.under_way.pop(me, None)
        if not isinstance(made, FutureRecordMetadata):
            return made
        if made.is_done and made.failed():  # perhaps before it came into any batch
            self.shell.look(made)
        return GuardedFuture(made, self.driver)

    def follow(self, producer: Any) -> None:
        """Look at every record that comes into the client's buffer."""
        look = weakref.WeakMethod(self.kept_out)

        def kept_out(topic: str, partition: int, raw: Raw) -> Any:
            this = look()  # the client's thread must not keep the guard alive
            return None if this is None else this(topic, partition, raw)

        moving.look_at_appends(producer, kept_out)

    def kept_out(self, topic: str, partition: int, raw: Raw) -> Any:
        """Look at a record on its way into the client's buffer.

        Returns:
            The future of one that the policy sets aside; None: it may pass.

        Raises:
            InvalidRecordKeyError: It has no key, and its topic is compacted.
        """
        if self.driver.is_own_thread():  # what is sent again passes every hold
            return None
        me = get_ident()
        self.under_way[me] = topic  # before the look, so that a hold waits for it
        if self.machine.holds:
            self._wait_while_held(me, topic, None)
        if raw.key is not None or topic in self.harmless:
            return None
        refusal = self._checked(topic, None, raw.headers) if self.checks_keys else None
        if refusal is None:
            return None
        self.transactions.refused_at_once(refusal)
        return self._set_aside(refusal, Place(topic, partition), lambda: raw)
