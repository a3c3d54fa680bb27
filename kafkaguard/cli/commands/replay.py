"""``kafkaguard replay``: dead letters go back to their topics, each once."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaguard._errors import KafkaGuardError
from kafkaguard.cli.connecting import (
    bootstrap_option,
    client_settings,
    config_option,
)
from kafkaguard.cli.group import Problem
from kafkaguard.cli.numbers import COUNT, SECONDS
from kafkaguard.cli.output import PlainTable, console, say

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from kafkaguard_adapters.replay.report import ReplayPlan, ReplayReport
    from kafkaguard_adapters.replay.run import Replay

#: Without an offset it is local time.
_TIME = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"])


def _many(name: str, variable: str, text: str) -> Callable[..., Any]:
    return click.option(name, variable, multiple=True, help=f"{text}; may be repeated.")


@click.command()
@bootstrap_option
@config_option
@click.argument("topic")
@click.option("--to", help="Send all records to this topic.")
@click.option("--fix", metavar="MODULE:FUNCTION", help="Change, drop or leave letters.")
@_many("--reason", "reasons", "Only letters with this reason")
@_many("--code", "codes", "Only letters with this error code, a number or a name")
@_many("--key", "keys", "Only letters with this key")
@click.option(
    "--since", type=_TIME, metavar="TIME", help="Only records from this time on."
)
@click.option(
    "--until", type=_TIME, metavar="TIME", help="Only records before this time."
)
@click.option("--plan", is_flag=True, help="Show what would be sent, and end.")
@click.option("--yes", is_flag=True, help="Send without asking.")
@click.option("--canary", type=COUNT, help="Send so many letters first, and ask.")
@click.option("--watch", metavar="GROUP", help="After the canary wait for this group.")
@click.option("--rate", type=SECONDS, help="The most letters a second.")
@click.option("--max-back", type=SECONDS, help="Stop if more come back a second.")
@click.option("--policy", default="transactional-producer", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one document of JSON.")
@click.pass_context
def replay(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    *,
    bootstrap_server: str | None,
    config: Path | None,
    topic: str,
    to: str | None,
    fix: str | None,
    reasons: tuple[str, ...],
    codes: tuple[str, ...],
    keys: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    plan: bool,
    yes: bool,
    canary: int | None,
    watch: str | None,
    rate: float | None,
    max_back: float | None,
    policy: str,
    as_json: bool,
) -> None:
    """Send the letters of the dead-letter TOPIC back, each once.

    First it shows what it would send, and asks. Letters that it does not send are
    appended to TOPIC again. If it is killed, start it again: it goes on where it was.

    Exit code: 0 all letters were replayed, 1 some are left, 2 wrong use or the cluster
    cannot be used, 3 letters came back faster than --max-back.
    """
    from kafkaguard_adapters.replay.calls import make_selection, open_replay

    if watch is not None and canary is None:
        raise click.UsageError("--watch waits after the canary: give --canary too")
    values = client_settings(bootstrap_server, config)
    try:
        job = open_replay(
            topic,
            values,
            selection=make_selection(reasons, codes, keys, since, until),
            to=to,
            fix=None if fix is None else _load(fix),
            rate=rate,
            policy=policy,
            tell=lambda text: say(text, err=True),
        )
    except (KafkaGuardError, ValueError) as error:
        raise Problem(str(error)) from error

    try:
        job.look()
        if not as_json:
            _show_plan(job.plan)
        if not plan:
            if job.plan.selected and not yes:
                click.confirm("Send them?", abort=True, err=True)
            job.run(
                canary=canary, confirm=_confirmation(job, watch, yes), max_back=max_back
            )
    except KafkaGuardError as error:
        end = f"\n{_describe_end(job.report)}" if job.plan.letters else ""
        raise Problem(f"{error}{end}") from error
    except KeyboardInterrupt:
        say(_describe_end(job.report), err=True)
        raise
    finally:
        job.close()
    _show_report(job.report, as_json=as_json, plan=plan)
    ctx.exit(0 if plan else job.report.exit_code)


def _confirmation(job: Replay, watch: str | None, yes: bool) -> Callable[[], bool]:
    """Return what decides after the canary whether to go on."""
    if watch is not None:
        from kafkaguard_adapters.replay.calls import WATCH_S

        return lambda: job.watch(watch, WATCH_S)
    return lambda: yes or click.confirm("The canary was sent. Go on?", err=True)


def _load(name: str) -> Any:
    """Import the function of ``--fix``.

    Raises:
        Problem: There is no such function.
    """
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise Problem(f"--fix {name}: {error}; write MODULE:FUNCTION") from error


def _describe_end(report: ReplayReport) -> str:
    return (
        f"{report.replayed:,} letters were replayed and {report.remaining:,} are where "
        "they were: start the same command again to go on"
    )


def _show_plan(plan: ReplayPlan) -> None:
    table = PlainTable(title=f"Letters in {plan.topic}")
    table.add_column("What")
    table.add_column("Letters", justify="right")
    table.add_row("from the position on", f"{plan.letters:,}")
    for title, counts in (("reason", plan.reasons), ("error", plan.errors)):
        for name, count in counts.most_common():
            table.add_row(f"{title} {name}", f"{count:,}")
    table.add_row("taken by this replay", f"{plan.selected:,}")
    for name, count in plan.topics.most_common():
        table.add_row(f"to {name}", f"{count:,}")
    for name, count in plan.refused.most_common():
        table.add_row(f"would be left: {name}", f"{count:,}")
    console().print(table)
    for remark in plan.remarks:
        say(f"- {remark}")


def _show_report(report: ReplayReport, *, as_json: bool, plan: bool) -> None:
    if as_json:
        code = 0 if plan else report.exit_code
        click.echo(json.dumps({**report.to_dict(), "exit_code": code}))
    if as_json or plan:
        return
    table = PlainTable(title=f"Replay of {report.plan.topic}")
    table.add_column("Letters")
    table.add_column("Count", justify="right")
    table.add_row("replayed", f"{report.replayed:,}")
    table.add_row("dropped", f"{report.dropped:,}")
    for why, count in report.left.most_common():
        table.add_row(f"left: {why}", f"{count:,}")
    table.add_row("not reached", f"{report.remaining:,}")
    table.add_row("came back", f"{report.back:,}")
    console().print(table)
    if report.stopped:
        say(f"It stopped: {report.stopped}.")
