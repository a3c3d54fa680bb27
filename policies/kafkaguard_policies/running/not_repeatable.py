"""Callables that cannot be retried, and why."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, NoReturn

#: Lazy results: their work, and its errors, happen after the guarded call.
LAZY = frozenset({AsyncGeneratorType, CoroutineType, GeneratorType})


def raise_lazy(result: Any, fn: Any) -> NoReturn:
    """Raise for a function that returned a lazy result.

    Raises:
        TypeError: Always.
    """
    if isinstance(result, CoroutineType):
        result.close()
        raise TypeError(f"{name_of(fn)} is a coroutine function: await policy.acall()")
    raise_generator(fn)


def raise_generator(fn: Any) -> NoReturn:
    """Raise for a generator function.

    Raises:
        TypeError: Always.
    """
    raise TypeError(
        f"{name_of(fn)} is a generator: calling it does nothing yet, and what it has "
        f"yielded cannot be taken back, so it cannot be tried again; guard what it "
        f"calls for each item"
    )


def check_callable(fn: Any) -> None:
    """Check that an object can be decorated.

    Raises:
        TypeError: It is not a function, or the object that ``@classmethod`` makes of
            one.
    """
    if isinstance(fn, classmethod | staticmethod):
        raise TypeError(
            f"{name_of(fn.__func__)} is a {type(fn).__name__} object, which is called "
            f"through its class: put @retry below @{type(fn).__name__}, next to def"
        )
    if not callable(fn):
        raise TypeError(
            f"retry() decorates functions and coroutine functions, not {fn!r}; to call "
            f"something else use policy.call(...)"
        )


def raise_timeout(fn: Any) -> NoReturn:
    """Raise for ``attempt_timeout`` of a plain function.

    Raises:
        TypeError: Always.
    """
    raise TypeError(
        f"{name_of(fn)} is a plain function, which nothing can stop once it runs: "
        f"leave attempt_timeout out of the policy and set the client's own timeout, "
        f"or use a coroutine function"
    )


def check_hooks(hooks: Any) -> tuple[Any, ...]:
    """Return the hooks.

    Raises:
        TypeError: They are not a sequence of callables.
    """
    if isinstance(hooks, str | bytes) or not isinstance(hooks, Iterable):
        raise TypeError(f"hooks is a list of callables: [hook], not {hooks!r}")
    checked = tuple(hooks)
    for hook in checked:
        if not callable(hook):
            raise TypeError(f"a hook is called with each event, and {hook!r} cannot be")
    return checked


def is_generator(fn: Any) -> bool:
    """Return whether calling ``fn`` makes a generator."""
    return inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)


def name_of(fn: Any) -> str:
    """Return the name of a function for messages."""
    return getattr(fn, "__qualname__", None) or repr(fn)
