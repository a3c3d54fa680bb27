"""Sends through a subclass of ``KafkaProducer`` that has a ``send`` of its own.

This ``send`` may take any arguments, so only the client's buffer shows which record it
sends. So records are checked when they enter the buffer: for a null key, and for a held
topic.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError
from kafka.producer.future import FutureRecordMetadata

from kafkaguard._delivery.facts import Place
from kafkaguard._errors import KafkaGuardError
from kafkaguard_adapters.kafka_python._private import moving
from kafkaguard_adapters.kafka_python.future import GuardedFuture
from kafkaguard_adapters.kafka_python.sending import Sending, check_partition

if TYPE_CHECKING:
    from kafkaguard._delivery.facts import Raw

#: Waits for a hold of all topics only: a topic's name has at least one character.
_ANY = ""


class OwnSending(Sending):
    """Passes calls to a client whose class has a ``send`` of its own."""

    __slots__ = ("__weakref__",)

    def send(self, *args: Any, **kwargs: Any) -> Any:
        """Call the client's ``send``.

        Args:
            args: Arguments of the client's ``send``.
            kwargs: Arguments of the client's ``send``, by name.

        Returns:
            The result of the client's ``send``. A future of kafka-python is replaced by
            a guarded future.

        Raises:
            InvalidRecordKeyError: A record has no key and its topic is compacted.
            KafkaGuardError: The client raised another error. The error also has the
                client's class.
        """
        me = get_ident()
        outer = self.under_way.get(me)  # a serialiser or a log handler may send as well
        try:
            if None in self.machine.holds:
                self._wait_while_held(me, _ANY, None)
            producer = self.shell.producer
            future = producer.send(*args, **kwargs)
        except KafkaGuardError:
            raise
        except (KafkaError, RuntimeError) as error:  # a dying client raises both
            self.under_way[me] = outer
            if self._is_replaced(producer):
                return self.send(*args, **kwargs)
            if not isinstance(error, KafkaError):
                raise
            first = args[0] if args else kwargs.get("topic")
            record_error = self.fail_send(error, str(first))
            self.driver.raised(record_error)
            raise record_error from error
        finally:
            self.under_way[me] = outer
        if not isinstance(future, FutureRecordMetadata):
            return future
        if future.is_done and future.failed():  # maybe before it was in any batch
            self.shell.report_early(future)
        return GuardedFuture(future, self.driver)

    def check_appends_of(self, producer: Any) -> None:
        """Check every record that enters the client's buffer."""
        method_of = weakref.WeakMethod(self.check_record)

        def check_record(topic: str, partition: int, raw: Raw) -> Any:
            this = method_of()  # the client's thread must not keep the guard alive
            return None if this is None else this(topic, partition, raw)

        moving.check_appends(producer, check_record)

    def check_record(self, topic: str, partition: int, raw: Raw) -> Any:
        """Check a record before it enters the client's buffer.

        Returns:
            None if the record may enter. If the policy dead-letters or drops it, its
            future.

        Raises:
            InvalidRecordKeyError: The record has no key and its topic is compacted.
            TypeError: The partition is not a whole number.
        """
        check_partition(partition)
        if self.driver.is_own_thread():  # records that are sent again ignore holds
            return None
        me = get_ident()
        self.under_way[me] = topic  # before the check for holds, so that a hold waits
        if self.machine.holds:
            self._wait_while_held(me, topic, None)
        if raw.key is not None or topic in self.null_keys_allowed:
            return None
        app_calls = self.driver.app_calls
        record_error = self.null_keys.error_of(app_calls, topic, None, raw.headers)
        if record_error is None:
            return None
        self.transactions.spoil(record_error)
        return self._apply_on_reject(record_error, Place(topic, partition), lambda: raw)
