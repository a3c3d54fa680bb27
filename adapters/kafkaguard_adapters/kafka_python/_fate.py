"""What becomes of a record that did not arrive at the first try.

Only such records have one, so that the others cost nothing. It hangs on the client's
own future of the record, where every thread finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._delivery.report import Ledger, Outcome, SetAside
from kafkaguard_adapters.kafka_python._private import reading

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.kafka_python._future import Hook


class Fate(Outcome):
    """A record that is sent again, or has failed for good, or waits for either.

    Args:
        inner: The client's future of the record.
        ledger: Counts the outcomes.

    Attributes:
        inner: The client's future; after it was sent again, the new one.
        was_rescued: It was sent again before.
        hooked: Callbacks of the application, to run in the end.
        order: Its place among the records of its partition, as they were sent at first;
            None until it is sent again.
    """

    __slots__ = ("_ledger", "hooked", "inner", "order", "was_rescued")

    #: Whether it is that of a dead letter, which is in no report.
    is_letter = False

    def __init__(self, inner: Any, ledger: Ledger) -> None:
        super().__init__()
        self.inner = inner
        self.was_rescued = False
        self.order: tuple[tuple[int, ...], int] | None = None
        self.hooked: list[Hook] = []
        self._ledger = ledger

    @property
    def index(self) -> int:
        """The record's place in its batch."""
        return reading.index_of(self.inner)

    @property
    def key_is_null(self) -> bool:
        """Whether the record has no key, after serialisers."""
        return reading.key_is_null(self.inner)

    @property
    def is_decided(self) -> bool:
        """Whether it was sent again, or has failed for good."""
        return self.decided.is_set()

    def original(self, result: Any) -> BaseException:
        """Return the client's own exception, also before its callbacks have run."""
        error = self.inner.exception
        if error is None:
            error = result.value[2](self.index)
        found: BaseException = error
        return found

    def hold(self) -> None:
        """Stay pending: the record is going to be sent again."""
        self.rescued = False
        self.decided.clear()

    def fail(self, error: KafkaGuardError) -> None:
        """Fail for good."""
        self._end(error)
        self._ledger.failed(self)

    def set_aside(self, error: KafkaGuardError, how: SetAside) -> None:
        """Fail for good, dealt with as the policy says: nobody has to look at it."""
        self.seen = True
        self._ledger.set_aside(how)
        self._end(error)

    def _end(self, error: KafkaGuardError) -> None:
        self.error = error
        self.rescued = False
        self.decided.set()

    def follow(self, inner: Any) -> None:
        """Go on with the future of the record that was sent again."""
        self.inner = inner
        self.rescued = self.was_rescued = True
        self.decided.set()

    def hand_over_hooks(self) -> None:
        """Let the new future's outcome run the application's callbacks."""
        hooked, self.hooked = self.hooked, []
        for hook in hooked:
            hook.watch()

    def fire(self) -> None:
        """Run the application's callbacks, now that the record has failed for good."""
        hooked, self.hooked = self.hooked, []
        for hook in hooked:
            hook.fire()


class LetterFate(Fate):
    """The fate of a dead letter: the record that it is about is the one that counts."""

    __slots__ = ()

    is_letter = True

    def __init__(self) -> None:
        super().__init__(None, Ledger())

    def follow(self, inner: Any) -> None:
        """Go on with a future; the first one is no rescue."""
        is_first = self.inner is None
        super().follow(inner)
        self.was_rescued = not is_first


def fate_of(inner: Any) -> Fate | None:
    """Return the fate of a record by the client's future of it, if it has one."""
    value = inner.value
    return value if isinstance(value, Fate) else None
