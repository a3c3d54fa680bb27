"""Find a continuous trigger, under which Spark never calls a sink in Python.

Spark passes no trigger to a sink. But a micro-batch is written to the checkpoint's log
of offsets before its sink is planned, and a continuous query writes to that log only
while it runs. So a plan without a micro-batch that is under way is a continuous one.
"""

from __future__ import annotations

from pyarrow import fs

from kafkaguard_adapters.spark.driver.batch_notes import file_system
from kafkaguard_adapters.spark.setting_errors import setting_error

NO_CONTINUOUS = (
    "trigger(continuous=...) cannot be used: Spark does not call a sink in Python "
    "under it, and would count every record as written; use "
    "trigger(processingTime=...) or trigger(availableNow=True), or Spark's own sink "
    "with guard_sink"
)


def check_trigger(checkpoint: str) -> None:
    """Check that a micro-batch is under way, while its sink is planned.

    Args:
        checkpoint: The stream's checkpoint. If its file system is not one of Arrow's,
            nothing is checked.

    Raises:
        ClientConfigurationError: The query has a continuous trigger.
    """
    try:
        planned, done = (_last(checkpoint, log) for log in ("offsets", "commits"))
    except (OSError, ValueError):
        return
    if planned <= done:
        raise setting_error(NO_CONTINUOUS)


def _last(checkpoint: str, log: str) -> int:
    """Return the last number in a log of the checkpoint; -1: there is none."""
    files, path = file_system(f"{checkpoint.rstrip('/')}/{log}")
    entries = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
    names = (each.base_name for each in entries)
    return max((int(name) for name in names if name.isdecimal()), default=-1)
