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

    from kafkaguard._retries.events import EventHook
    from kafkaguard._verdicts.verdict import Action
    from kafkaguard_policies.retry_policy import RetryPolicy

P = ParamSpec("P")
T = TypeVar("T")


def retry(  # noqa: PLR0913 - what is known about the calls, by name
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
    """Decorate a function or coroutine function so that it is tried again.

    What its errors mean depends on what it does, so say which request it leads to:
    without ``api`` it counts as a write, which is not repeated after a timeout.

    Args:
        policy: A policy, what ``load_policy`` takes, or a ``PolicyWatcher``, whose
            policy of the moment holds for each call.
        api: The request that it leads to, by Kafka's name (``"ListOffsets"``).
        topic: The topic concerned.
        client: The client library in between (``"aiokafka"``).
        idempotent: Whether the producer is.
        transactional: Whether it runs in a transaction.
        cluster: The cluster's id or bootstrap servers: calls with the same share the
            retry budget and the breaker.
        hooks: Who is told what happens.
        repairs: What can be done before another attempt; see ``Retrier``.
        confirm: Looks whether what an earlier attempt has made is as it was asked for;
            see ``Retrier``.

    A create or delete that is repeated because its answer was lost takes "exists
    already" and "is not there" for its success, and returns None.

    Raises:
        TypeError: For what is no function, for a generator function, and for a plain
            function if the policy has an ``attempt_timeout``; each with the reason.
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
    )  # only to have its arguments checked here, not at the first failure
    context = CallContext(
        api=api,
        topic=topic,
        client=client,
        cluster=cluster,
        idempotent=idempotent,
        transactional=transactional,
    )
    chosen = policy.policy if isinstance(policy, PolicyWatcher) else load_policy(policy)
    retrier = Retrier(chosen, context, hooks=hooks, repairs=repairs, confirm=confirm)
    if isinstance(policy, PolicyWatcher):
        policy.subscribe(retrier.use)

    def decorate(fn: Callable[P, T]) -> Callable[P, T]:
        decorated: Callable[P, T] = _decorated(retrier, fn)
        return decorated

    return decorate


def _decorated(retrier: Retrier, fn: Any) -> Any:
    check_callable(fn)
    if is_generator(fn):
        raise_generator(fn)
    if inspect.iscoroutinefunction(fn):
        arun = retrier.arun

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await arun(fn, args, kwargs)

        return functools.wraps(fn)(awaited)
    if retrier.policy.attempt_timeout is not None:
        raise_timeout(fn)

    def called(*args: Any, **kwargs: Any) -> Any:
        return retrier.run(fn, args, kwargs)

    return functools.wraps(fn)(called)
