"""A schedule of attempts as a picture (SVG)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svg import element, picture, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaguard_policies.advice.preview import PreviewRow

_LEFT, _WIDTH, _ROW, _TOP = 90, 560, 22, 48
_TOTAL = _LEFT + _WIDTH + 40


def schedule_picture(
    title: str, rows: Sequence[PreviewRow], deadline: float, ending: str | None
) -> str:
    """Draw the attempts: a dot is expected, a bar the range, a tick the worst case.

    Args:
        title: The words above the picture.
        rows: The schedule.
        deadline: Seconds that the call may take; infinite if unbounded.
        ending: Why there is no wait, or None if there is one.

    Returns:
        An SVG document.
    """
    longest = max((row.worst_elapsed for row in rows), default=1.0) or 1.0
    shown = min(longest, deadline)
    height = _TOP + _ROW * (len(rows) + 2)
    return picture(
        _TOTAL,
        height,
        text(_LEFT, 20, title, font_weight="bold"),
        _label(_TOP, "attempt 1"),
        _dot(0.0, _TOP, shown),
        *([] if ending is None else [text(_LEFT, _TOP + _ROW, ending)]),
        *_axis(shown, height - 14),
        *(_row(_TOP + n * _ROW, row, shown) for n, row in enumerate(rows, 1)),
    )


def _axis(shown: float, y: int) -> list[str]:
    marks = [
        text(
            _x(part * shown, shown),
            y,
            f"{part * shown:.3g} s",
            text_anchor="middle",
            fill="#555",
        )
        for part in (0, 0.25, 0.5, 0.75, 1)
    ]
    return [element("path", d=f"M{_LEFT} {y - 14}h{_WIDTH}", stroke="#999"), *marks]


def _row(y: int, row: PreviewRow, shown: float) -> str:
    start = row.expected_elapsed - row.expected
    low, high = (_x(start + value, shown) for value in (row.low, row.high))
    worst = f"M{_x(row.worst_elapsed, shown):.1f} {y - 7}v14"
    words = (
        f"wait {row.expected:.3g} s expected, {row.low:.3g} to {row.high:.3g} s "
        f"in nine of ten, {row.worst:.3g} s at worst"
    )
    band = {"x": low, "y": y - 5, "width": max(high - low, 1.0), "height": 10}
    return element(
        "g",
        element("title", words),
        _label(y, f"attempt {row.attempt}"),
        element("rect", **band, fill="#9ecae1"),
        element("path", d=worst, stroke="#d62728", stroke_width=2),
        _dot(row.expected_elapsed, y, shown),
    )


def _label(y: int, words: str) -> str:
    return text(_LEFT - 12, y + 4, words, text_anchor="end")


def _dot(seconds: float, y: int, shown: float) -> str:
    return element("circle", cx=_x(seconds, shown), cy=y, r=4, fill="#08519c")


def _x(seconds: float, shown: float) -> float:
    return _LEFT + _WIDTH * min(seconds / shown, 1.0)
