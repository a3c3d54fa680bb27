"""What a handler may raise to say more than that it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._common.arguments import seconds
from kafkaguard._common.public import public

if TYPE_CHECKING:
    from collections.abc import Mapping


@public("kafkaguard")
class Unavailable(Exception):  # noqa: N818 - a state of a dependency, no fault of a record
    """A dependency of the handler is down: wait for it, and try the record again.

    While it lasts, no other record is handled, no attempt is counted, and no record is
    set aside.

    Args:
        message: What is down.
        after: Seconds until the next try. Default: the policy's backoff.

    Raises:
        TypeError: ``after`` is not a number.
        ValueError: ``after`` is not above 0.
    """

    def __init__(self, message: str = "", *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = None if after is None else seconds("Unavailable(): after", after)


@public("kafkaguard")
class BatchError(Exception):
    """Some records of a batch have failed; the others are done.

    Args:
        errors: The exception of each failed record, by its index in the batch.

    Raises:
        TypeError: It is no mapping of exceptions by index.
        ValueError: It is empty.
    """

    def __init__(self, errors: Mapping[int, BaseException]) -> None:
        for index, error in errors.items():
            if not isinstance(index, int) or not isinstance(error, BaseException):
                raise TypeError(
                    "BatchError takes exceptions by the index of their record, not "
                    f"{{{index!r}: {error!r}}}"
                )
        if not errors:
            raise ValueError("BatchError needs the exception of a record at least")
        super().__init__(f"{len(errors)} records of the batch failed")
        self.errors = dict(errors)
