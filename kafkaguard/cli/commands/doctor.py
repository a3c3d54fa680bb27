"""``kafkaguard doctor``: what is wrong with a cluster, for this client and policy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from kafkaguard._doctor.checks import CHECKS
from kafkaguard._doctor.findings import Severity
from kafkaguard.cli.connecting import ask, client_settings, connection_options
from kafkaguard.cli.numbers import COUNT, PERCENT, SECONDS
from kafkaguard.cli.output import console, say, styled

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaguard._doctor.findings import Diagnosis

_RISKY, _BAD = 1, 3
_STYLES = {
    Severity.BAD: "bold red",
    Severity.RISKY: "yellow",
    Severity.FINE: "green",
    Severity.NOT_JUDGED: "dim",
}


@click.command()
@connection_options
@click.option("--policy", help="A preset or a policy file that the client uses.")
@click.option("--topic", "topics", multiple=True, help="Only this topic; may repeat.")
@click.option("--group", "groups", multiple=True, help="Only this group; may repeat.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(list(CHECKS)),
    help="Only these checks; may be repeated.",
)
@click.option(
    "--samples",
    type=COUNT,
    default=1,
    show_default=True,
    help="Looks at groups and transactions. From 2 on: do groups commit?",
)
@click.option(
    "--interval",
    type=SECONDS,
    default=5.0,
    show_default=True,
    help="Seconds between two looks; at least the interval of commits.",
)
@click.option(
    "--full",
    type=PERCENT,
    default=85.0,
    show_default=True,
    help="A disk counts as full above this, in percent.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    *,
    bootstrap_server: str | None,
    config: Path | None,
    timeout: float,
    policy: str | None,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    only: tuple[str, ...],
    samples: int,
    interval: float,
    full: float,
    as_json: bool,
) -> None:
    """Say what is wrong with the cluster, for this user, client and policy.

    Each finding has its evidence, what it leads to, and what to do. A line with $ is a
    command that removes the finding. The doctor itself changes nothing.

    Exit code: 0 nothing is wrong, 1 something is risky, 2 the cluster cannot be
    reached, 3 something is bad.
    """
    from kafkaguard_adapters.diagnose import diagnose

    settings = client_settings(bootstrap_server, config)
    diagnosis: Diagnosis = ask(
        diagnose,
        settings,
        policy=policy,
        topics=topics or None,
        groups=groups or None,
        only=only or None,
        samples=samples,
        interval=interval,
        full=full / 100,
        timeout=timeout,
    )
    if as_json:
        click.echo(json.dumps(diagnosis.to_dict(), indent=2))
    else:
        _show(diagnosis)
    codes = {Severity.BAD: _BAD, Severity.RISKY: _RISKY}
    ctx.exit(codes.get(diagnosis.worst, 0))


def _show(diagnosis: Diagnosis) -> None:
    """Print each finding as a block; a command stands in a line of its own."""
    screen = console()
    for each in diagnosis.findings:
        style = _STYLES[each.severity]
        screen.print(styled(f"{each.severity}: {each.place}", style))
        lines = [f"{each.check}: {each.evidence}"]
        lines += [f"leads to: {each.leads_to}"] if each.leads_to else []
        lines += [f"do: {each.advice}"] if each.advice else []
        lines += [f"$ {each.command}"] if each.command else []
        for line in lines:
            say(f"    {line}")
    counts = ", ".join(f"{len(diagnosis.of(each))} {each}" for each in Severity)
    say(f"{counts}; it took {diagnosis.seconds:.1f} s")
