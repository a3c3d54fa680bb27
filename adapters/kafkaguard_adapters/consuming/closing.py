"""Calls of a closed consumer: each raises the same error, whatever the client does.

The clients alone raise errors of many classes, or do nothing.
"""

from __future__ import annotations

from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.stand_in import StandIn

#: Calls that read, look up, commit, move a position or change what is read.
_CALLS: Final = (
    "assign",
    "beginning_offsets",
    "commit",
    "commit_async",
    "committed",
    "end_offsets",
    "incremental_assign",
    "incremental_unassign",
    "offsets_for_times",
    "pause",
    "poll",
    "resume",
    "seek",
    "seek_to_beginning",
    "seek_to_end",
    "subscribe",
    "topics",
    "unassign",
    "unsubscribe",
)


def refuse_calls(
    consumer: StandIn,
    make: Callable[[str], KafkaGuardError],
    more: Iterable[str] = (),
) -> None:
    """Let the calls of a closed consumer raise ``ClientClosedError``.

    Listeners may still commit while the client closes, so this comes afterwards.
    Coroutine functions are left out: they check this themselves.

    Args:
        consumer: The guarded consumer.
        make: Makes the error; its argument is what the call did not do.
        more: Names of other methods that do not work any more.
    """
    for name in (*_CALLS, *more):
        call = getattr(type(consumer.client), name, None)
        if call is not None and not iscoroutinefunction(call):
            vars(consumer)[name] = partial(_refuse, make, name)


def _refuse(
    make: Callable[[str], KafkaGuardError], name: str, *_: Any, **__: Any
) -> NoReturn:
    raise make(f"{name}() did nothing")
