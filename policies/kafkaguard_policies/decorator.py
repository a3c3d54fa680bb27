"""``retry``: the decorator for functions and coroutine functions."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from kafkaguard._retries.machine import CallContext
from kafkaguard._verdicts.classification import classify
from kafkaguard_policies.reading.reload import PolicyWatcher
from kafkaguard_policies.reading.sources import load_policy
from kafkaguard_policies.running.not_repeatable import (
    check_callable,
    is_generator,
    raise_generator,
    raise_timeout,
)
from kafkaguard_policies.running.retrier import Retrier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaguard._errors.base import Action
    from kafkaguard._retries.events import EventHook
    from kafkaguard_policies.retry_policy import RetryPolicy

P = ParamSpec("P")
T = TypeVar("T")


def retry(  # noqa: PLR0913 - facts about the calls, by name
    policy: RetryPolicy | PolicyWatcher | Mapping[str, Any] | str = "default",
    *,
    api: str | None = None,
    topic: str | None = None,
    client: Any = None,
    idempotent: bool | None = None,
    transactional: bool = False,
    cluster: str | None = None,
    hooks: Sequence[EventHook] = (),
    repairs: Mapping[Action, Callable[[], Any]] | None = None,
    confirm: Callable[[], object] | None = None,
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function or coroutine function to be retried.

    The meaning of an error depends on the request, so give ``api``. Without it the
    function counts as a write, which is not repeated after a timeout.

    Args:
        policy: A policy, an argument of ``load_policy``, or a ``PolicyWatcher``, whose
            current policy is used for each call.
        api: The request that the function makes, by Kafka's name (``"ListOffsets"``).
        topic: The topic of the calls.
        client: The client library that it uses (``"aiokafka"``).
        idempotent: Whether the producer is idempotent.
        transactional: Whether it runs in a transaction.
        cluster: The cluster's id or bootstrap servers. Calls with the same value share
            the retry budget and the breaker.
        hooks: Callables that receive each event.
        repairs: Functions to run before another attempt, by action: ``REFRESH``,
            ``REJOIN``, ``ABORT``, ``RECREATE``. A repair that raises or returns False
            ends the call. Without a repair for the last three, such a failure does.
        confirm: Checks, when a repeated create finds that the object exists, whether it
            is as requested. False, or text on the differences, is logged as a warning.

    When a create or delete is repeated because its answer was lost, the answers "exists
    already" and "does not exist" count as success, and the call returns None.

    Raises:
        TypeError: The object is not a function, is a generator function, or is a plain
            function and the policy has an ``attempt_timeout``.
        ValueError: Kafka has no request named ``api``.

    Example:
        >>> @retry("low-latency", api="Metadata")
        ... def brokers() -> list[str]:
        ...     return ["localhost:9092"]
        >>> brokers()
        ['localhost:9092']
    """
    classify(
        0, api=api, client=client, idempotent=idempotent, transactional=transactional
    )  # checks the arguments now, not at the first failure
    context = CallContext(
        api=api,
        topic=topic,
        client=client,
        cluster=cluster,
        idempotent=idempotent,
        transactional=transactional,
    )
    current = (
        policy.policy if isinstance(policy, PolicyWatcher) else load_policy(policy)
    )
    retrier = Retrier(
        current, context, hooks=hooks, repairs=dict(repairs or {}), confirm=confirm
    )
    if isinstance(policy, PolicyWatcher):
        policy.subscribe(retrier.use)

    return functools.partial(_decorate, retrier)


def _decorate(retrier: Retrier, fn: Any) -> Any:
    check_callable(fn)
    if is_generator(fn):
        raise_generator(fn)
    if inspect.iscoroutinefunction(fn):
        arun = retrier.arun

        @functools.wraps(fn)
        async def retry_coroutine(*args: Any, **kwargs: Any) -> Any:
            return await arun(fn, args, kwargs)

        return retry_coroutine
    if retrier.policy.attempt_timeout is not None:
        raise_timeout(fn)

    @functools.wraps(fn)
    def retry_function(*args: Any, **kwargs: Any) -> Any:
        return retrier.run(fn, args, kwargs)

    return retry_function
