"""``load_policy``: from a preset, a file, a mapping or the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kafkaguard._common.closest import did_you_mean
from kafkaguard._common.files import kind_of
from kafkaguard_policies.model.problems import PolicyError, Problem, problems_of
from kafkaguard_policies.reading.documents import Document, read_document
from kafkaguard_policies.reading.environment import name_variables, read_environment
from kafkaguard_policies.retry_policy import RetryPolicy

_PRESETS = files("kafkaguard_policies") / "presets"
_MAX_DEPTH = 10
#: A policy has a few kilobytes; a larger file is another kind of file.
MOST_BYTES = 1024 * 1024
#: How the names of policy files end.
ENDINGS = (".yaml", ".yml", ".toml")


def presets() -> tuple[str, ...]:
    """Return the names of the presets."""
    return tuple(sorted(p.name.removesuffix(".yaml") for p in _PRESETS.iterdir()))


def preset_text(name: str) -> str:
    """Return the commented file of a preset.

    Raises:
        PolicyError: There is no such preset.
    """
    if name not in presets():
        hint = did_you_mean(name, presets()) or "."
        message = (
            f"there is no preset {name!r}{hint} The presets are "
            f"{', '.join(presets())}; a file's name ends in .yaml, .yml or .toml"
        )
        raise PolicyError(f"preset {name!r}", [Problem(message)])
    return (_PRESETS / f"{name}.yaml").read_text(encoding="utf-8")


def load_policy(source: RetryPolicy | Mapping[str, Any] | str | Path) -> RetryPolicy:
    """Load a policy.

    Args:
        source: The name of a preset (``"default"``); the path of a ``.yaml``, ``.yml``
            or ``.toml`` file; a mapping; ``"env"`` for the environment
            (``KAFKAGUARD_POLICY`` and ``KAFKAGUARD_POLICY_...``); or a policy, which is
            returned unchanged. A file or mapping may have ``extends``: a preset, or a
            file next to it, whose settings apply where it has none.

    Raises:
        PolicyError: The policy cannot be read or is not valid; the message has file,
            line, path and what is allowed, for all problems at once.
        TypeError: ``source`` is none of these.
    """
    if isinstance(source, RetryPolicy):
        return source
    if source == "env":
        try:
            return _build(read_environment(), None)
        except PolicyError as error:
            raise name_variables(error) from None
    if isinstance(source, Mapping):
        return _build(Document("dict", dict(source)), None)
    if isinstance(source, str | Path):
        return _build(*_read(str(source), None))
    raise TypeError(
        f"a policy is a preset's name, a path, a mapping or a RetryPolicy, "
        f"not {type(source).__name__}"
    )


def _read(source: str, folder: Path | None) -> tuple[Document, Path | None]:
    """Read a file or a preset; return it with the folder for ``extends``."""
    if not source.endswith(ENDINGS):
        _check_ending(source, folder or Path())
        return _read_preset(source), None
    path = (folder or Path()) / source
    return read_document(read_text(path), str(path)), path.parent


def read_text(path: Path) -> str:
    """Read a policy file.

    Raises:
        PolicyError: The file does not exist, is not a regular file, has more than 1
            MiB, or is not UTF-8.
    """
    try:
        content = _read_bytes(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"{path} cannot be read: {reason}"
        raise PolicyError(str(path), [Problem(message)]) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = "is not UTF-8: save it as UTF-8"
        raise PolicyError(str(path), [Problem(message, line=line)]) from None


def _read_bytes(path: Path) -> bytes:
    if path.exists() and not path.is_file():  # a pipe would block
        raise OSError("it is not a regular file")
    if (size := path.stat().st_size) > MOST_BYTES:
        raise OSError(f"it has {size} bytes, and a policy at most {MOST_BYTES}")
    return path.read_bytes()


@cache
def _read_preset(name: str) -> Document:
    """Read a preset once, because parsing is slow."""
    return read_document(preset_text(name), f"preset {name!r}")


def _check_ending(source: str, folder: Path) -> None:
    """Raise an error for a file with another ending; presets have no dot or folder."""
    if source and source not in presets() and kind_of(folder / source) == "folder":
        message = f"{source!r} is a directory: name a file, or a preset"
        raise PolicyError(source, [Problem(f"{message}: {', '.join(presets())}")])
    if Path(source).suffix or os.sep in source:
        message = (
            f"a policy file's name ends in .yaml, .yml or .toml, and {source!r} does "
            f"not: rename it (without ending it would be a preset: "
            f"{', '.join(presets())})"
        )
        raise PolicyError(source, [Problem(message)])


def _build(document: Document, folder: Path | None) -> RetryPolicy:
    """Check a document that may extend others."""
    return RetryPolicy.model_validate(_settings(document, folder, 1))


def _settings(document: Document, folder: Path | None, depth: int) -> dict[str, Any]:
    """Return the settings of a document with those that it inherits, checked."""
    own = dict(document.content)
    problems = list(document.problems)
    base: dict[str, Any] = {}
    try:
        base = _inherit(document, own.pop("extends", None), folder, depth)
    except PolicyError as error:
        problems.extend(_name_file(error, document.source))
    settings = _merge(base, own)
    try:
        RetryPolicy.model_validate(settings)
    except ValidationError as error:
        inherited = len(base.get("overrides") or ())
        problems.extend(problems_of(error, document.line_of, inherited))
    if problems:
        raise PolicyError(document.source, problems)
    return settings


def _name_file(error: PolicyError, reader: str) -> Iterator[Problem]:
    """Add the file's name to each problem of an extended file."""
    for problem in error.problems:
        own = error.source == reader or problem.source
        yield problem if own else replace(problem, source=error.source)


def _inherit(
    document: Document, parent: Any, folder: Path | None, depth: int
) -> dict[str, Any]:
    """Return what a document inherits, without name and description."""
    if parent is None:
        return {}
    if not isinstance(parent, str) or depth > _MAX_DEPTH:
        why = "leads back to itself" if depth > _MAX_DEPTH else "must be a text"
        message = f"{why}: name a preset, or a file beside this one"
        problem = Problem(message, ("extends",), document.line_of(("extends",)))
        raise PolicyError(document.source, [problem])
    settings = _settings(*_read_parent(document, parent, folder), depth + 1)
    return {k: v for k, v in settings.items() if k not in {"name", "description"}}


def _read_parent(
    document: Document, parent: str, folder: Path | None
) -> tuple[Document, Path | None]:
    """Read the document in ``extends``; a missing one is a problem of the child."""
    try:
        return _read(parent, folder)
    except PolicyError as error:
        if any(problem.line for problem in error.problems):
            raise
        path = ("extends",)
        problems = [
            Problem(problem.message, path, document.line_of(path))
            for problem in error.problems
        ]
        raise PolicyError(document.source, problems) from error


def _merge(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two documents: mappings key by key, overrides as one list.

    Among overrides the last match decides, so those of the outer document come last.
    """
    result = {**base, **own}
    for key, value in own.items():
        below = base.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key] = _merge(below, value)
        elif key == "overrides" and isinstance(value, list | tuple) and below:
            result[key] = [*below, *value]
    return result
