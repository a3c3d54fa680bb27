"""Faults from a YAML file.

Each entry of ``faults`` selects requests (``on``, ``topic`` ...) and names one action
(``fail``, ``delay`` ...) with its main argument. The action's other arguments are keys
of the same entry.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from kafkaguard.testing.proxy.language import (
    FaultSpecError,
    SelectedRequests,
    unknown,
    when,
)
from kafkaguard_policies.model.problems import PolicyError
from kafkaguard_policies.reading.documents import Document, parse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kafkaguard.testing.proxy.actions import CountedFault

_FOR_ALL: Final = ("rate", "seed")
#: The arguments of ``when``, except those that take a function.
_CHOICES: Final = (
    "on",
    *(set(inspect.signature(when).parameters) - {"add", "api", "where"}),
)
#: The methods of the language, except those that take a function.
_ACTIONS: Final = tuple(
    name
    for name, method in vars(SelectedRequests).items()
    if inspect.isfunction(method) and not name.startswith("_") and name != "edit"
)


def read_faults(
    file: Path, *, rate: float | None = None, seed: int | None = None
) -> list[CountedFault]:
    """Read the faults of a file.

    Args:
        file: The YAML file.
        rate: The share of requests, for faults without their own; overrides the file's.
        seed: Makes choices repeatable, for the same faults; overrides the file's.

    Raises:
        FaultSpecError: The file is wrong; the text has, for each wrong fault, file,
            line, the wrong word and the closest right one.
        OSError: The file cannot be read.
    """
    try:
        document = parse(file.read_text(), str(file))
    except PolicyError as error:
        problem = error.problems[0]
        raise FaultSpecError(f"{file}:{problem.line or 1}: {problem}") from None
    _check_words(document, (), document.content, ("faults", *_FOR_ALL))
    entries = document.content.get("faults")
    if not isinstance(entries, list):
        raise _error(document, ("faults",), "expected the key 'faults' with a list")
    overrides = {"rate": rate, "seed": seed}
    common = {name: document.content.get(name) for name in _FOR_ALL}
    common |= {name: value for name, value in overrides.items() if value is not None}
    faults, problems = [], []
    for number, entry in enumerate(entries):
        try:
            faults.append(_fault(document, number, entry, common))
        except FaultSpecError as error:
            problems.append(str(error))
    if problems:
        raise FaultSpecError("\n".join(problems))
    return faults


def _fault(
    document: Document, number: int, entry: Any, common: dict[str, Any]
) -> CountedFault:
    place = ("faults", number)
    if not isinstance(entry, dict) or not entry:
        raise _error(document, place, f"fault {number + 1} is not a mapping")
    action_names = [word for word in entry if word in _ACTIONS]
    if not action_names:
        every = (each for name in _ACTIONS for each in _parameters(name)[1])
        _check_words(document, place, entry, (*_CHOICES, *_ACTIONS, *every))
        text = f"no action is named; name one of: {', '.join(_ACTIONS)}"
        raise _error(document, place, text)
    action = action_names[0]
    if len(action_names) > 1:
        text = f"one fault does one thing, not {' and '.join(action_names)}"
        raise _error(document, (*place, action_names[1]), text)
    main_name, beside = _parameters(action)
    _check_words(document, place, entry, (*_CHOICES, *beside, action))
    arguments = {word: entry[word] for word in entry if word in beside}
    if main_name is not None:
        arguments[main_name] = entry[action]
    # Each fault gets another seed; otherwise all would choose the same requests.
    seed = {} if common["seed"] is None else {"seed": common["seed"] + number}
    selection = {"rate": common["rate"] or 1.0, **seed}
    selection |= {word: entry[word] for word in entry if word in _CHOICES}
    try:
        selected = when(lambda fault: fault, selection.pop("on", None), **selection)
        fault: CountedFault = getattr(selected, action)(**arguments)
    except FaultSpecError as error:
        raise _error(document, (*place, action), error) from error
    return fault


def _check_words(
    document: Document,
    place: tuple[str | int, ...],
    words: Iterable[str],
    allowed: tuple[str, ...],
) -> None:
    for word in words:
        if word not in allowed:
            raise _error(document, (*place, word), unknown("word", word, allowed))


def _error(
    document: Document, place: tuple[str | int, ...], text: object
) -> FaultSpecError:
    line = document.line_of(place) or 1
    return FaultSpecError(f"{document.source}:{line}: {text}")


def _parameters(action: str) -> tuple[str | None, list[str]]:
    """Return the name of an action's main argument, or None, and the other names."""
    signature = inspect.signature(getattr(SelectedRequests, action))
    keyword = inspect.Parameter.KEYWORD_ONLY
    positional = [name for name, p in signature.parameters.items() if p.kind != keyword]
    by_name = [name for name, p in signature.parameters.items() if p.kind == keyword]
    return (positional[1] if len(positional) > 1 else None), by_name
