"""The casts in an SQL expression that can turn a value into null."""

from __future__ import annotations

import re

_CALL = re.compile(
    r"(?:try_)?cast\s*\((?P<inner>.+)\s+as\s+[\w<>:,() ]+\)", re.IGNORECASE | re.DOTALL
)
_SUFFIX = re.compile(r"(?P<inner>.+?)\s*::\s*\w+(?:\s*\([\d, ]+\))?", re.DOTALL)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)


def strip_casts(expression: str) -> str | None:
    """Return the expression inside the casts of which an expression consists.

    >>> strip_casts("cast(try_cast(k AS int) AS string)")
    'k'

    Args:
        expression: A Spark SQL expression.

    Returns:
        The expression inside the innermost cast; None if it is not a cast.
    """
    inner = _strip_one(expression.strip())
    if inner is None:
        return None
    return strip_casts(inner) or inner


def _strip_one(expression: str) -> str | None:
    for form in (_CALL, _SUFFIX):
        match = form.fullmatch(expression)
        if match and _has_whole_brackets(match["inner"]):
            return match["inner"].strip()
    return None


def _has_whole_brackets(expression: str) -> bool:
    """Return whether all brackets are balanced, so that no bracket was cut."""
    depth = 0
    for character in _QUOTED.sub("", expression):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0
