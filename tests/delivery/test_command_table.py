"""The table by which drivers execute the machine's commands."""

from __future__ import annotations

from typing import get_args

from kafkaguard._delivery import commands as c
from kafkaguard._delivery.command_table import TABLE, Turn


def test_each_command_has_a_row():
    """So no driver can meet a command that it does not know."""
    assert set(get_args(c.Command)) == set(TABLE)


def test_a_command_in_the_turn_of_a_topic_names_it():
    """The thread driver executes it in the thread of that topic."""
    by_topic = [kind for kind, row in TABLE.items() if row.turn is Turn.TOPIC]
    assert c.TakeBack in by_topic
    assert all(hasattr(kind, "topic") for kind in by_topic)


def test_a_hand_over_that_breaks_has_an_error_for_each_record():
    """The machine waits for all of them."""
    bug = RuntimeError("bug")
    assert TABLE[c.Send].if_raised(c.Send("t", (1, 2, 3)), bug) == [bug] * 3
