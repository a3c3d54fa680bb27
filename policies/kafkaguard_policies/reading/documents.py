"""YAML and TOML documents, with the line of each value."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from kafkaguard_policies.model.problems import Path, PolicyError, Problem
from kafkaguard_policies.reading.nodes import (
    UnfitError,
    check_depth,
    duplicates,
    nodes_of,
    old_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a file, with their lines.

    Args:
        source: The name of the source for messages.
        content: The values.
        lines: The line of each value, by its path.
        problems: Problems of the document's form.
    """

    source: str
    content: dict[str, Any]
    lines: dict[Path, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def line_of(self, path: Path) -> int | None:
        """Return the line of a value, or of the closest value that contains it."""
        return next(
            (
                self.lines[path[:n]]
                for n in range(len(path), 0, -1)
                if path[:n] in self.lines
            ),
            None,
        )


def parse(text: str, source: str) -> Document:
    """Read a document without problems of form; see ``read_document``.

    Raises:
        PolicyError: It is not well-formed, is not a mapping, or has a key twice.
    """
    document = read_document(text, source)
    if document.problems:
        raise PolicyError(source, document.problems)
    return document


def read_document(text: str, source: str) -> Document:
    """Read a document: TOML if ``source`` ends in ``.toml``, otherwise YAML.

    Raises:
        PolicyError: It is not well-formed, or is not a mapping.
    """
    read = _toml if source.endswith(".toml") else _yaml
    content, lines, problems = read(text, source)
    if not isinstance(content, dict):
        found = "nothing" if content is None else f"a {type(content).__name__}"
        message = f"must be a mapping of settings, not {found}"
        raise PolicyError(source, [Problem(message, line=1)])
    return Document(source, content, lines, problems)


_Read = tuple[Any, dict[Path, int], tuple[Problem, ...]]


def _yaml(text: str, source: str) -> _Read:
    try:
        return _yaml_values(text)
    except UnfitError as error:
        raise PolicyError(source, error.problems) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = "is no text: it holds a character that no text has"
        raise PolicyError(source, [Problem(message, line=line)]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = None if mark is None else mark.line + 1
        said = str(error.problem)
        message = f"is no well-formed YAML: {said}{_hint(said, text, at)}"
        raise PolicyError(source, [Problem(message, line=at)]) from None
    except ValueError as error:
        message = f"holds a value that YAML cannot read: {error}"
        raise PolicyError(source, [Problem(message, line=1)]) from None


def _hint(said: str, text: str, line: int | None) -> str:
    """Return a hint about text that YAML reads differently from people."""
    if "\\t" in said:
        return "; indent with spaces"
    if line is not None and "${" in "".join(text.splitlines()[line - 1 : line]):
        return '; within braces or brackets write "${NAME}" in quotes'
    return ""


def _yaml_values(text: str) -> _Read:
    check_depth(text)
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None, {}, ()
        found = nodes_of(root)
        lines = {place: marked.start_mark.line + 1 for place, marked, _ in found}
        problems = (*duplicates(found), *old_numbers(found))
        return loader.construct_document(root), lines, problems
    finally:
        loader.dispose()


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")


def _toml(text: str, source: str) -> _Read:
    try:
        content = tomllib.loads(text)
    except RecursionError:
        message = "is nested too deeply: a policy or a pipeline needs four levels"
        raise PolicyError(source, [Problem(message, line=1)]) from None
    except ValueError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else 1
        message = f"is no well-formed TOML: {error}"
        raise PolicyError(source, [Problem(message, line=line)]) from None
    return content or None, dict(_toml_lines(text)), ()


def _toml_lines(text: str) -> Iterator[tuple[Path, int]]:
    """Find the lines of keys and tables; values inside inline tables have none."""
    prefix: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            prefix = _dotted(header[2])
            if header[1] == "[[":
                counts[prefix] = counts.get(prefix, -1) + 1
            prefix = _indexed(prefix, counts)
            yield prefix, number
        elif key := _KEY.match(line):
            yield (*prefix, *_dotted(key[1])), number


def _indexed(path: Path, counts: dict[Path, int]) -> Path:
    """Insert the index of the current item after each list in a path."""
    result: list[str | int] = []
    for depth, key in enumerate(path, 1):
        result.append(key)
        if path[:depth] in counts:
            result.append(counts[path[:depth]])
    return tuple(result)


def _dotted(text: str) -> Path:
    return tuple(part.strip().strip("\"'") for part in text.split("."))
