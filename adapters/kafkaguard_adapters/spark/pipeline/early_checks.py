"""Checks of a pipeline file that need neither Spark nor a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkaguard.errors import KafkaGuardError
from kafkaguard_adapters.spark.client_config import client_config
from kafkaguard_adapters.spark.pipeline.places import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard_adapters.spark.pipeline.model import Pipeline
    from kafkaguard_adapters.spark.pipeline.places import Place

_SPARK: Final = "spark."
_NO_SETTING: Final = (
    "this is not a Spark setting: their names begin with 'spark.' (those of Hadoop "
    "with 'spark.hadoop.')"
)


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
    """Find Spark settings that Spark would ignore."""
    for name in pipeline.spark:
        if not name.startswith(_SPARK):
            yield ("spark", name), _NO_SETTING
