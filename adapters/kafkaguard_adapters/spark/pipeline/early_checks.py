"""Checks of a pipeline file that need neither Spark nor a broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkaguard._common.closest import closest, did_you_mean
from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.spark.client_config import client_config
from kafkaguard_adapters.spark.pipeline.places import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard_adapters.spark.pipeline.model import Pipeline
    from kafkaguard_adapters.spark.pipeline.places import Place

_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week")
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
#: An expression that is only a column's name.
_NAME = re.compile(r"[A-Za-z_]\w*")
#: Names that are no columns: constants of SQL, and Spark's hidden column of files.
_NOT_COLUMNS = frozenset(
    [
        "null",
        "true",
        "false",
        "user",
        "current_user",
        "session_user",
        "current_date",
        "current_time",
        "current_timestamp",
        "localtimestamp",
        "current_catalog",
        "current_database",
        "current_schema",
        "_metadata",
    ]
)
_SPARK: Final = "spark."
_MEMORY: Final = "spark.driver.memory"
_NO_SETTING: Final = (
    "this is not a Spark setting: their names begin with 'spark.' (those of Hadoop "
    "with 'spark.hadoop.')"
)
_SIZES: Final = "write it as '512m' or '4g'; Spark needs at least 450m"
#: Spark's own limit (UnifiedMemoryManager): one and a half times its reserved memory.
_LEAST_MEMORY: Final = 450 * 2**20
_BYTES: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE: Final = re.compile(r"([1-9]\d*)([kmgt]?)", re.IGNORECASE)
_BRACKETS = {"(": 1, "<": 1, ")": -1, ">": -1}


def expressions(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Yield all expressions, each with its place in the file."""
    for name, value in pipeline.select.model_dump(exclude_none=True).items():
        if isinstance(value, str):
            yield ("select", name), value
    headers = pipeline.select.headers
    if not isinstance(headers, str):
        for name, text in headers.items():
            yield ("select", "headers", name), text
    for number, text in enumerate(pipeline.order_by):
        yield ("order_by", number), text


def wrong_interval(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Check the interval of a stream: numbers, each with a unit that Spark knows."""
    every = None if pipeline.stream is None else pipeline.stream.every
    if every is None:
        return
    place = ("stream", "every")
    rest = re.sub(r"^\s*interval\b", "", every, flags=re.IGNORECASE).strip()
    while rest:
        part = _PART.match(rest)
        if part is None:
            yield place, f"{every!r} is not an interval: write it as 10 seconds"
            return
        number, unit = part.groups()
        if not unit:
            yield place, f"{every!r} has no unit: write {number} seconds"
            return
        if unit.lower().removesuffix("s") not in _UNITS:
            hint = did_you_mean(unit, [f"{each}s" for each in _UNITS])
            known = ", ".join(f"{each}s" for each in _UNITS)
            yield place, f"{every!r}: {unit!r} is none of the units {known}{hint}"
            return
        rest = rest[part.end() :].strip()


def wrong_columns(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Find expressions that are a misspelt name of a declared column.

    Only a name that is close to a declared one is reported: another one may come from
    the folders of the source.
    """
    declared = declared_columns(pipeline.source.columns or "")
    known = _NOT_COLUMNS.union(name.lower() for name in declared)
    for place, text in expressions(pipeline):
        is_name = _NAME.fullmatch(text.strip()) is not None
        if not is_name or text.strip().lower() in known:
            continue
        near = closest(text, declared)
        if near is not None and not _is_folder(pipeline.source.path, text.strip()):
            columns = ", ".join(declared)
            message = f"there is no column {text.strip()!r}; did you mean {near!r}?"
            yield place, f"{message} source.columns has {columns}"


def wrong_client_settings(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Check ``sink.config``, each time without the settings found wrong so far."""
    left = dict(pipeline.sink.config)
    while error := _refusal(pipeline.sink.bootstrap_servers, left):
        place = place_of(error, pipeline)
        if place is None or place[:2] != ("sink", "config"):
            return  # the addresses are checked later
        is_one = left.pop(str(place[-1]), None) is not None
        if is_one or left == pipeline.sink.config:
            yield place, str(error)
        if not is_one:  # perhaps only because of the settings that were left out
            return


def _refusal(servers: str, config: dict[str, str]) -> KafkaGuardError | None:
    try:
        client_config(servers, config)
    except KafkaGuardError as error:
        return error
    return None


def wrong_spark_settings(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Find Spark settings that Spark would ignore, or that would end it silently."""
    for name in pipeline.spark:
        if not name.startswith(_SPARK):
            yield ("spark", name), _NO_SETTING
    memory = pipeline.spark.get(_MEMORY)
    if memory is not None and not _is_enough(memory):
        said = f"{memory!r} is too small, or not a size that Java accepts: {_SIZES}"
        yield ("spark", _MEMORY), said


def _is_enough(size: str) -> bool:
    found = _SIZE.fullmatch(size)
    if found is None:
        return False
    return int(found[1]) * _BYTES[found[2].lower()] >= _LEAST_MEMORY


def declared_columns(ddl: str) -> list[str]:
    """Return the names of columns that are declared as in ``CREATE TABLE``."""
    parts, depth = [""], 0
    for letter in ddl:
        depth += _BRACKETS.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    found = (re.match(r"\s*(?:`([^`]+)`|(\w+))", part) for part in parts)
    return [match[1] or match[2] for match in found if match]


def _is_folder(path: str | None, name: str) -> bool:
    """Return whether folders ``name=...`` of the source may make it a column."""
    if path is None or "://" in path:
        return True
    return next(Path(path).glob(f"**/{name}=*"), None) is not None
