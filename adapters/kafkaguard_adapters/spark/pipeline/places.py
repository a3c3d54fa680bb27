"""Places in a pipeline file: those of expressions, and of what an error is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaguard._errors import ClientNotConnectedError
from kafkaguard_adapters.spark.policy import DEAD_LETTER
from kafkaguard_adapters.spark.setting_errors import setting_of
from kafkaguard_policies.model.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaguard._errors import KafkaGuardError
    from kafkaguard_adapters.spark.pipeline.model import Pipeline

    Place = tuple[str | int, ...]

_CLIENT, _COLUMN = "kafka.", "column "
_PLACES: dict[str, Place] = {
    "bootstrap_servers": ("sink", "bootstrap_servers"),
    "config": ("sink", "config"),
    "exactly_once": ("sink", "exactly_once"),
    "partitions": ("sink", "partitions"),
    "policy": ("policy",),
    "topic": ("sink", "topic"),
}


class MistakeError(ValueError):
    """Parts of a pipeline file were found wrong when they were used.

    Attributes:
        problems: What is wrong, and where; the lines are not known here.
    """

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__(*problems)


def mistake(message: str, *place: str | int) -> MistakeError:
    """Return the error for one part of a pipeline file.

    Args:
        message: What is wrong, and what to write.
        place: The place in the file, as ``"select", "key"``.
    """
    return MistakeError(Problem(message, place))


def expressions(pipeline: Pipeline) -> Iterator[tuple[Place, str]]:
    """Yield all expressions, each with its place in the file."""
    for name, value in pipeline.select.model_dump(exclude_none=True).items():
        texts = value if isinstance(value, dict) else {}
        if isinstance(value, str):
            yield ("select", name), value
        for header, text in texts.items():
            yield ("select", name, header), text
    for number, text in enumerate(pipeline.order_by):
        yield ("order_by", number), text


def place_of(error: KafkaGuardError, pipeline: Pipeline) -> Place | None:
    """Return the key of the file that caused an error; None: no key caused it."""
    if setting := setting_of(error):
        return _place_of_setting(setting, pipeline)
    if isinstance(error, ClientNotConnectedError):
        return _PLACES["bootstrap_servers"]
    if error.topic is None:
        return None
    if error.topic == pipeline.sink.topic:
        return _PLACES["topic"]
    return _place_of_setting(DEAD_LETTER, pipeline)


def _place_of_setting(setting: str, pipeline: Pipeline) -> Place:
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
