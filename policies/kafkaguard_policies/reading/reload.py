"""``PolicyWatcher``: reload a policy file when it changes."""

from __future__ import annotations

import logging
from threading import Event as Flag
from threading import Lock, Thread
from typing import TYPE_CHECKING

from kafkaguard._common import arguments
from kafkaguard._common.logs import Log
from kafkaguard._retries.events import EventHook, ReloadEvent, emit
from kafkaguard._retries.machine import CallContext
from kafkaguard_policies.model.fields import DAY
from kafkaguard_policies.model.problems import PolicyError
from kafkaguard_policies.reading.sources import load_policy
from kafkaguard_policies.running.not_repeatable import check_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Self

    from kafkaguard_policies.retry_policy import RetryPolicy

_log = Log("policies")
_log.logger.addHandler(logging.NullHandler())


class PolicyWatcher:
    """Keeps the policy of a file up to date.

    A change takes effect as a whole: ``policy`` is the old one or the new one. If the
    new file cannot be used, the old policy stays in force. The log and the hooks get
    one report with that policy and the problems of the file.

    Args:
        source: The path of the file, or anything else that ``load_policy`` takes.
        interval: Seconds between two checks after ``start``.
        hooks: Callables that receive ``ReloadEvent``.

    Raises:
        PolicyError: The file cannot be used when the watcher is made.
        TypeError: ``interval`` is not a number.
        ValueError: ``interval`` is not above 0, or is more than a day.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        interval: float = 5.0,
        hooks: Sequence[EventHook] = (),
    ) -> None:
        if arguments.seconds("PolicyWatcher(): interval", interval) > DAY:
            raise ValueError(f"PolicyWatcher(): interval is a day at most: {DAY:g} s")
        self.source = source
        self.policy: RetryPolicy = load_policy(source)
        self._interval = interval
        self._hooks = check_hooks(hooks)
        self._subscribers: list[Callable[[RetryPolicy], object]] = []
        self._problem: str | None = None
        self._lock = Lock()
        self._stopped = Flag()
        self._thread: Thread | None = None

    def subscribe(self, change: Callable[[RetryPolicy], object]) -> None:
        """Call ``change`` with each new policy."""
        self._subscribers.append(change)

    def reload(self) -> ReloadEvent | None:
        """Check the file now.

        Returns:
            The event; None if nothing has changed.
        """
        with self._lock:
            old, problem = self.policy, None
            try:
                self.policy = load_policy(self.source)
            except PolicyError as error:
                problem = str(error)
            except Exception as error:  # noqa: BLE001 - reported once, not at every check
                problem = f"{self.source} cannot be read: {error!r}"
            if (self.policy, problem) == (old, self._problem):
                return None
            self._problem = problem
            return self._report(old, problem)

    def _report(self, old: RetryPolicy, problem: str | None) -> ReloadEvent:
        policy = self.policy
        if problem is None:
            _log.info(
                "policy_reloaded",
                "policy %s: now %s",
                self.source,
                policy.policy_id,
                policy=policy.name,
                source=self.source,
            )
            self._notify(policy)
        else:
            _log.error(
                "policy_refused",
                "policy %s stays in force: %s",
                policy.policy_id,
                problem,
                policy=policy.name,
                source=self.source,
            )
        event = ReloadEvent(
            policy=policy.name,
            policy_id=policy.policy_id,
            context=CallContext(),
            source=str(self.source),
            old_policy_id=old.policy_id,
            problem=problem,
        )
        emit(self._hooks, event)
        return event

    def _notify(self, policy: RetryPolicy) -> None:
        for change in self._subscribers:
            try:
                change(policy)
            except Exception:  # noqa: BLE001 - the other subscribers are called
                _log.exception(
                    "subscriber_raised",
                    "%r raised an exception for the new policy, which is in use: "
                    "correct the subscriber",
                    change,
                    policy=policy.name,
                )

    def start(self) -> Self:
        """Check the file every ``interval`` seconds, in a thread of its own."""
        if self._thread is None:
            self._stopped.clear()
            self._thread = Thread(
                target=self._watch, name="kafkaguard-policy", daemon=True
            )
            self._thread.start()
        return self

    def stop(self, timeout: float = 5.0) -> None:
        """Stop checking, and wait at most ``timeout`` seconds for the thread to end.

        Raises:
            TypeError: ``timeout`` is not a number.
            ValueError: ``timeout`` is not above 0, or has no end.
        """
        timeout = arguments.seconds("stop(): timeout", timeout)
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout)
            self._thread = None

    def __enter__(self) -> Self:
        """Start checking."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop checking."""
        self.stop()

    def _watch(self) -> None:
        while not self._stopped.wait(self._interval):
            try:
                self.reload()
            except Exception:  # noqa: BLE001 - the next check may succeed
                _log.exception(
                    "policy_check_failed",
                    "policy %s: the check failed, and the present policy stays in use; "
                    "the next check follows",
                    self.source,
                    source=self.source,
                )
