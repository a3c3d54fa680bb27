"""The place in a pipeline file that an error is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard.errors import ClientNotConnectedError
from kafkaguard_adapters.spark.policy import DEAD_LETTER
from kafkaguard_adapters.spark.setting_errors import setting_of

if TYPE_CHECKING:
    from kafkaguard.errors import KafkaGuardError
    from kafkaguard_adapters.spark.pipeline.model import Pipeline

    Place = tuple[str | int, ...]

_CLIENT, _COLUMN = "kafka.", "column "
_PLACES: dict[str, Place] = {
    "bootstrap_servers": ("sink", "bootstrap_servers"),
    "config": ("sink", "config"),
    "partitions": ("sink", "partitions"),
    "policy": ("policy",),
    "topic": ("sink", "topic"),
}


class MistakeError(ValueError):
    """A part of a pipeline file was found wrong when it was used.

    Attributes:
        place: The place in the file, as ``("select", "key")``.
        message: What is wrong at that place.
    """

    def __init__(self, place: Place, message: str) -> None:
        self.place = place
        self.message = message
        super().__init__(place, message)


def place_of(error: KafkaGuardError, pipeline: Pipeline) -> Place | None:
    """Return the key of the file that caused an error; None: no key caused it."""
    if setting := setting_of(error):
        return _place(setting, pipeline)
    if isinstance(error, ClientNotConnectedError):
        return _PLACES["bootstrap_servers"]
    if error.topic is None:
        return None
    if error.topic == pipeline.sink.topic:
        return _PLACES["topic"]
    return _place(DEAD_LETTER, pipeline)


def _place(setting: str, pipeline: Pipeline) -> Place:
    if setting.startswith(_COLUMN):
        return "select", setting.removeprefix(_COLUMN)
    if setting == DEAD_LETTER:
        policy = pipeline.policy
        is_here = isinstance(policy, dict) and "topic" in (
            policy.get("dead_letter") or ()
        )
        return ("policy", "dead_letter", "topic") if is_here else ("policy",)
    if not setting.startswith(_CLIENT):
        return _PLACES.get(setting, ("sink", setting))
    for written in pipeline.sink.config:
        if written.lower().removeprefix(_CLIENT) == setting.removeprefix(_CLIENT):
            return "sink", "config", written
    return _PLACES["config"]
