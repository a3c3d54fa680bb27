"""The picture of a schedule, as SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaguard_policies.advice.preview import Preview, PreviewRow

_LEFT, _WIDTH, _ROW, _TOP = 90, 560, 22, 48


def picture(preview: Preview) -> str:
    """Draw when each attempt happens: a dot expected, a bar for the band, a tick worst.

    Args:
        preview: The schedule.

    Returns:
        An SVG document.
    """
    longest = max((row.worst_elapsed for row in preview.rows), default=1.0) or 1.0
    shown = min(longest, preview.deadline)
    height = _TOP + _ROW * (len(preview.rows) + 2)
    body = [_title(preview), _axis(shown, height)]
    body += [_row(index, row, shown) for index, row in enumerate(preview.rows, 1)]
    total = _LEFT + _WIDTH + 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" '
        f'width="{total}" height="{height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _title(preview: Preview) -> str:
    words = f"{preview.policy} ({preview.policy_id}) after {preview.action}"
    first = _label(_TOP, "attempt 1") + _dot(0.0, _TOP)
    ending = "" if preview.ending is None else _ending(preview.ending)
    title = f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(words)}</text>'
    return title + first + ending


def _ending(words: str) -> str:
    return f'<text x="{_LEFT}" y="{_TOP + _ROW}">{escape(words)}</text>'


def _axis(shown: float, height: int) -> str:
    y = height - 14
    marks = "".join(
        f'<text x="{_x(part * shown, shown):.1f}" y="{y}" text-anchor="middle" '
        f'fill="#555">{part * shown:.3g} s</text>'
        for part in (0, 0.25, 0.5, 0.75, 1)
    )
    line = f'<path d="M{_LEFT} {y - 14}h{_WIDTH}" stroke="#999"/>'
    return line + marks


def _row(index: int, row: PreviewRow, shown: float) -> str:
    y = _TOP + index * _ROW
    start = row.expected_elapsed - row.expected
    low, high = (_x(start + value, shown) for value in (row.low, row.high))
    worst = _x(row.worst_elapsed, shown)
    title = (
        f"<title>wait {row.expected:.3g} s expected, {row.low:.3g} to {row.high:.3g} s "
        f"in nine of ten, {row.worst:.3g} s at worst</title>"
    )
    return (
        f"<g>{title}{_label(y, f'attempt {row.attempt}')}"
        f'<rect x="{low:.1f}" y="{y - 5}" width="{max(high - low, 1):.1f}" height="10" '
        f'fill="#9ecae1"/>'
        f'<path d="M{worst:.1f} {y - 7}v14" stroke="#d62728" stroke-width="2"/>'
        f"{_dot(row.expected_elapsed, y, shown)}</g>"
    )


def _label(y: int, words: str) -> str:
    return f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{words}</text>'


def _dot(seconds: float, y: int, shown: float = 1.0) -> str:
    return f'<circle cx="{_x(seconds, shown):.1f}" cy="{y}" r="4" fill="#08519c"/>'


def _x(seconds: float, shown: float) -> float:
    return _LEFT + _WIDTH * min(seconds / shown, 1.0)
