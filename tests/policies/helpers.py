"""What the tests of policies share: time that only moves when told, scripted calls."""

from __future__ import annotations

from kafkaguard.policies import CallContext
from kafkaguard_policies.running.retrier import Retrier


class FakeTime:
    """A clock that moves by what is slept."""

    def __init__(self):
        self.now = 1_000.0
        self.waits = []

    def clock(self):
        """Tell the time."""
        return self.now

    def sleep(self, seconds):
        """Move on."""
        self.waits.append(seconds)
        self.now += seconds

    async def asleep(self, seconds):
        """Move on, for coroutines."""
        self.sleep(seconds)


class Script:
    """A function that raises or returns what it was given, call by call."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.calls = 0

    def __call__(self, *_args, **_kwargs):
        """Take the next outcome; the last one stays."""
        outcome = self.outcomes[min(self.calls, len(self.outcomes) - 1)]
        self.calls += 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def awaited(self, *args, **kwargs):
        """Do the same, for coroutines."""
        return self(*args, **kwargs)


def retrier(policy, time=None, *, api="FindCoordinator", random=lambda: 0.5, **more):
    """A retrier in fake time."""
    time = time or FakeTime()
    context = more.pop("context", None) or CallContext(api=api)
    return Retrier(
        policy,
        context,
        clock=time.clock,
        sleep=time.sleep,
        asleep=time.asleep,
        random=random,
        **more,
    )
