"""Faults from a YAML file.

Each entry of ``faults`` selects requests (``on``, ``topic`` ...) and names one action
(``fail``, ``delay`` ...) with its main argument. The action's other arguments are keys
of the same entry.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from kafkaguard.testing.proxy import yaml_words
from kafkaguard.testing.proxy.language import SelectedRequests, when
from kafkaguard.testing.proxy.names import FaultSpecError, unknown

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaguard.testing.proxy.faults import CountedFault
    from kafkaguard.testing.proxy.yaml_words import Word

_NUMBER: Final = (int, float)
_FOR_ALL: Final[dict[str, tuple[type, ...]]] = {"rate": _NUMBER, "seed": (int,)}
_CHOICES: Final[dict[str, tuple[type, ...]]] = {
    "on": (str, list),
    "topic": (str,),
    "partition": (int,),
    "broker": (int,),
    "client_id": (str,),
    "nth": (int,),
    "skip": (int,),
    **_FOR_ALL,
}
_ARGUMENTS: Final[dict[str, tuple[type, ...]]] = {
    "at": (str,),
    "before": (bool,),
    "code": (int, str),
    "keep": (int,),
    "max_version": (int,),
    "message": (str,),
    "min_version": (int,),
    "records": (list,),
    "seconds": _NUMBER,
    "times": (int,),
    "written": (bool,),
}
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
        FaultSpecError: The file is wrong; the text has file, line, the wrong word and
            the closest right one.
        OSError: The file cannot be read.
    """
    words = {word.key: word for word in yaml_words.read(file)}
    for word in words.values():
        if word.key not in ("faults", *_FOR_ALL):
            raise word.error(unknown("word", word.key, ("faults", *_FOR_ALL)))
    common = {name: _typed(words[name], _FOR_ALL) for name in _FOR_ALL if name in words}
    given = {"rate": rate, "seed": seed}
    common |= {name: value for name, value in given.items() if value is not None}
    return [
        _fault(entry, _of_its_own(common, number))
        for number, entry in enumerate(_entries(words.get("faults"), file))
    ]


def _entries(faults: Word | None, file: Path) -> list[tuple[Word, ...]]:
    entries = None if faults is None else faults.value
    if not isinstance(entries, list):
        raise FaultSpecError(f"{file}:1: expected the key 'faults' with a list")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, tuple) or not entry:
            raise FaultSpecError(f"{file}: fault {number} is not a mapping")
    return entries


def _of_its_own(common: dict[str, Any], number: int) -> dict[str, Any]:
    """Give each fault another seed; otherwise all would choose the same requests."""
    seed = {"seed": common["seed"] + number} if "seed" in common else {}
    return {**common, **seed}


def _fault(words: tuple[Word, ...], common: dict[str, Any]) -> CountedFault:
    action = _action(words)
    own, beside = _parameters(action.key)
    chosen, arguments = dict(common), {}
    for word in words:
        if word.key in _CHOICES:
            name = "api" if word.key == "on" else word.key
            chosen[name] = _typed(word, _CHOICES)
        elif word.key in beside:
            arguments[word.key] = _typed(word, _ARGUMENTS)
        elif word is not action:
            known = (*_CHOICES, *beside, *_ACTIONS)
            raise word.error(unknown("word", word.key, known))
    if own is not None:
        arguments[own] = _typed(action, {action.key: _ARGUMENTS[own]})
    made: list[CountedFault] = []
    try:
        getattr(when(_keep_in(made), **chosen), action.key)(**arguments)
    except FaultSpecError as error:
        raise action.error(error) from error
    return made[0]


def _keep_in(made: list[CountedFault]) -> Any:
    def keep(fault: CountedFault) -> CountedFault:
        made.append(fault)
        return fault

    return keep


def _action(words: tuple[Word, ...]) -> Word:
    found = [word for word in words if word.key in _ACTIONS]
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(word.key for word in found)
        raise found[1].error(f"one fault does one thing, not {names}")
    for word in words:
        if word.key not in _CHOICES and word.key not in _ARGUMENTS:
            raise word.error(unknown("word", word.key, (*_CHOICES, *_ACTIONS)))
    raise words[0].error(f"no action is named; name one of: {', '.join(_ACTIONS)}")


def _parameters(action: str) -> tuple[str | None, list[str]]:
    """Return the name of an action's main argument, or None, and the other names."""
    signature = inspect.signature(getattr(SelectedRequests, action))
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [name for name, p in signature.parameters.items() if p.kind != keyword]
    beside = [name for name, p in signature.parameters.items() if p.kind == keyword]
    return (own[1] if len(own) > 1 else None), beside


def _typed(word: Word, types: dict[str, tuple[type, ...]]) -> Any:
    expected = types[word.key]
    wrong_bool = isinstance(word.value, bool) and bool not in expected
    if isinstance(word.value, expected) and not wrong_bool:
        return word.value
    names = " or ".join(kind.__name__ for kind in expected)
    raise word.error(f"{word.key!r} is {names}, not {word.value!r}")
