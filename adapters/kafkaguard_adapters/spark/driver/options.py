"""Options of ``df.write.format("kafkaguard")``, checked by name and value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafkaguard._common.closest import did_you_mean
from kafkaguard_adapters.spark.once.rules import SETTING
from kafkaguard_adapters.spark.setting_errors import setting_error
from kafkaguard_adapters.spark.settings import make_settings
from kafkaguard_adapters.wire.client_settings import known_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaguard_adapters.spark.settings import SinkSettings

_PREFIX = "kafka."
_SERVERS = "kafka.bootstrap.servers"
_OWN = (
    "compacted",
    "max_record_bytes",
    "policy",
    "report",
    "topic",
)
#: Spark itself adds it to a stream.
_FROM_SPARK = frozenset({"checkpointlocation"})


def from_options(options: Mapping[str, str]) -> SinkSettings:
    """Make settings from Spark's options.

    Raises:
        ClientConfigurationError: An option is unknown (the text has the closest name),
            needs the prefix ``kafka.``, or has a wrong value.
    """
    own: dict[str, Any] = {}
    config: dict[str, str] = {}
    for name, value in ((name.lower(), value) for name, value in options.items()):
        if name.startswith(_PREFIX):
            config[name.removeprefix(_PREFIX)] = value
        elif name in _OWN:
            own[name] = _READERS[name](name, value) if name in _READERS else value
        elif name not in _FROM_SPARK:
            raise setting_error(_describe_unknown(name))
    servers = config.pop("bootstrap.servers", None)
    return make_settings(servers, config=config, **own)


def _describe_unknown(name: str) -> str:
    if name == SETTING:
        return (
            "the data source has no shuffle and no number of the batch, so it cannot "
            "write exactly once: use kafkaguard.spark.write or foreach_batch"
        )
    if name in known_names("java", "librdkafka"):
        return f"option {name!r} does nothing without its prefix: write kafka.{name}"
    hint = did_you_mean(name, _OWN) or did_you_mean(name, [_SERVERS])
    names = ", ".join(_OWN)
    return f"there is no option {name!r}{hint}; the options are {names} and kafka.*"


def _read_flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise setting_error(f"option {name} is true or false, not {value!r}")
    return value.lower() == "true"


def _read_number(name: str, value: str) -> int:
    if not value.isdigit():
        raise setting_error(f"option {name} is a number of bytes, not {value!r}")
    return int(value)


def _read_policy(_name: str, value: str) -> Any:
    """Read JSON; any other text is the name of a preset or a file."""
    if not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        text = f"option policy is not valid JSON: {error}"
        raise setting_error(text, setting="policy") from None


_READERS = {
    "compacted": _read_flag,
    "max_record_bytes": _read_number,
    "policy": _read_policy,
}
