"""A callable that keeps the arguments of its calls, and runs no Python code.

confluent-kafka calls a logger inside ``poll`` and ``flush``. Ctrl-C strikes when Python
code begins to run, so mostly in there; the client loses the exception, and raises a
SystemError. Code in C is safe: for a callback with one argument ``deque.append``, and
for a logger, which gets five, a cache of the interpreter:

1. The client calls ``record``. The cache keeps the arguments as the key of an entry.
2. The poll ends. Who has polled sees that ``unread`` is not empty.
3. They read each entry and delete it, so that the next equal call makes a new one. An
   equal call before that makes none; the cache counts it.
"""

from __future__ import annotations

import gc
from functools import lru_cache
from typing import Any


class RecordedCalls:
    """The calls of a function that does nothing, until they are deleted.

    Attributes:
        record: The function; it takes any positional arguments.
        unread: The arguments of each call as keys, the oldest first. Equal calls are
            one.
    """

    def __init__(self) -> None:
        self.record = lru_cache(maxsize=None)("".format)
        self.unread: dict[tuple[Any, ...], str]
        (self.unread,) = (
            each
            for each in gc.get_referents(self.record)
            if type(each) is dict and not each
        )
        self._equal_calls = 0

    def had_equal_calls(self) -> bool:
        """Return whether there were equal calls since this was asked last."""
        before, self._equal_calls = self._equal_calls, self.record.cache_info().hits
        return self._equal_calls != before
