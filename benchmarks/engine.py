"""What a guarded call costs, compared with tenacity, stamina and redress."""

from __future__ import annotations

import asyncio
import time

import redress
import stamina
import tenacity
from rich.console import Console
from rich.table import Table

from kafkaguard import RetryPolicy, errors, retry
from kafkaguard.policies import CallContext
from kafkaguard_policies.running.retrier import Retrier

CALLS = 1_000_000
ROUNDS = 40


class Metrics:
    """A hook that counts, like an exporter of metrics."""

    def __init__(self):
        self.calls = 0
        self.seconds = 0.0

    def __call__(self, _event):
        """Count an event."""
        self.calls += 1

    def on_success(self, _context, elapsed, _policy_id):
        """Count a success."""
        self.calls += 1
        self.seconds += elapsed


def bare():
    """Do nothing; the function that is guarded."""


async def abare():
    """Do nothing; the coroutine that is guarded."""


class OnceFailing:
    """A function that fails at every second call."""

    def __init__(self, error):
        self.error = error
        self.calls = 0

    def __call__(self):
        """Fail, then succeed."""
        self.calls += 1
        if self.calls % 2:
            raise self.error()


def per_call(fn, calls):
    """Return the CPU time of a call in microseconds."""
    repeat = [None] * calls
    start = time.process_time()
    for _ in repeat:
        fn()
    return (time.process_time() - start) / calls * 1e6


def per_await(fn, calls):
    """Return the CPU time of an awaited call in microseconds."""

    async def loop():
        repeat = [None] * calls
        start = time.process_time()
        for _ in repeat:
            await fn()
        return (time.process_time() - start) / calls * 1e6

    return asyncio.run(loop())


def measured(measure, fns, calls):
    """Return the best of several rounds for each function; each round has all."""
    rounds = [
        {n: measure(f, calls // ROUNDS) for n, f in fns.items()} for _ in range(ROUNDS)
    ]
    return {name: min(one[name] for one in rounds) for name in fns}


def successes():
    """Measure the success path of functions."""
    metrics = Retrier(RetryPolicy(), hooks=[Metrics()])
    return measured(
        per_call,
        {
            "bare call": bare,
            "kafkaguard @retry": retry("default")(bare),
            "kafkaguard @retry, metrics on": lambda: metrics.run(bare),
            "redress": _redress(),
            "tenacity": tenacity.retry(stop=tenacity.stop_after_attempt(5))(bare),
            "stamina": stamina.retry(on=OSError)(bare),
        },
        CALLS,
    )


def _redress():
    policy = redress.Policy(
        retry=redress.Retry(
            classifier=redress.default_classifier,
            strategy=redress.strategies.decorrelated_jitter(max_s=1.0),
        )
    )
    return lambda: policy.call(bare)


def awaits():
    """Measure the success path of coroutines."""
    timed = RetryPolicy(attempt_timeout=5)

    async def timeout():
        async with asyncio.timeout(5):
            await abare()

    return measured(
        per_await,
        {
            "bare await": abare,
            "kafkaguard acall": lambda: RETRIER.arun(abare),
            "kafkaguard @retry": retry("default")(abare),
            "kafkaguard, attempt_timeout set": retry(timed)(abare),
            "asyncio.timeout": timeout,
            "tenacity": tenacity.retry(stop=tenacity.stop_after_attempt(5))(abare),
            "stamina": stamina.retry(on=OSError)(abare),
        },
        CALLS // 4,
    )


RETRIER = Retrier(RetryPolicy())


def one_failure():
    """Measure one failure and then a success, without sleeping."""
    reads = Retrier(
        RetryPolicy(budget=None), CallContext(api="Fetch"), sleep=lambda _: None
    )
    failing = OnceFailing(errors.CoordinatorLoadInProgressError)
    tenacious = tenacity.Retrying(sleep=lambda _: None, reraise=True)
    other = OnceFailing(errors.CoordinatorLoadInProgressError)
    return measured(
        per_call,
        {
            "kafkaguard": lambda: reads.run(failing),
            "tenacity": lambda: tenacious(other),
        },
        100_000,
    )


def _over(rows, name):
    return rows[name] - rows[next(iter(rows))]


def main() -> bool:
    """Print the tables; return True if a limit is missed."""
    call, awaited, failure = successes(), awaits(), one_failure()
    console = Console()
    for title, rows in (
        (f"success, {CALLS:,} calls", call),
        ("success, awaited", awaited),
        ("one failure, then success", failure),
    ):
        table = Table(title, "µs a call")
        for name, value in rows.items():
            table.add_row(name, f"{value:.2f}")
        console.print(table)
    limits = [
        ("success, over a bare call", _over(call, "kafkaguard @retry"), 0.3),
        ("with metrics on", _over(call, "kafkaguard @retry, metrics on"), 1.0),
        ("acall, over a bare await", _over(awaited, "kafkaguard acall"), 1.0),
        ("@retry, over a bare await", _over(awaited, "kafkaguard @retry"), 1.0),
        ("one failure, then success", failure["kafkaguard"], 20.0),
    ]
    table = Table("What, in µs", "Measured", "At most")
    for title, value, limit in limits:
        table.add_row(title, f"{value:.2f}", f"{limit:g}")
    console.print(table)
    return any(value > limit for _, value, limit in limits)
