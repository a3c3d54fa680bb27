"""YAML as people write settings, and its problems of form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from kafkaguard_policies.model.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkaguard_policies.model.problems import Path

_MOST_VALUES = 20_000
_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_NULL = "tag:yaml.org,2002:null"

#: Path, the node to point at, and the value's node.
Child = tuple["Path", yaml.Node, yaml.Node]


class Loader(yaml.SafeLoader):
    """Reads YAML in which ``on``, ``010``, ``1:30`` and dates are text.

    YAML 1.1 reads the first three as true, 8 and 90.
    """


Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in resolvers if tag in (_NULL, _MERGE)]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, _form, _first in (
    ("bool", r"(?i:true|false|yes|no)", "tTfFyYnN"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?[0-9]*\.[0-9]+(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?i:inf|nan)", "-+."),
):
    Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", re.compile(f"(?:{_form})$"), list(_first)
    )


class UnfitError(Exception):
    """A document that must not be converted to values."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)


def nodes_of(root: yaml.Node) -> list[Child]:
    """Return all nodes below the root, with aliases resolved.

    Raises:
        RecursionError: An anchor holds itself.
        UnfitError: There are too many nodes, or a key is not text.
    """
    children: list[Child] = []
    for child in _walk(root, ()):
        children.append(child)
        if len(children) > _MOST_VALUES:
            message = f"has more than {_MOST_VALUES} values once aliases are followed"
            raise UnfitError([Problem(message, line=child[1].start_mark.line + 1)])
    nodes = [((), root, root), *children]
    problems = [p for path, _, node in nodes for p in _find_wrong_keys(node, path)]
    if problems:
        raise UnfitError(dict.fromkeys(problems))
    return children


def _walk(node: yaml.Node, path: Path) -> Iterator[Child]:
    children: list[Child] = []
    if isinstance(node, yaml.MappingNode):
        children = [((*path, _name(key)), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        children = [((*path, n), value, value) for n, value in enumerate(node.value)]
    for child in children:
        yield child
        yield from _walk(child[2], child[0])


def _name(key: Any) -> str:
    return key.value if isinstance(key, yaml.ScalarNode) else f"a {key.id}"


def _find_wrong_keys(node: yaml.Node, path: Path) -> Iterator[Problem]:
    """Find the keys of a mapping that are not text."""
    if not isinstance(node, yaml.MappingNode):
        return
    for key, _ in node.value:
        if key.tag not in {_TEXT, _MERGE}:
            message = f"the key {_name(key)!r} is not text: keys are names of settings"
            yield Problem(message, path, key.start_mark.line + 1)


def find_duplicates(children: Iterable[Child]) -> Iterator[Problem]:
    """Find duplicate keys: YAML would silently use the last one."""
    paths: set[Path] = set()
    repeated: set[Path] = set()
    for path, marked, _ in children:
        if path in paths and path[-1] != "<<":
            if repeated.isdisjoint(path[:end] for end in range(len(path))):
                line = marked.start_mark.line + 1
                yield Problem("stands twice: keep one", path, line)
            repeated.add(path)
        paths.add(path)
