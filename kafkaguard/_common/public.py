"""Public names: which module users import them from, and loading at the first use."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from inspect import get_annotations
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")


def public(module: str) -> Callable[[T], T]:
    """Make a class or function show the module that users import it from.

    Tracebacks, pickles and the docs name that module instead of the file.

    Args:
        module: The public module, such as ``kafkaguard.errors``.
    """

    def show(value: T) -> T:
        if isinstance(value, type):
            _read_annotations(value)
        if isinstance(value, type | FunctionType):
            value.__module__ = module
        return value

    return show


def _read_annotations(cls: type) -> None:
    """Evaluate a class's annotations while it still names the file that they need."""
    names = vars(sys.modules[cls.__module__])
    annotations = get_annotations(cls)
    for name, text in annotations.items():
        # Names that are imported for type checkers only stay text.
        with suppress(NameError, AttributeError):
            if isinstance(text, str):
                annotations[name] = eval(text, names, {cls.__name__: cls})  # noqa: S307 - our own source
    if annotations:
        cls.__annotations__ = annotations


def exports(module: str, homes: Mapping[str, str], loaded: Iterable[str] = ()) -> None:
    """Export names whose files are loaded at the first use (PEP 562).

    It sets ``__all__``, ``__getattr__`` and ``__dir__`` of the public module. Type
    checkers do not see these, so they report a name that is not there.

    Args:
        module: The public module.
        homes: The modules that define names, each with its names between spaces. A
            module without names is exported itself.
        loaded: Names that the public module has already.
    """
    front = vars(sys.modules[module])
    places = {name: home for home, names in homes.items() for name in names.split()}
    modules = {home.rpartition(".")[2]: home for home in homes if not homes[home]}
    every = sorted({*places, *modules, *loaded})

    def load(name: str) -> Any:
        if name in modules:
            try:
                return import_module(modules[name])
            except ImportError as error:  # an extra is missing; dir() has the name
                raise AttributeError(str(error)) from error
        if name not in places:
            text = f"module {module!r} has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=sys.modules[module])
        home = import_module(places[name])
        for each in homes[places[name]].split():
            front[each] = public(module)(getattr(home, each))
        return front[name]

    front |= {"__all__": every, "__getattr__": load, "__dir__": lambda: every}
