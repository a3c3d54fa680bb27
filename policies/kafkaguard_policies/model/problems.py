"""Problems of a policy: the place, the mistake, the correction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaguard._common.public import public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pydantic import ValidationError

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a policy.

    Attributes:
        message: What is wrong, and what is allowed.
        path: Where in the document: ``("backoff", "base")``.
        line: The line of the file, counted from 1, or None without a file.
        source: The file, if it is not the policy's own but one that it extends.
    """

    message: str
    path: Path = ()
    line: int | None = None
    source: str | None = None

    def __str__(self) -> str:
        """Return place and message in one line."""
        file = "" if self.source is None else f"{self.source}: "
        line = file if self.line is None else f"{file}line {self.line}: "
        where = "".join(
            f"[{key}]" if isinstance(key, int) else f".{_shown(key)}"
            for key in self.path
        ).lstrip(".")
        return f"{line}{where}: {self.message}" if where else f"{line}{self.message}"


def _shown(key: str) -> str:
    """Quote a key whose spaces or empty text nobody would see."""
    return key if key and key.isprintable() and " " not in key else repr(key)


@public("kafkaguard.errors")
class PolicyError(ValueError):
    """A policy cannot be used as it is written.

    Attributes:
        source: The source: a path, a preset, ``environment``, ``dict``.
        problems: All problems of the policy.
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(
            sorted(problems, key=lambda p: (p.source or "", p.line or 0))
        )
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        """Return all problems, one in each line."""
        match self.problems:
            # Such as a file that cannot be read: the message names the source.
            case [Problem(message, (), None)] if self.source in message:
                return message
        listed = "".join(f"\n  {problem}" for problem in self.problems)
        place = _PLACES.get(self.source, f"in {self.source}")
        return f"the policy {place} cannot be used:{listed}"


#: Where a policy without a name of its own is written.
_PLACES = {
    "dict": "given as a mapping of settings",
    "environment": "in the environment variables",
}


def problems_of(
    error: ValidationError,
    line_of: Callable[[Path], int | None],
    inherited: int = 0,
) -> Iterator[Problem]:
    """Convert pydantic's errors to problems.

    Args:
        error: pydantic's error.
        line_of: Returns the line of a path in the document.
        inherited: The number of inherited overrides before those of the document.
    """
    for item in error.errors():
        path = _own_path(item["loc"], inherited)
        text = item["msg"].removeprefix("Value error, ")
        yield Problem(text, path, line_of(path))


def _own_path(path: Path, inherited: int) -> Path:
    match path:
        case ("overrides", int(index), *rest):
            return ("overrides", index - inherited, *rest)
    return path
