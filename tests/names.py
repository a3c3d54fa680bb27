"""Names that people and programs give to groups and topics, which are text all the same."""

from __future__ import annotations

NAMES = (
    "[/team]",
    "[red]team",
    "[link=http://x]y[/link]",
    "\x1b[31mred",
    "line\nbreak",
    "tab\there",
    'quote"and\\backslash',
    "<svg>&amp;",
    "x" * 200,
    "\u05e9\u05dc\u05d5\u05dd",
    "\u202eoverride",
    "gr\u00fc\u00dfe-\u65e5\u672c",
)
