"""A picture of lag over time, as SVG: one line a group."""

from __future__ import annotations

from html import escape
from itertools import groupby, starmap
from typing import TYPE_CHECKING, Final

from kafkaguard._common.text import plain
from kafkaguard.cli.group import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_WIDTH: Final = 720
_HEIGHT: Final = 320
_LEFT: Final = 80
_BOTTOM: Final = 40
_TOP: Final = 30
_RIGHT: Final = 180
_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_TICKS: Final = 4
_SVG: Final = "http://www.w3.org/2000/svg"
_FONT: Final = 'font-family="sans-serif" font-size="12"'


def check_writable(path: Path, option: str = "--plot") -> None:
    """Find out before the work whether the picture can be kept.

    Raises:
        Problem: It cannot.
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


def picture(times: Sequence[float], lags: Mapping[str, Sequence[int | None]]) -> str:
    """Draw it.

    Args:
        times: Seconds of each look.
        lags: Total lag at each look, by group; None leaves a gap.
    """
    start = times[0]
    span = max(times[-1] - start, 1e-9)
    top = max((lag or 0 for each in lags.values() for lag in each), default=0) or 1

    def point(time: float, lag: float) -> str:
        x = _LEFT + (time - start) / span * (_WIDTH - _LEFT - _RIGHT)
        y = _HEIGHT - _BOTTOM - lag / top * (_HEIGHT - _TOP - _BOTTOM)
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="{_SVG}" viewBox="0 0 {_WIDTH} {_HEIGHT}" {_FONT}>',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="18">lag in offsets, over {span:.0f} s</text>',
    ]
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        x, y = point(start, value).split(",")
        parts.append(
            f'<line x1="{x}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{y}" text-anchor="end">{value:,.0f}</text>'
        )
    for position, (group, values) in enumerate(lags.items()):
        colour = _COLOURS[position % len(_COLOURS)]
        row = _TOP + 16 * position
        parts += [
            f'<polyline points="{" ".join(starmap(point, run))}" fill="none" '
            f'stroke="{colour}" stroke-width="2"/>'
            for run in _runs(times, values)
        ]
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 10}" y="{row}" fill="{colour}">'
            f"{escape(plain(group))}</text>"
        )
    return "\n".join([*parts, "</svg>\n"])


def _runs(
    times: Sequence[float], values: Sequence[int | None]
) -> Iterator[list[tuple[float, int]]]:
    """Split a line where it has no value."""
    looks = zip(times, values, strict=True)
    for is_known, run in groupby(looks, lambda look: look[1] is not None):
        if is_known:
            yield [(time, lag) for time, lag in run if lag is not None]
