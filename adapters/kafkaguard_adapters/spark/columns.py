"""The columns of a write, checked by name and type before the job starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, MapType, StructType

from kafkaguard._common.closest import did_you_mean
from kafkaguard_adapters.spark.setting_errors import setting_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType

    from kafkaguard_adapters.spark.settings import SinkSettings

#: kafkaguard's own column: why a record is refused before the sink, and its file.
REFUSED = "_kafkaguard_refused"
_TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    REFUSED: ("struct<reason:string,source:string>",),
}


def check_columns(schema: StructType, settings: SinkSettings) -> list[str]:
    """Check the columns of a DataFrame, and that a topic is named once.

    Returns:
        The names of the columns that are written, in the DataFrame's order.

    Raises:
        ClientConfigurationError: As for :func:`check_types`; or the topic is named by
            both the option and the column, or by neither.
    """
    columns = check_types(schema)
    _check_destination(columns, settings)
    return columns


def check_types(schema: StructType) -> list[str]:
    """Check the names and types of a DataFrame's columns.

    Returns:
        The names of the columns that are written, in the DataFrame's order.

    Raises:
        ClientConfigurationError: A column is missing, duplicated, of another type, or
            written in another case.
    """
    names = schema.fieldNames()
    for name in names:
        if name.lower() in _TYPES and name not in _TYPES:
            raise setting_error(
                f"column {name} would be ignored: the sink reads {name.lower()}. "
                "Rename the column, or drop it"
            )
    columns = [name for name in names if name in _TYPES]
    if duplicates := {name for name in columns if columns.count(name) > 1}:
        raise setting_error(f"there are two columns {', '.join(sorted(duplicates))}")
    for name in columns:
        _check_type(name, schema[name].dataType)
    if "value" not in columns:
        others = list_columns("value", names)
        raise setting_error(f"there is no column value{others}")
    return columns


def list_columns(name: str, columns: Sequence[str]) -> str:
    """Name the columns that there are, for a text about one that is missing."""
    if not columns:
        return ", and no other: is the source empty?"
    listed = ", ".join(columns)
    return f"{did_you_mean(name, columns)}; the columns are {listed}"


def _check_type(name: str, kind: DataType) -> None:
    text = kind.simpleString()
    if text not in _TYPES[name]:
        types = " or ".join(_TYPES[name])
        raise setting_error(
            f"column {name} is {text}, and must be {types}: {_advise(name, kind)}",
            setting=f"column {name}",
        )


def _advise(name: str, kind: DataType) -> str:
    """Return how to make a column's type; a cast of a nested type gives other text."""
    if name == "headers" and isinstance(kind, MapType):
        entries = f"map_entries({name})"
        if kind.simpleString() != "map<string,binary>":
            key, value = (f"cast(h.{name} as string)" for name in ("key", "value"))
            pair = f"struct({key} as key, cast({value} as binary) as value)"
            entries = f"transform({entries}, h -> {pair})"
        return f"write {entries}"
    if isinstance(kind, ArrayType | MapType | StructType) and name in ("key", "value"):
        return f"write to_json({name})"
    return "cast it"


def _check_destination(columns: list[str], settings: SinkSettings) -> None:
    if "topic" in columns and settings.topic:
        raise setting_error(
            "both a column topic and the option topic name the topic, and the option "
            "would override the column: drop one",
            topic=settings.topic,
            setting="column topic",
        )
    if "topic" not in columns and not settings.topic:
        text = "no topic is named: set topic, or add a column topic"
        raise setting_error(text, setting="topic")
    if "topic" in columns and settings.compacted is not None:
        text = "compacted describes one topic, and a column topic can name several"
        raise setting_error(text, setting="compacted")
