"""All commands of the machine: their turn, what executes them, and what answers.

A driver executes a command by its row in ``TABLE``, which calls methods of the driver
(``d``). What may take long may be a coroutine, which the driver awaits.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaguard._delivery import commands as c

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaguard._delivery.commands import Command


class Turn(Enum):
    """When a command is executed, and what it waits for.

    At any time at most one command of a topic is running, and one of the client.
    """

    NOW = "at once, under the lock of the driver, before its next fact"
    QUICK = "without the lock, and waits for no other command"
    TOPIC = "without the lock, after the earlier commands of its topic"
    CLIENT = "without the lock, after the earlier commands of the client"


class Row(NamedTuple):
    """How a command is executed.

    Attributes:
        turn: When it is executed.
        do: Executes it.
        reply: Reports the result and the time to the machine, which returns further
            commands; None: the machine expects no reply.
        if_raised: Makes the result from an exception of ``do``, because the machine
            waits for the reply.
    """

    turn: Turn
    do: Callable[[Any, Any], Any]
    reply: Callable[[Any, Any, Any, float], Sequence[Command]] | None = None
    if_raised: Callable[[Any, BaseException], Any] = lambda *_: None


TABLE: dict[type[Command], Row] = {
    c.Attach: Row(Turn.NOW, lambda d, it: d.shell.attach(it.record)),
    c.Settle: Row(Turn.NOW, lambda d, it: d.settle(it.record)),
    c.ForgetFacts: Row(Turn.NOW, lambda d, it: d.forget_facts(it.topic)),
    c.Tell: Row(Turn.NOW, lambda d, it: d.tell(it.event)),
    c.Warn: Row(Turn.NOW, lambda d, it: d.warn(it)),
    # Each driver wakes the sends that wait after each fact.
    c.FreeSends: Row(Turn.NOW, lambda *_: None),
    c.SendNow: Row(Turn.QUICK, lambda d, _: d.shell.send_now()),
    c.FailBatches: Row(Turn.QUICK, lambda d, it: d.fail_batches(it.batches)),
    # Before the topic's next Send, or the client would take that back, too.
    c.TakeBack: Row(Turn.TOPIC, lambda d, it: d.shell.take_back(it.behind)),
    c.HoldSends: Row(
        Turn.TOPIC,
        lambda d, it: d.hold(it.topic),
        lambda d, it, _, now: d.machine.held(it.topic, now),
    ),
    c.AskSizeLimit: Row(
        Turn.TOPIC,
        lambda d, it: d.shell.ask_size_limit(it.topic),
        lambda d, it, limit, now: d.machine.size_limit(it.topic, limit, now),
    ),
    c.Send: Row(
        Turn.TOPIC,
        lambda d, it: d.hand_over(it.records),
        lambda d, it, handed, now: d.machine.sent(it.topic, handed, now),
        lambda it, error: [error] * len(it.records),
    ),
    c.Shut: Row(Turn.CLIENT, lambda d, _: d.shell.shut()),
    c.HearOut: Row(
        Turn.CLIENT,
        lambda d, it: d.shell.hear_out(it.until),
        lambda d, _it, _, now: d.machine.heard_out(now),
    ),
    c.Stop: Row(
        Turn.CLIENT,
        lambda d, _: d.end_client(),
        lambda d, _it, _, now: d.machine.stopped(now),
    ),
    c.AskAnswers: Row(
        Turn.CLIENT,
        lambda d, it: d.shell.answers(it.batches),
        lambda d, _, answers, now: d.machine.answered(answers, now),
        lambda *_: {},
    ),
    c.Replace: Row(
        Turn.CLIENT,
        lambda d, it: d.replace(it.locking_out),
        lambda d, _, error, now: d.replaced(error, now),
        lambda _, error: error,
    ),
}
