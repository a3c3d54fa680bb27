"""YAML values with their line numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from kafkaguard.testing.proxy.names import FaultSpecError

if TYPE_CHECKING:
    from pathlib import Path


class _Loader(yaml.SafeLoader):
    """Reads YAML in which ``on`` is text, not true."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, known) for tag, known in resolvers if not tag.endswith(":bool")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf")
)


@dataclass(frozen=True, slots=True)
class Word:
    """A key of a mapping, with its value.

    Attributes:
        key: The key.
        value: A scalar, a list, or, for a mapping, a tuple of words.
        place: The file and the line of the key.
    """

    key: str
    value: Any
    place: str

    def error(self, text: object) -> FaultSpecError:
        """Return the error with the file and the line."""
        return FaultSpecError(f"{self.place}: {text}")


def read(file: Path) -> tuple[Word, ...]:
    """Read a file that contains a mapping.

    Raises:
        FaultSpecError: It contains something else, or a mapping has a key twice.
        OSError: The file cannot be read.
    """
    loader = _Loader(file.read_text())
    try:
        words = _value(loader.get_single_node(), loader, file)
    except yaml.YAMLError as error:
        raise FaultSpecError(f"{file}: this is not YAML: {error}") from error
    finally:
        loader.dispose()
    if not isinstance(words, tuple):
        raise FaultSpecError(f"{file}:1: expected the key 'faults' with a list")
    return words


def _value(node: Any, loader: Any, file: Path) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_value(each, loader, file) for each in node.value]
    if not isinstance(node, yaml.MappingNode):
        return None if node is None else loader.construct_object(node)
    words: dict[str, Word] = {}
    for key, value in node.value:
        place = f"{file}:{key.start_mark.line + 1}"
        word = Word(str(key.value), _value(value, loader, file), place)
        if word.key in words:
            raise word.error(f"{word.key!r} appears twice")
        words[word.key] = word
    return tuple(words.values())
