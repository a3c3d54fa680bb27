"""Consumer lag as numbers of gauges."""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING, Final

from kafkaguard._cluster.lag import LagReason
from kafkaguard.telemetry import _metrics as m

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaguard._cluster.lag import GroupLag, LagReport
    from kafkaguard.telemetry._metrics import Samples

#: How the topics beyond ``max_topics`` become one; offsets of two logs do not add up.
_JOINED: Final[dict[str, Callable[[float, float], float]]] = {
    **dict.fromkeys(("lag", "lost", "blocked"), add),
    "time_lag": max,
}


def add_lag(report: LagReport, samples: Samples, capped: Callable[[str], str]) -> None:
    """Add the lag of all groups to samples.

    The lag of topics that a group no longer reads is left out, so that sums are right,
    and so is each value that is not known.

    Args:
        report: The lag.
        samples: The values by metric and attributes.
        capped: Returns the name of a topic, or of all topics beyond a limit.
    """
    for name, group in report.groups.items():
        for each in group.partitions.values():
            topic = capped(each.topic)
            partition = "" if topic == m.OTHER else str(each.partition)
            labels = (name, topic, partition)
            for attribute, metric in m.LAG.items():
                value = getattr(each, attribute)
                is_left = attribute == "lag" and each.reason is LagReason.LEFT
                if value is None or is_left:
                    continue
                values = samples[metric]
                if partition:
                    values[labels] = float(value)
                elif attribute in _JOINED:
                    values[labels] = _JOINED[attribute](values[labels], float(value))
        for reason in _unknown(group):
            samples[m.UNKNOWN][name, reason] += 1


def _unknown(group: GroupLag) -> list[str]:
    """Return why the group, and each partition without a lag, has none."""
    reasons = [group.reason if group.error is None else LagReason.ERROR]
    for each in group.partitions.values():
        is_out = each.lag is None or each.reason is LagReason.LEFT
        reasons.append(each.reason if is_out else None)
    return [str(reason) for reason in reasons if reason is not None]
