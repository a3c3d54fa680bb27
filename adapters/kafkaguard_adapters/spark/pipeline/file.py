"""Read a pipeline file; each error names its line."""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kafkaguard_adapters.spark.pipeline.early_checks import (
    wrong_client_settings,
    wrong_spark_settings,
)
from kafkaguard_adapters.spark.pipeline.model import Pipeline
from kafkaguard_policies.model.problems import PolicyError, Problem, problems_of
from kafkaguard_policies.reading.documents import parse
from kafkaguard_policies.reading.sources import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkaguard_adapters.spark.pipeline.places import MistakeError, Place


class PipelineError(ValueError):
    """A pipeline cannot be run as it is written.

    Attributes:
        source: The file.
        problems: Everything that is wrong with the file.
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
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
            or a checkpoint that cannot be written. All of it is told at once.
    """
    name = str(file)
    try:
        document = parse(file.read_text(), name)
    except OSError as error:
        message = f"it cannot be read: {error.strerror}"
        raise PipelineError(name, [Problem(message)]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"the byte {error.object[error.start]:#04x} is no UTF-8 text"
        raise PipelineError(name, [Problem(message, line=line)]) from None
    except PolicyError as error:
        raise PipelineError(name, error.problems) from None
    wrong: list[Problem] = []
    pipeline: Pipeline | None = None
    try:
        pipeline = Pipeline.model_validate(document.content)
    except ValidationError as error:
        wrong += problems_of(error, document.line_of)
        pipeline = _what_is_left(document.content, wrong)
    if pipeline is not None:
        pipeline = _placed(pipeline, file.absolute().parent)
        wrong += _wrong_values(pipeline, document.line_of)
    if wrong:
        raise PipelineError(name, sorted(wrong, key=lambda each: each.line or 0))
    assert pipeline is not None
    return pipeline


def _what_is_left(content: Any, wrong: Iterable[Problem]) -> Pipeline | None:
    """Return the pipeline without its wrong parts; None if one of them is required."""
    left = deepcopy(content)
    for problem in wrong:
        part = left
        for step in problem.path[:-1]:
            part = part.get(step) if isinstance(part, dict) else None
        if isinstance(part, dict) and problem.path:
            part.pop(problem.path[-1], None)
    try:
        return Pipeline.model_validate(left)
    except ValidationError:
        return None


def _wrong_values(
    pipeline: Pipeline, line_of: Callable[[Place], int | None]
) -> Iterator[Problem]:
    """Check what has the right form, as far as that needs no Spark."""
    for check in (
        _wrong_paths,
        wrong_client_settings,
        wrong_spark_settings,
    ):
        for place, message in check(pipeline):
            yield Problem(message, place, line_of(place))
    yield from _wrong_policy(pipeline, line_of)


def point_at(file: Path, mistakes: Iterable[MistakeError]) -> PipelineError:
    """Return the error for parts of a file that were found wrong later.

    Args:
        file: A file that :func:`load_pipeline` has read.
        mistakes: What is wrong, and where.
    """
    line_of = parse(file.read_text(), str(file)).line_of
    wrong = [
        Problem(each.message, each.place, line_of(each.place)) for each in mistakes
    ]
    return PipelineError(str(file), sorted(wrong, key=lambda each: each.line or 0))


def _placed(pipeline: Pipeline, folder: Path) -> Pipeline:
    """Make paths absolute, except addresses of other file systems."""
    changes: dict[str, object] = {}
    if pipeline.source.path is not None:
        path = _absolute(pipeline.source.path, folder)
        changes["source"] = pipeline.source.model_copy(update={"path": path})
    if isinstance(pipeline.policy, str):
        changes["policy"] = _policy_beside(pipeline.policy, folder)
    elif isinstance(pipeline.policy, dict) and "extends" in pipeline.policy:
        extends = _policy_beside(pipeline.policy["extends"], folder)
        changes["policy"] = {**pipeline.policy, "extends": extends}
    if pipeline.stream is not None:
        checkpoint = _absolute(pipeline.stream.checkpoint, folder)
        changes["stream"] = pipeline.stream.model_copy(
            update={"checkpoint": checkpoint}
        )
    return pipeline.model_copy(update=changes)


def _absolute(path: str, folder: Path) -> str:
    return str(folder / path) if _is_local(path) else path


def _policy_beside(name: object, folder: Path) -> object:
    """Return a policy file as an absolute path, or a preset's name unchanged."""
    is_file = isinstance(name, str) and Path(name).suffix
    return str(folder / str(name)) if is_file else name


def _wrong_policy(
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


def _wrong_paths(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Check local paths: the input, and the checkpoint that Spark writes."""
    source, stream = pipeline.source.path, pipeline.stream
    if source and _is_local(source) and not glob(source):  # noqa: PTH207 - a user's pattern
        yield ("source", "path"), f"the file {source} does not exist"
    if stream and _is_local(stream.checkpoint):
        folders = [Path(stream.checkpoint), *Path(stream.checkpoint).parents]
        there = next(each for each in folders if os.access(each, os.F_OK))
        if not (there.is_dir() and os.access(there, os.W_OK)):
            yield ("stream", "checkpoint"), f"{there} is not a writable folder"


def _is_local(path: str) -> bool:
    return "://" not in path
