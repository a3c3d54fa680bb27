"""Options of a source that Spark would ignore silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._common.closest import closest, did_you_mean
from kafkaguard_adapters.spark.pipeline import kafka_source
from kafkaguard_adapters.spark.pipeline.places import MistakeError, MistakesError
from kafkaguard_adapters.wire.client_settings import known_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import SparkSession

    from kafkaguard_adapters.spark.pipeline.model import Source

_SETTING = "kafka."
_SPARK = "org.apache.spark.sql."
_OF_FILES = _SPARK + "execution.datasources.FileIndexOptions"
#: Spark's classes with the options of its formats; for other formats it has no list.
_KEPT = {
    "csv": _SPARK + "catalyst.csv.CSVOptions",
    "json": _SPARK + "catalyst.json.JSONOptions",
    "orc": _SPARK + "execution.datasources.orc.OrcOptions",
    "parquet": _SPARK + "execution.datasources.parquet.ParquetOptions",
    "text": _SPARK + "execution.datasources.text.TextOptions",
    "xml": _SPARK + "catalyst.xml.XmlOptions",
}
#: Options of Spark's FileStreamOptions and FileSourceOptions, which have no list.
_OF_STREAMS = (
    "cleanSource",
    "discardCachedInputRatio",
    "fileNameOnly",
    "ignoreCorruptFiles",
    "latestFirst",
    "maxBytesPerTrigger",
    "maxCachedFiles",
    "maxFileAge",
    "maxFilesPerTrigger",
    "sourceArchiveDir",
)


def check_options(spark: SparkSession, source: Source) -> None:
    """Check the names of a source's options, if Spark lists the format's options.

    Raises:
        MistakesError: Options do not exist; the text has the closest name of each.
    """
    known = _known(spark, source.format.lower())
    if known and (wrong := list(wrong_names(source, known))):
        raise MistakesError(wrong)


def wrong_names(source: Source, known: Collection[str]) -> Iterator[MistakeError]:
    """Find a source's options that do not exist.

    Args:
        source: The source.
        known: The format's options. A name with a dot may be a setting of the file
            system, so it is not checked, except for the format ``kafka``.
    """
    of_kafka = source.format.lower() == kafka_source.FORMAT
    given = {name.lower() for name in known}
    for name in source.options:
        lower = name.lower()
        if of_kafka and lower.startswith(_SETTING):
            yield from _wrong_setting(name)
            continue
        if lower in given or ("." in name and not of_kafka):
            continue
        hint = did_you_mean(name, known)
        if of_kafka and not hint:
            hint = f"; a setting of Kafka's client is written 'kafka.{name}'"
        yield MistakeError(
            ("source", "options", name),
            f"the format {source.format} has no such option, and Spark would ignore "
            f"it{hint}",
        )


def _wrong_setting(name: str) -> Iterator[MistakeError]:
    """Find a misspelt setting; other unknown names may be for a user's class."""
    setting = name.lower().removeprefix(_SETTING)
    near = closest(setting, known_names("java"))
    if near not in (None, setting):
        yield MistakeError(
            ("source", "options", name),
            f"Kafka's client has no such setting, and would ignore it; did you mean "
            f"'{_SETTING}{near}'?",
        )


def _known(spark: SparkSession, name: str) -> list[str]:
    if name == kafka_source.FORMAT:
        return list(kafka_source.OPTIONS)
    java: Any = getattr(spark, "_jvm", None)
    if name not in _KEPT or java is None:
        return []
    return [*_listed(java, _KEPT[name]), *_listed(java, _OF_FILES), *_OF_STREAMS]


def _listed(java: Any, path: str) -> list[str]:
    kept = java
    for part in path.split("."):
        kept = getattr(kept, part)
    names: str = kept.getAllOptions().mkString(",")
    return names.split(",")
