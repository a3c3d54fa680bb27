"""Whether a measure grows: the slope through samples, with its 95 % interval.

Samples that follow each other are alike, so the slope goes through the means of blocks
of them. Each run of a program is a segment with a level of its own.
"""

from __future__ import annotations

from statistics import fmean
from typing import NamedTuple

#: The share of a segment that is not judged: a program grows when it begins.
WARM_UP = 0.25
#: Blocks of all segments together, and of each segment at least.
BLOCKS, LEAST_BLOCKS = 16, 4
HOUR_S = 3600.0


class Trend(NamedTuple):
    """How a measure changes.

    Attributes:
        slope: The change in an hour.
        low: The lower end of its 95 % interval.
        high: The upper end.
        growth: The change in the time that was judged.
    """

    slope: float
    low: float
    high: float
    growth: float

    def is_flat(self, bound: float) -> bool:
        """Whether the interval contains 0, or the growth is below a bound."""
        return self.low <= 0 or self.growth < bound


def trend(segments):
    """Judge segments of samples.

    Args:
        segments: Lists of ``(seconds, value)``, each in the order of time.

    Raises:
        ValueError: There are not enough samples.
    """
    judged = [_judged(each) for each in segments]
    judged = [each for each in judged if len(each) >= LEAST_BLOCKS]
    if not judged:
        raise ValueError("there are not enough samples to judge")
    share = max(LEAST_BLOCKS, BLOCKS // len(judged))
    points, seconds = [], 0.0
    for segment in judged:
        blocks = [_mean(block) for block in _cut(segment, min(share, len(segment)))]
        middle, level = _mean(blocks)
        points += [(at - middle, value - level) for at, value in blocks]
        seconds += segment[-1][0] - segment[0][0]
    spread = sum(at * at for at, _ in points)
    slope = sum(at * value for at, value in points) / spread
    freedom = len(points) - len(judged) - 1
    rest = sum((value - slope * at) ** 2 for at, value in points)
    error = (rest / freedom / spread) ** 0.5 * quantile(freedom)
    low, high = (HOUR_S * (slope + sign * error) for sign in (-1, 1))
    return Trend(HOUR_S * slope, low, high, slope * seconds)


def quantile(freedom):
    """Return the 97.5 % quantile of Student's t (Cornish and Fisher), from 2 up."""
    z = 1.959964
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _judged(segment):
    """Leave the beginning of a segment out."""
    if not segment:
        return []
    start = segment[0][0] + WARM_UP * (segment[-1][0] - segment[0][0])
    return [each for each in segment if each[0] >= start]


def _cut(segment, count):
    """Cut a segment into so many blocks."""
    size = len(segment) / count
    return [segment[int(n * size) : int((n + 1) * size)] for n in range(count)]


def _mean(points):
    times, values = zip(*points, strict=True)
    return fmean(times), fmean(values)


def sparkline(values, width=24):
    """Draw values as a line of blocks."""
    marks = "▁▂▃▄▅▆▇█"
    if not values:
        return ""
    means = [fmean(block) for block in _cut(values, min(width, len(values)))]
    low, high = min(means), max(means)
    unit = (high - low) / (len(marks) - 1) or 1
    return "".join(marks[round((each - low) / unit)] for each in means)
