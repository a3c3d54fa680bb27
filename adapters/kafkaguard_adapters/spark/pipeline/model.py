"""The models of a pipeline file."""

import os
import re
from string import Template
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from kafkaguard_policies.model.base import Part
from kafkaguard_policies.model.policy import PolicyDocument


def _to_option(value: Any) -> Any:
    """Convert a YAML value into an option of Spark: text, and lower-case flags."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _to_list(value: Any) -> Any:
    """Turn one text into a list with one item, as ``write`` does."""
    return [value] if isinstance(value, str) else value


def _check_policy(value: Any) -> Any:
    """Accept a policy's name or content; any other type gives one error, not three."""
    if not isinstance(value, str | dict):
        raise ValueError("must be a preset's name, a file, or the policy's settings")  # noqa: TRY004 - pydantic shows a ValueError
    return value


def _check_columns(value: Any) -> Any:
    """Refuse a mapping, and show how the same columns are written."""
    if not isinstance(value, dict):
        return value
    written = ", ".join(f"{name} {kind}" for name, kind in value.items())
    raise ValueError(f"must be text, as in CREATE TABLE: columns: {written!r}")


def _expand(value: str) -> str:
    """Replace environment variables, so that the file needs no password."""
    try:
        return Template(value).substitute(os.environ)
    except KeyError as error:
        name = error.args[0]
        raise ValueError(f"the environment variable {name} is not set") from None
    except ValueError:
        raise ValueError("write ${NAME} for a variable, and $$ for a dollar") from None


def _fill(value: str) -> str:
    """Replace environment variables, and refuse a value that is empty afterwards.

    An address can also lack its host, as in ``${HOST}:9092``.
    """
    filled = _expand(value)
    if filled.strip(" ,") and not _NO_HOST.search(filled):
        return filled
    names = dict.fromkeys(Template(value).get_identifiers())
    empty = [name for name in names if not os.environ[name].strip()]
    if empty:
        are = "variable {} is" if len(empty) == 1 else "variables {} are"
        raise ValueError(f"the environment {are.format(' and '.join(empty))} empty")
    if not filled.strip(" ,"):
        raise ValueError("must not be empty")
    return filled


def _check_expression(value: str) -> str:
    """Refuse a variable in an SQL expression, where it is not replaced."""
    if match := _VARIABLE.search(value):
        name = match[1]
        raise ValueError(
            f"${{{name}}} is not replaced here, because this is an SQL expression. "
            f"Write the value as '...'; for the text itself, concat('$', '{{{name}}}')"
        )
    return value


_VARIABLE = re.compile(r"\$\{(\w+)\}")
_NO_HOST = re.compile(r"(?:^|,)\s*:")
OnMalformed = Literal["raise", "dead_letter"]
Option = Annotated[str, BeforeValidator(_to_option)]
Expanded = Annotated[Option, AfterValidator(_expand)]
Text = Annotated[str, Field(min_length=1)]
Expression = Annotated[Text, AfterValidator(_check_expression)]
#: A mapping is accepted unchanged, and checked when the policy is loaded, because it
#: may extend another policy. ``PolicyDocument`` is here so that an error about a
#: misplaced key can name the right place.
PolicyText = Annotated[
    str | dict[str, Any] | PolicyDocument,
    Field(union_mode="left_to_right"),
    BeforeValidator(_check_policy),
]
ExpandedPath = Annotated[Text, AfterValidator(_fill), Field(min_length=1)]


class Source(Part):
    """Where rows come from."""

    format: Text
    """Any format that Spark reads: ``csv``, ``json``, ``parquet``, ``kafka`` ..."""
    path: ExpandedPath | None = None
    """A file, folder or pattern, relative to the pipeline file, with ``${NAME}``."""
    columns: Annotated[Text | None, BeforeValidator(_check_columns)] = None
    """The columns and their types, as in ``CREATE TABLE``. Default: as found."""
    options: dict[str, Expanded] = Field(default_factory=dict)
    """Options of the format; ``${NAME}`` stands for an environment variable."""
    on_malformed: OnMalformed | None = None
    """What happens to a line that does not fit the columns: ``raise`` or
    ``dead_letter``. Default: as ``policy.on_reject``."""


class Select(Part):
    """What a record is made of: Spark SQL expressions over the source's columns."""

    value: Expression
    """The value, text or binary."""
    key: Expression | None = None
    """The key, text or binary. Default: none."""
    topic: Expression | None = None
    """The topic of each record, if ``sink.topic`` is not given."""
    partition: Expression | None = None
    """The partition. Default: by the key, as Java's clients do."""
    timestamp: Expression | None = None
    """The record's timestamp. Default: the time of sending."""
    headers: dict[str, Expression] | Expression = Field(default_factory=dict)
    """Headers by name; or an expression for all of them, as ``headers`` of Kafka's own
    source with the option ``includeHeaders``."""


class Sink(Part):
    """Where records go."""

    bootstrap_servers: Annotated[Option, AfterValidator(_fill)]
    """The brokers' addresses."""
    topic: Text | None = None
    """The topic. Default: as ``select.topic`` says."""
    partitions: int | None = Field(default=None, ge=1)
    """How many tasks write. Default: as many as the topic has partitions."""
    compacted: bool | None = None
    """Whether the topic is compacted. Default: looked up."""
    max_record_bytes: int | None = Field(default=None, ge=1)
    """The largest record in bytes. Default: the topic's limit."""
    exactly_once: ExpandedPath | dict[str, Expanded] | None = None
    """The name of the write, with ``${NAME}``, and of no other; or a mapping with
    ``name``, ``marker_topic`` and ``retention``. Default: at-least-once."""
    config: dict[str, Expanded] = Field(default_factory=dict)
    """Settings of Kafka's client; ``${NAME}`` stands for an environment variable."""


class Stream(Part):
    """Makes the pipeline a stream."""

    checkpoint: ExpandedPath
    """The folder of Spark's checkpoint, relative to the pipeline file."""
    every: Annotated[Text, BeforeValidator(_to_option)] | None = None
    """The interval between batches, as ``10 seconds``. Default: one run only."""


class Pipeline(Part):
    """A pipeline."""

    source: Source
    select: Select
    sink: Sink
    name: Text = "kafkaguard pipeline"
    """The name of the Spark application."""
    policy: PolicyText | None = None
    """The retry policy: a preset, a policy file next to this one, or the policy itself,
    which may have ``extends``. Default: a record that fails stops the job."""
    order_by: Annotated[list[Expression], BeforeValidator(_to_list)] = Field(
        default_factory=list
    )
    """An expression, or a list of them, by which the records of a key are ordered."""
    stream: Stream | None = None
    spark: dict[str, Option] = Field(default_factory=dict)
    """Spark settings, as ``spark.driver.memory: 4g``."""
