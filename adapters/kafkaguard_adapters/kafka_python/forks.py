"""A producer in a forked child: its thread is gone, its connections are shared."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from kafkaguard._delivery.report import ForkedProducerError
from kafkaguard._verdicts.classification import classify
from kafkaguard.errors import ClientClosedError
from kafkaguard_adapters.kafka_python._private import moving
from kafkaguard_adapters.kafka_python.errors import errors

if TYPE_CHECKING:
    from kafkaguard_adapters.kafka_python.building import Builder
    from kafkaguard_adapters.kafka_python.sending import Sending
    from kafkaguard_adapters.kafka_python.shell import KafkaPythonShell


class Forked(Protocol):
    """The guarded producer, as far as a fork concerns it."""

    _builder: Builder
    _sending: Sending
    _shell: KafkaPythonShell

    def _begin(self, producer: Any) -> None:
        """Start with another producer and nothing on its way."""


class ForkGuard:
    """Stops a producer in a child process, or lets it build one of its own.

    Args:
        guarded: The producer.
    """

    def __init__(self, guarded: Forked) -> None:
        self._guarded = weakref.ref(guarded)
        self._lock = threading.Lock()
        _LIVE.add(self)

    def is_forked(self) -> bool:
        """Tell whether this process is a child that has no producer yet."""
        guarded = self._guarded()
        return guarded is not None and guarded._sending.wait == self.in_child  # noqa: SLF001 - a part of it

    def pass_by(self) -> None:
        """Do what a child has to do before it uses the producer."""
        if self.is_forked():
            self.in_child()

    def after_fork(self) -> None:
        """In the child: leave the parent's connections alone."""
        guarded = self._guarded()
        if guarded is None:
            return
        producer = guarded._shell.producer  # noqa: SLF001 - a part of it
        moving.disown(producer)
        _PARENTS.append(producer)
        self._lock = threading.Lock()
        guarded._sending.hold_all(self.in_child)  # noqa: SLF001 - a part of it

    def in_child(self, *_: object) -> None:
        """Build a producer of the child's own, or say that it must do so.

        Raises:
            ForkedProducerError: It is not known how to build one.
        """
        guarded = self._guarded()
        if guarded is None:
            return
        builder = guarded._builder  # noqa: SLF001 - a part of it
        if not builder.was_given:
            raise errors.make(
                ForkedProducerError,
                "this producer was made before fork(), and its thread is not in this "
                f"process ({os.getpid()}): build it after the fork, or use "
                "guard(factory=KafkaProducer, config={...})",
                verdict=classify(ClientClosedError("not in this process")),
            )
        with self._lock:
            if self.is_forked():
                guarded._begin(builder.build())  # noqa: SLF001 - a part of it


_LIVE: weakref.WeakSet[ForkGuard] = weakref.WeakSet()
#: Producers of the parent process, kept so that none is closed by garbage collection.
_PARENTS: list[Any] = []


def _mark_forked() -> None:
    for guard in list(_LIVE):
        guard.after_fork()


os.register_at_fork(after_in_child=_mark_forked)
