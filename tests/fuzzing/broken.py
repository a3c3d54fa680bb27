"""A target with a bug, for the test of the program that fuzzes."""

from __future__ import annotations

from tests.fuzzing.targets import Target, read_corpus, write_corpus

__all__ = ["TARGETS", "read_corpus", "write_corpus"]


def check(data):
    """Fail as code with a bug does."""
    if data[:1] == b"b":
        raise ZeroDivisionError("a bug")


TARGETS = {"broken": Target(check, lambda: [b"bx"], ("tests.fuzzing.broken",))}
