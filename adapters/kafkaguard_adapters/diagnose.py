"""``kafkaguard.cluster.diagnose``: the call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kafkaguard._cluster.reports import make
from kafkaguard._common import arguments
from kafkaguard._doctor.checks import CHECKS
from kafkaguard._doctor.facts import Facts
from kafkaguard_adapters.asking.diagnosis import Examination
from kafkaguard_adapters.confluent.settings import read_settings
from kafkaguard_adapters.stacking import read_confluent
from kafkaguard_adapters.wire.client_settings import ALIASES
from kafkaguard_adapters.wire.io_thread import run
from kafkaguard_policies.advice.stacking import check_stacking
from kafkaguard_policies.reading.sources import load_policy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaguard._doctor.findings import Diagnosis
    from kafkaguard_policies.retry_policy import RetryPolicy

TIMEOUT_S = 60.0
#: Seconds between two looks: the usual interval of automatic commits.
INTERVAL_S = 5.0
FULL = 0.85


def diagnose(  # noqa: PLR0913 - one for each wish
    config: Mapping[str, Any],
    *,
    policy: Any = None,
    topics: Iterable[str] | str | None = None,
    groups: Iterable[str] | str | None = None,
    only: Iterable[str] | str | None = None,
    samples: int = 1,
    interval: float = INTERVAL_S,
    full: float = FULL,
    timeout: float = TIMEOUT_S,
) -> Diagnosis:
    """Find out what is wrong with a cluster for one client and its policy.

    It asks as the user of ``config``, and changes nothing. What needs a right, a
    version or a second look that is missing is "not judged", with the reason. Its
    requests do not grow in number with topics or groups.

    Args:
        config: The client's settings, by librdkafka's or Java's names.
        policy: The client's policy: the name of a preset, a policy, or its settings.
            Default: none, so nothing is compared with it.
        topics: Look only at these topics. Default: all.
        groups: Look only at these groups. Default: all.
        only: Run only these checks: ``reach``, ``topics``, ``groups``,
            ``transactions``, ``rights``, ``settings``, ``disks``. Default: all.
        samples: Looks at groups and transactions; from two on it is judged whether
            groups commit and members stay. Default: 1.
        interval: Seconds between two looks; at least the interval of commits.
            Default: 5.
        full: The share of a disk above which it counts as full. Default: 0.85.
        timeout: Seconds for everything, without the intervals. Default: 60.

    Returns:
        The findings, the gravest first.

    Raises:
        KafkaGuardError: No broker can be reached, or the settings cannot be used.
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value that is not allowed.
    """
    areas = tuple(
        arguments.one_of("only", each, CHECKS)
        for each in arguments.names("only", only) or ()
    )
    samples = arguments.whole_number("samples", samples, 1)
    interval = arguments.seconds("interval", interval)
    limit = arguments.seconds("timeout", timeout)
    connection = read_settings(config, make)
    named = arguments.names("topics", topics)
    own = {
        ALIASES.get(name, name): str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for name, value in config.items()
    }
    facts = Facts(
        ",".join(f"{host}:{port}" for host, port in connection.bootstrap),
        settings={
            k: v.lower() if v in ("True", "False") else v for k, v in own.items()
        },
        interval=interval,
        full=full,
    )
    if policy is not None:
        _add_policy(facts, load_policy(policy), config, named)
    wanted = arguments.names("groups", groups)
    facts.wanted_groups = wanted or ()

    async def examine() -> Diagnosis:
        deadline = asyncio.get_running_loop().time() + limit + interval * (samples - 1)
        examination = Examination(connection, facts, named, wanted, deadline)
        return await examination.run(areas, samples)

    return run(examine())


def _add_policy(
    facts: Facts,
    policy: RetryPolicy,
    config: Mapping[str, Any],
    topics: tuple[str, ...] | None,
) -> None:
    """Add what the policy says about dead letters, and what contradicts it."""
    letters = policy.dead_letter
    if letters is not None:
        facts.letters = {each: letters.topic_for(each) for each in topics or ()}
        if "{topic}" not in letters.topic:
            facts.letters = {"all topics": letters.topic}
    kind = "consumer" if "group.id" in facts.settings else "producer"
    settings = read_confluent(None, kind, config)
    found = check_stacking(policy, settings, kind=kind, client="confluent-kafka")  # type: ignore[arg-type]  # one of two
    facts.clashes = tuple((each.setting, str(each)) for each in found)
