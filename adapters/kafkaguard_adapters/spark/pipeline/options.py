"""Options of a source that Spark would ignore silently."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kafkaguard._common.closest import closest, did_you_mean
from kafkaguard_adapters.spark.pipeline import kafka_source
from kafkaguard_adapters.spark.pipeline.places import MistakeError
from kafkaguard_adapters.wire.client_settings import known_names
from kafkaguard_policies.model.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import SparkSession

    from kafkaguard_adapters.spark.pipeline.model import Source

_SETTING = "kafka."
_SPARK = "org.apache.spark.sql."
_OF_FILES = _SPARK + "execution.datasources.FileIndexOptions"
#: Spark's classes with the options of its formats; for other formats it has no list.
_CLASSES = {
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
        MistakeError: Options do not exist; the text has the closest name of each.
    """
    names = _list_options(spark, source.format.lower())
    if names and (problems := tuple(find_wrong_names(source, names))):
        raise MistakeError(*problems)


def find_wrong_names(source: Source, names: Collection[str]) -> Iterator[Problem]:
    """Find a source's options that do not exist.

    Args:
        source: The source.
        names: The format's options. A name with a dot may be a setting of the file
            system, so it is not checked, except for the format ``kafka``.
    """
    of_kafka = source.format.lower() == kafka_source.FORMAT
    lowered = {name.lower() for name in names}
    for name in source.options:
        place = "source", "options", name
        if of_kafka and name.lower().startswith(_SETTING):
            # Other unknown settings may be for a class of the user's own.
            setting = name.lower().removeprefix(_SETTING)
            if (near := closest(setting, known_names("java"))) not in (None, setting):
                yield Problem(
                    "Kafka's client has no such setting, and would ignore it; did you "
                    f"mean '{_SETTING}{near}'?",
                    place,
                )
        elif name.lower() not in lowered and (of_kafka or "." not in name):
            hint = did_you_mean(name, names)
            if of_kafka and not hint:
                hint = f"; a setting of Kafka's client is written 'kafka.{name}'"
            yield Problem(
                f"the format {source.format} has no such option, and Spark would "
                f"ignore it{hint}",
                place,
            )


def _list_options(spark: SparkSession, name: str) -> list[str]:
    if name == kafka_source.FORMAT:
        return list(kafka_source.OPTIONS)
    java: Any = getattr(spark, "_jvm", None)
    if name not in _CLASSES or java is None:
        return []
    listed = (
        attrgetter(path)(java).getAllOptions().mkString(",").split(",")
        for path in (_CLASSES[name], _OF_FILES)
    )
    return [*chain.from_iterable(listed), *_OF_STREAMS]
