"""A picture of lag over time (SVG)."""

from __future__ import annotations

from itertools import groupby, starmap
from typing import TYPE_CHECKING, Final

from kafkaguard._common.svg import element, picture, text
from kafkaguard.cli.group import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

_WIDTH: Final = 720
_HEIGHT: Final = 320
_LEFT: Final = 80
_BOTTOM: Final = 40
_TOP: Final = 30
_RIGHT: Final = 180
_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_TICKS: Final = 4


def check_writable(path: Path, option: str = "--plot") -> None:
    """Check before the work that the picture can be written.

    Raises:
        Problem: It cannot be written.
    """
    if path.suffix.lower() != ".svg":
        raise Problem(f"{option} {path}: the picture is SVG; end the name in .svg")
    is_new = not path.exists()
    try:
        path.open("a").close()
    except OSError as error:
        raise Problem(f"{option} {path} cannot be written: {error.strerror}") from error
    if is_new:
        path.unlink()


def lag_picture(
    times: Sequence[float], lags: Mapping[str, Sequence[int | None]]
) -> str:
    """Draw the lag of groups over time.

    Args:
        times: The time of each measurement, in seconds.
        lags: The total lag at each measurement, by group; None leaves a gap.
    """
    start = times[0]
    span = max(times[-1] - start, 1e-9)
    top = max((lag or 0 for each in lags.values() for lag in each), default=0) or 1

    def point(time: float, lag: float) -> tuple[float, float]:
        x = _LEFT + (time - start) / span * (_WIDTH - _LEFT - _RIGHT)
        y = _HEIGHT - _BOTTOM - lag / top * (_HEIGHT - _TOP - _BOTTOM)
        return x, y

    parts = [text(_LEFT, 18, f"lag in offsets, over {span:.0f} s")]
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        x, y = point(start, value)
        line = {"x1": x, "y1": y, "x2": _WIDTH - _RIGHT, "y2": y}
        parts += [
            element("line", **line, stroke="#ddd"),
            text(_LEFT - 6, y, f"{value:,.0f}", text_anchor="end"),
        ]
    for position, (group, values) in enumerate(lags.items()):
        colour = _COLOURS[position % len(_COLOURS)]
        parts += [_line(starmap(point, run), colour) for run in _runs(times, values)]
        parts.append(
            text(_WIDTH - _RIGHT + 10, _TOP + 16 * position, group, fill=colour)
        )
    return picture(_WIDTH, _HEIGHT, *parts)


def _line(points: Iterable[tuple[float, float]], colour: str) -> str:
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element(
        "polyline", points=corners, fill="none", stroke=colour, stroke_width=2
    )


def _runs(
    times: Sequence[float], values: Sequence[int | None]
) -> Iterator[list[tuple[float, int]]]:
    """Split a line at missing values."""
    looks = zip(times, values, strict=True)
    for is_known, run in groupby(looks, lambda look: look[1] is not None):
        if is_known:
            yield [(time, lag) for time, lag in run if lag is not None]
