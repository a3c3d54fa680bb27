"""``kafkaguard pipeline``: run a pipeline file with Spark."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kafkaguard._errors import KafkaGuardError
from kafkaguard.cli.group import Problem, SuggestingGroup
from kafkaguard.cli.interrupts import exit_code
from kafkaguard.cli.output import PlainTable, Progress, console, say
from kafkaguard.cli.spark_session import NotStarted, connector, java_home, spark_session
from kafkaguard_adapters.spark.marker import error_from
from kafkaguard_adapters.spark.pipeline import run as running
from kafkaguard_adapters.spark.pipeline.file import (
    PipelineError,
    load_pipeline,
    point_at,
)
from kafkaguard_adapters.spark.pipeline.places import MistakeError, mistake

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kafkaguard_adapters.spark.pipeline.model import Pipeline
    from kafkaguard_adapters.spark.report import WriteReport


_PACKAGES = "spark.jars.packages"
_JOB_FAILED = 1


@click.group(cls=SuggestingGroup)
def pipeline() -> None:
    """Run a pipeline file: from a source, with Spark, into a topic."""


@pipeline.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def run(file: Path, *, as_json: bool) -> None:
    """Run the pipeline in FILE (YAML or TOML) on this machine.

    A stream without `every` takes what is there and ends; with it, Ctrl-C ends it.
    Exit code 0: done. 1: a record failed the job. 2: something to mend first. 130:
    interrupted (143: by SIGTERM). With --json a failure is printed as {"error": ...}.
    """
    outcome = "nothing was written, because the job had not started"
    try:
        definition = _load(file)
        report = running.empty_report(definition)
        if report is None:
            progress = Progress()
            with _session(definition, file) as spark:
                frame = _plan(spark, definition, file)
                outcome = _warn_of_records(definition)
                with progress.of(spark):
                    report = _run_job(frame, definition, progress)
                outcome = f"the job succeeded: {report}"
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt, "__notes__", ())
        text = "; ".join([f"interrupted: {outcome}", *notes])
        raise Problem(text, exit_code(interrupt)) from None
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
    else:
        _print(report)


def _warn_of_records(definition: Pipeline) -> str:
    again = (
        "running it again writes them again"
        if definition.stream is None
        else "the next run writes the micro-batch that was not finished again"
    )
    topic = definition.sink.topic or "the topics of the column topic"
    return f"records may have been written to {topic} already; {again}"


def _run_job(frame: DataFrame, definition: Pipeline, progress: Progress) -> WriteReport:
    try:
        return running.run(frame, definition, progress.batch)
    except (KafkaGuardError, *running.OF_SPARK) as error:
        raise Problem(_describe_failure(error), _JOB_FAILED) from None


def _load(file: Path) -> Pipeline:
    """Read and check the file without Spark, which takes seconds to start."""
    try:
        definition = load_pipeline(file)
        java_home()
        running.check_target(definition)
    except MistakeError as error:
        raise _make_problem(file, _add_advice(error)) from None
    except (PipelineError, KafkaGuardError) as error:
        raise Problem(str(error)) from None
    return definition


@contextmanager
def _session(definition: Pipeline, file: Path) -> Iterator[SparkSession]:
    """Start Spark; if that fails, name the key of the file that caused it."""
    try:
        with spark_session(definition.name, settings=_settings(definition)) as spark:
            yield spark
    except NotStarted as error:
        raise _find_setting_problem(file, definition, error.message) or error from None


def _find_setting_problem(
    file: Path, definition: Pipeline, message: str
) -> Problem | None:
    setting = setting_in(message, definition.spark)
    if setting is None:
        return None
    return _make_problem(file, mistake(message, "spark", setting))


def _settings(definition: Pipeline) -> dict[str, str]:
    settings = dict(definition.spark)
    if definition.source.format.lower() == "kafka":
        packages = list(filter(None, settings.get(_PACKAGES, "").split(",")))
        if not any("spark-sql-kafka" in package for package in packages):
            settings[_PACKAGES] = ",".join([*packages, connector()])
    return settings


def _plan(spark: SparkSession, definition: Pipeline, file: Path) -> DataFrame:
    try:
        return running.plan(spark, definition)
    except MistakeError as error:
        raise _make_problem(file, error) from None
    except KafkaGuardError as error:
        raise Problem(str(error)) from None
    except running.OF_SPARK as error:
        text = f"Spark refuses the pipeline: {running.first_line(error)}"
        raise _find_setting_problem(file, definition, text) or Problem(text) from None


def _add_advice(error: MistakeError) -> MistakeError:
    """Add advice for people if the verdict is only about the request."""
    cause = error.__cause__
    if not isinstance(cause, KafkaGuardError) or not cause.verdict.retriable:
        return error
    (problem,) = error.problems
    what, _, _ = problem.message.partition(" -> ")
    advice = "nothing was written; run it again when a broker answers there"
    return mistake(f"{what}; {advice}", *problem.path)


def _make_problem(file: Path, error: MistakeError) -> Problem:
    return Problem(str(point_at(file, error)))


def _describe_failure(error: Exception) -> str:
    kafka_error = error_from(error)
    note_list = getattr(kafka_error or error, "__notes__", ())
    notes = "".join(f"\n  {note}" for note in note_list)
    return f"the job failed: {kafka_error or running.first_line(error)}{notes}"


def _print(report: WriteReport) -> None:
    table = PlainTable(title=f"Into {report.topic or 'the topics of the column topic'}")
    table.add_column()
    table.add_column("Records", justify="right")
    table.add_row("Read", f"{report.read:,}")
    table.add_row("Delivered", f"{report.delivered:,}")
    for reason, count in report.dead_lettered.items():
        table.add_row(f"In {report.dead_letter_topic}: {reason}", f"{count:,}")
    for reason, count in report.dropped.items():
        table.add_row(f"Dropped: {reason}", f"{count:,}")
    for error, count in report.in_doubt.items():
        table.add_row(f"In doubt: {error}", f"{count:,}")
    max_duplicates = report.maybe_twice
    table.add_row(
        "Twice, at most", "unknown" if max_duplicates is None else f"{max_duplicates:,}"
    )
    console().print(table)
    for warning in report.warnings:
        say(warning)


#: Shorter values may be in a text by chance.
_TELLING: Final = 3


def setting_in(text: str, settings: Mapping[str, str]) -> str | None:
    """Find the setting that Spark complains about, by its name or its value."""
    for name in settings:
        if name in text:
            return name
    for name, value in settings.items():
        if len(value) >= _TELLING and value in text:
            return name
    return None
