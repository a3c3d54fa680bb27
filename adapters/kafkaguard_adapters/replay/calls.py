"""``kafkaguard.replay``: the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaguard._common import arguments
from kafkaguard._common.extras import require
from kafkaguard_adapters.replay.letters import Selection
from kafkaguard_policies.reading.sources import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from kafkaguard._retries.events import Event
    from kafkaguard_adapters.replay.letters import DeadLetter
    from kafkaguard_adapters.replay.report import ReplayReport
    from kafkaguard_adapters.replay.run import Replay

#: Seconds that a watched group has to pass the canary.
WATCH_S = 600.0


def replay(  # noqa: PLR0913 - one for each wish
    topic: str,
    config: Mapping[str, Any],
    *,
    to: str | None = None,
    reasons: Iterable[str] | str | None = None,
    codes: Iterable[str] | str | None = None,
    keys: Iterable[bytes | str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    fix: Callable[[DeadLetter], DeadLetter | None] | None = None,
    canary: int | None = None,
    watch: str | None = None,
    rate: float | None = None,
    max_back: float | None = None,
    policy: Any = "transactional-producer",
    plan_only: bool = False,
    tell: Callable[[str], object] = lambda _: None,
    on_event: Callable[[Event], object] | None = None,
) -> ReplayReport:
    """Send dead letters back to the topics that their headers name, each once.

    Each transaction has the records, the letters that are left (they are appended to
    the dead-letter topic again) and the position of the group
    ``kafkaguard.replay.TOPIC``. So a replay that was killed goes on where it was, and
    readers with ``isolation.level=read_committed`` see each record once. A second
    replay of the same topic takes over: the first one ends with a
    ``FencedError``. Letters that arrive after the start are not read. Headers of all
    dialects are read; the record keeps its own headers, and ``kafkaguard.attempts``
    counts how often it was set aside.

    Args:
        topic: The dead-letter topic.
        config: confluent-kafka's settings: ``bootstrap.servers``, TLS and login.
        to: The topic to which all records go. Default: that of each letter.
        reasons: Take only letters with one of these reasons. Default: all but
            SUPERSEDED, whose key has a newer record in the topic.
        codes: Take only letters with one of these error codes, as numbers or names.
        keys: Take only letters with one of these keys.
        since: Take only records with this time or a later one.
        until: Take only records before this time.
        fix: Called with each letter; returns it, or another one made by
            ``dataclasses.replace``, or None to drop it. If it raises an exception, the
            letter is left. A repeated transaction calls it again.
        canary: Send so many letters first. Give ``watch`` too.
        watch: After the canary, wait for up to ten minutes until this consumer group
            has passed its records; go on only if no letter came back.
        rate: The most letters a second. Default: no limit.
        max_back: Stop if letters come back faster than so many a second, measured over
            ten seconds. Default: no limit.
        policy: How hard a transaction is tried: the name of a preset, a policy, or its
            settings.
        plan_only: Look, and send nothing.
        tell: Called with lines of text about the progress.
        on_event: Called with each event of the producer, such as a
            :class:`kafkaguard.telemetry.Telemetry`.

    Returns:
        What was sent and what is left, with the plan.

    Raises:
        KafkaGuardError: The cluster cannot be used, or another replay has taken over.
            What was committed stays, nothing else was sent, and a later replay goes on
            there.
        ModuleNotFoundError: confluent-kafka is not installed.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value that is not allowed.
    """
    if canary is not None and watch is None:
        raise ValueError("canary needs watch: the group that has to pass its records")
    job = open_replay(
        topic,
        config,
        selection=make_selection(reasons, codes, keys, since, until),
        to=to,
        fix=fix,
        rate=rate,
        policy=policy,
        tell=tell,
        on_event=on_event,
    )
    try:
        job.look()
        if plan_only:
            return job.report
        return job.run(
            canary=canary,
            confirm=lambda: watch is None or job.watch(watch, WATCH_S),
            max_back=max_back,
        )
    finally:
        job.close()


def open_replay(
    topic: str, config: Mapping[str, Any], *, policy: Any, **options: Any
) -> Replay:
    """Open a replay; its clients are closed by the caller.

    Raises:
        ModuleNotFoundError: confluent-kafka is not installed.
    """
    require("replay", "confluent", "confluent_kafka")
    from kafkaguard_adapters.replay.run import Replay

    return Replay(topic, config, load_policy(policy), **options)


def make_selection(
    reasons: Iterable[str] | str | None,
    codes: Iterable[str] | str | None,
    keys: Iterable[bytes | str],
    since: datetime | None,
    until: datetime | None,
) -> Selection:
    """Make the selection of letters.

    Raises:
        TypeError: An argument has the wrong type.
    """
    return Selection(
        frozenset(arguments.names("reasons", reasons) or ()),
        frozenset(map(str, arguments.names("codes", codes) or ())),
        frozenset(k.encode() if isinstance(k, str) else k for k in keys),
        _to_ms(since),
        _to_ms(until),
    )


def _to_ms(time: datetime | None) -> int | None:
    return None if time is None else int(time.timestamp() * 1000)
