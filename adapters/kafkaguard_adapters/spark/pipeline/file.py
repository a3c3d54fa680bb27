"""Read a pipeline file; each error names its line."""

from __future__ import annotations

import os
import re
from copy import deepcopy
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from kafkaguard_adapters.spark.pipeline.input_files import (
    TEXTS,
    describe_wrong_compression,
    files_at,
)
from kafkaguard_adapters.spark.pipeline.model import Pipeline
from kafkaguard_policies.model.problems import PolicyError, Problem, problems_of
from kafkaguard_policies.reading.documents import parse
from kafkaguard_policies.reading.sources import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkaguard_adapters.spark.pipeline.places import MistakeError, Place

_MEMORY: Final = "spark.driver.memory"
#: Spark's own limit (UnifiedMemoryManager): one and a half times its reserved memory.
_LEAST_MEMORY: Final = 450 * 2**20
_BYTES: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE: Final = re.compile(r"([1-9]\d*)([kmgt]?)", re.IGNORECASE)
_NOT_OF_SPARK: Final = (
    "this is not a Spark setting: their names begin with 'spark.' (those of Hadoop "
    "with 'spark.hadoop.')"
)
_TOO_SMALL: Final = (
    "is too small, or not a size that Java accepts: write it as '512m' or '4g'; Spark "
    "needs at least 450m"
)


class PipelineError(ValueError):
    """A pipeline cannot be run as it is written.

    Attributes:
        source: The file.
        problems: Everything that is wrong with the file, by line.
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda each: each.line or 0))
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        """List all problems, one a line."""
        listed = "".join(f"\n  {problem}" for problem in self.problems)
        return f"the pipeline in {self.source} cannot be run:{listed}"


def load_pipeline(file: Path) -> Pipeline:
    """Read a pipeline file, YAML or TOML.

    Args:
        file: The file. Paths in it are relative to its folder.

    Returns:
        The pipeline, with absolute paths.

    Raises:
        PipelineError: The file is missing or not well-formed, has an unknown key (the
            text has the line and the closest key), or names input that does not exist
            or a checkpoint that cannot be written. The error has all problems.
    """
    name = str(file)
    try:
        document = parse(file.read_text(), name)
    except OSError as error:
        message = f"it cannot be read: {error.strerror}"
        raise PipelineError(name, [Problem(message)]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"the byte {error.object[error.start]:#04x} is not UTF-8 text"
        raise PipelineError(name, [Problem(message, line=line)]) from None
    except PolicyError as error:
        raise PipelineError(name, error.problems) from None
    problems: list[Problem] = []
    pipeline: Pipeline | None = None
    try:
        pipeline = Pipeline.model_validate(document.content)
    except ValidationError as error:
        problems += problems_of(error, document.line_of)
        pipeline = _without_problems(document.content, problems)
    if pipeline is not None:
        pipeline = _with_absolute_paths(pipeline, file.absolute().parent)
        problems += _find_wrong_values(pipeline, document.line_of)
    if problems:
        raise PipelineError(name, problems)
    assert pipeline is not None
    return pipeline


def _without_problems(content: Any, problems: Iterable[Problem]) -> Pipeline | None:
    """Return the pipeline without its wrong parts; None if one of them is required."""
    remainder = deepcopy(content)
    for problem in problems:
        part = remainder
        for step in problem.path[:-1]:
            part = part.get(step) if isinstance(part, dict) else None
        if isinstance(part, dict) and problem.path:
            part.pop(problem.path[-1], None)
    try:
        return Pipeline.model_validate(remainder)
    except ValidationError:
        return None


def _find_wrong_values(
    pipeline: Pipeline, line_of: Callable[[Place], int | None]
) -> Iterator[Problem]:
    """Check the values without Spark: paths, Spark's settings, the policy."""
    for check in (_find_wrong_paths, _find_wrong_spark_settings):
        for place, message in check(pipeline):
            yield Problem(message, place, line_of(place))
    yield from _find_wrong_policy(pipeline, line_of)


def point_at(file: Path, error: MistakeError) -> PipelineError:
    """Return the error with the line of each problem.

    Args:
        file: A file that :func:`load_pipeline` has read.
        error: The problems that were found later.
    """
    line_of = parse(file.read_text(), str(file)).line_of
    problems = (replace(each, line=line_of(each.path)) for each in error.problems)
    return PipelineError(str(file), problems)


def _with_absolute_paths(pipeline: Pipeline, folder: Path) -> Pipeline:
    """Make paths absolute, except addresses of other file systems."""
    changes: dict[str, object] = {}
    source, policy, stream = pipeline.source, pipeline.policy, pipeline.stream
    if source.path is not None:
        path = _absolute(source.path, folder)
        changes["source"] = source.model_copy(update={"path": path})
    if isinstance(policy, str):
        changes["policy"] = _policy_beside(policy, folder)
    elif isinstance(policy, dict) and "extends" in policy:
        extends = _policy_beside(policy["extends"], folder)
        changes["policy"] = {**policy, "extends": extends}
    if stream is not None:
        path = _absolute(stream.checkpoint, folder)
        changes["stream"] = stream.model_copy(update={"checkpoint": path})
    return pipeline.model_copy(update=changes)


def _absolute(path: str, folder: Path) -> str:
    return str(folder / path) if _is_local(path) else path


def _policy_beside(name: object, folder: Path) -> object:
    """Return a policy file as an absolute path, or a preset's name unchanged."""
    is_file = isinstance(name, str) and Path(name).suffix
    return str(folder / str(name)) if is_file else name


def _find_wrong_policy(
    pipeline: Pipeline, line_of: Callable[[Place], int | None]
) -> Iterator[Problem]:
    """Check the policy: a preset, a file, or settings in the pipeline file."""
    try:
        if pipeline.policy is not None:
            load_policy(pipeline.policy)  # type: ignore[arg-type]  # a dict, or a text
    except PolicyError as error:
        for problem in error.problems:
            if problem.source is None and isinstance(pipeline.policy, dict):
                path = ("policy", *problem.path)
                yield Problem(problem.message, path, line_of(path))
            elif problem.line is None:
                yield Problem(problem.message, ("policy",), line_of(("policy",)))
            else:
                yield replace(problem, source=problem.source or error.source)


def _find_wrong_paths(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Check local paths: the input, and the checkpoint that Spark writes."""
    source, stream = pipeline.source.path, pipeline.stream
    if source and _is_local(source) and not glob(source):  # noqa: PTH207 - a user's pattern
        yield ("source", "path"), f"the file {source} does not exist"
    is_text = pipeline.source.format.lower() in TEXTS
    files = files_at(source) if source and _is_local(source) and is_text else ()
    if wrong := describe_wrong_compression(files):
        yield ("source", "path"), wrong
    if stream and _is_local(stream.checkpoint):
        folders = [Path(stream.checkpoint), *Path(stream.checkpoint).parents]
        nearest = next(each for each in folders if os.access(each, os.F_OK))
        if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
            yield ("stream", "checkpoint"), f"{nearest} is not a writable folder"


def _find_wrong_spark_settings(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Find settings that Spark would ignore, or that would end it without an error."""
    for name, value in pipeline.spark.items():
        if not name.startswith("spark."):
            yield ("spark", name), _NOT_OF_SPARK
        size = _SIZE.fullmatch(value)
        if name == _MEMORY and not (
            size and int(size[1]) * _BYTES[size[2].lower()] >= _LEAST_MEMORY
        ):
            yield ("spark", name), f"{value!r} {_TOO_SMALL}"


def _is_local(path: str) -> bool:
    return "://" not in path
