"""Text from outside, escaped: names, paths, texts of brokers.

A group may be called ``[/red]`` or hold an escape sequence, a line break or a mark that
turns the writing direction. A terminal, a log or a picture would act on it.
"""

from __future__ import annotations


def plain(text: object) -> str:
    r"""Return text on one line, with each character that cannot be seen written out.

    >>> plain("\x1b[31mred")
    '\\x1b[31mred'
    """
    written = str(text)
    if written.isprintable():
        return written
    return "".join(c if c.isprintable() else _written_out(c) for c in written)


def plain_lines(text: object) -> str:
    """Do the same line by line, for text of our own that has several."""
    return "\n".join(map(plain, str(text).split("\n")))


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
