"""Escape text from outside: names, paths, texts of brokers.

A group's name may be ``[/red]`` or contain an escape sequence, a line break or a mark
that reverses the writing direction. A terminal, a log or a picture would interpret it.
"""

from __future__ import annotations


def plain(text: object) -> str:
    r"""Return text on one line, with all invisible characters written out.

    >>> plain("\x1b[31mred")
    '\\x1b[31mred'
    """
    string = str(text)
    if string.isprintable():
        return string
    return "".join(c if c.isprintable() else _escape(c) for c in string)


def plain_lines(text: object) -> str:
    """Do the same for each line of kafkaguard's own text, and keep the line breaks."""
    return "\n".join(map(plain, str(text).split("\n")))


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
