"""Checks of a YAML document before its values are built."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from kafkaguard_policies.model.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkaguard_policies.model.problems import Path

_MOST_LEVELS = 20
_MOST_VALUES = 20_000
_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_OCTAL = re.compile(r"[-+]?0[0-7_]+")

#: Path, the node to point at, and the value's node.
Child = tuple["Path", yaml.Node, yaml.Node]


class UnfitError(Exception):
    """A document that must not be converted to values."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)


def check_depth(text: str) -> None:
    """Refuse a document that is nested too deeply to be composed.

    Raises:
        UnfitError: It has too many levels.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_LEVELS:
            raise UnfitError([_too_deep(event.start_mark)])


def _too_deep(mark: Any) -> Problem:
    return Problem(
        f"is nested more than {_MOST_LEVELS} levels deep (or an anchor holds itself): "
        f"a policy or a pipeline needs four",
        line=mark.line + 1 if mark else None,
    )


def nodes_of(root: yaml.Node) -> list[Child]:
    """Return all nodes below the root, with aliases resolved.

    Raises:
        UnfitError: There are too many nodes or levels, or a key is not text.
    """
    found: list[Child] = []
    for child in _walk(root, ()):
        found.append(child)
        if len(found) > _MOST_VALUES:
            message = f"has more than {_MOST_VALUES} values once aliases are followed"
            raise UnfitError([Problem(message, line=child[1].start_mark.line + 1)])
    problems = [
        *wrong_keys(root, ()),
        *(p for place, _, n in found for p in wrong_keys(n, place)),
    ]
    if problems:
        raise UnfitError(dict.fromkeys(problems))
    return found


def _walk(node: yaml.Node, path: Path) -> Iterator[Child]:
    if len(path) > _MOST_LEVELS:
        raise UnfitError([_too_deep(node.start_mark)])
    for place, marked, value in _children(node, path):
        yield place, marked, value
        yield from _walk(value, place)


def _children(node: yaml.Node, path: Path) -> Iterator[Child]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*path, _name(key)), key, value
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield (*path, index), value, value


def _name(key: Any) -> str:
    return key.value if isinstance(key, yaml.ScalarNode) else f"a {key.id}"


def wrong_keys(node: yaml.Node, path: Path) -> Iterator[Problem]:
    """Find the keys of a mapping that are not text."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, _ in node.value:
        if key.tag not in {_TEXT, _MERGE}:
            message = f"the key {_name(key)!r} is no text: keys are names of settings"
            yield Problem(message, path, key.start_mark.line + 1)


def duplicates(found: Iterable[Child]) -> Iterator[Problem]:
    """Find duplicate keys: YAML would silently use the last one."""
    seen: set[Path] = set()
    twice: set[Path] = set()
    for place, marked, _ in found:
        if place in seen and place[-1] != "<<":
            if twice.isdisjoint(place[:end] for end in range(len(place))):
                line = marked.start_mark.line + 1
                yield Problem("stands twice: keep one", place, line)
            twice.add(place)
        seen.add(place)


def old_numbers(found: Iterable[Child]) -> Iterator[Problem]:
    """Find ``010`` and ``1:30``, which YAML 1.1 reads in base 8 and 60."""
    for place, _, value in found:
        if value.tag in _NUMBERS and (base := _odd_base(value.value)):
            meant = yaml.safe_load(value.value)
            message = (
                f"{value.value} is {meant:g} in YAML, which reads it in base {base}: "
                f"write {_proposed(value.value, meant)}"
            )
            yield Problem(message, place, value.start_mark.line + 1)


def _odd_base(text: str) -> int | None:
    if ":" in text:
        return 60
    return 8 if _OCTAL.fullmatch(text) else None


def _proposed(text: str, meant: float) -> str:
    if ":" in text:
        return f"{meant:g}"
    return f"{int(text)} or {meant:g}"
