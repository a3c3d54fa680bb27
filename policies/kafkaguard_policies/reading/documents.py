"""YAML and TOML documents, with the line of each value of a YAML document."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

import yaml

from kafkaguard_policies.model.problems import Path, PolicyError, Problem
from kafkaguard_policies.reading.nodes import (
    Loader,
    UnfitError,
    find_duplicates,
    nodes_of,
)


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
        parents = (path[:n] for n in range(len(path), 0, -1))
        return next((self.lines[each] for each in parents if each in self.lines), None)


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
    read = _read_toml if source.endswith(".toml") else _read_yaml
    content, lines, problems = read(text, source)
    if not isinstance(content, dict):
        kind = "nothing" if content is None else f"a {type(content).__name__}"
        message = f"must be a mapping of settings, not {kind}"
        raise PolicyError(source, [Problem(message, line=1)])
    return Document(source, content, lines, problems)


_Read = tuple[Any, dict[Path, int], tuple[Problem, ...]]


def _read_yaml(text: str, source: str) -> _Read:
    try:
        return _read_yaml_values(text)
    except UnfitError as error:
        raise PolicyError(source, error.problems) from None
    except RecursionError:
        raise PolicyError(source, [_TOO_DEEP]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = "is not text: it contains a control character"
        raise PolicyError(source, [Problem(message, line=line)]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = None if mark is None else mark.line + 1
        why = str(error.problem)
        message = f"is not well-formed YAML: {why}{_hint(why, text, at)}"
        raise PolicyError(source, [Problem(message, line=at)]) from None
    except ValueError as error:
        message = f"contains a value that YAML cannot read: {error}"
        raise PolicyError(source, [Problem(message, line=1)]) from None


_TOO_DEEP = Problem("is nested too deeply: a policy or a pipeline needs four levels")


def _hint(why: str, text: str, line: int | None) -> str:
    """Return a hint about text that YAML reads differently from people."""
    if "\\t" in why:
        return "; indent with spaces"
    if line is not None and "${" in "".join(text.splitlines()[line - 1 : line]):
        return '; within braces or brackets write "${NAME}" in quotes'
    return ""


def _read_yaml_values(text: str) -> _Read:
    loader = Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None, {}, ()
        nodes = nodes_of(root)
        lines = {path: marked.start_mark.line + 1 for path, marked, _ in nodes}
        return loader.construct_document(root), lines, tuple(find_duplicates(nodes))
    finally:
        loader.dispose()


def _read_toml(text: str, source: str) -> _Read:
    try:
        return tomllib.loads(text) or None, {}, ()
    except RecursionError:
        raise PolicyError(source, [_TOO_DEEP]) from None
    except ValueError as error:
        match = re.search(r"at line (\d+)", str(error))
        line = int(match[1]) if match else None
        message = f"is not well-formed TOML: {error}"
        raise PolicyError(source, [Problem(message, line=line)]) from None
