"""``kafkaguard proxy``: faults from a file, in front of a cluster."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.live import Live

from kafkaguard._common.files import kind_of
from kafkaguard.cli.connecting import bootstrap_option
from kafkaguard.cli.group import Problem
from kafkaguard.cli.numbers import SECONDS, SHARE, ListenAddress
from kafkaguard.cli.output import PlainTable, console, say, styled
from kafkaguard.testing import FaultProxy, FaultSpecError, ProxyError
from kafkaguard.testing.proxy.journal import code_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_REFRESH_S = 0.25
#: Seconds to wait for a connection to each broker before the start.
_CONNECT_S = 5.0


@click.command(help="Run a proxy between clients and brokers that injects faults.")
@bootstrap_option
@click.option(
    "--faults",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A YAML file of faults. Without it the proxy only shows the traffic.",
)
@click.option(
    "--listen",
    type=ListenAddress(),
    default="127.0.0.1:0",
    metavar="HOST:PORT",
    show_default=True,
    help="The address that stands for the first broker.",
)
@click.option("--advertise", metavar="HOST", help="The host that clients connect to.")
@click.option(
    "--rate",
    type=SHARE,
    help="The share of requests that fail, for faults without a rate.",
)
@click.option("--seed", type=int, help="Choose the same requests in each run.")
@click.option(
    "--pause-file",
    type=click.Path(path_type=Path),
    help="While this file exists, no fault happens.",
)
@click.option("--for", "seconds", type=SECONDS, help="Stop after this many seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def proxy(  # noqa: PLR0913 - click hands over each option
    *,
    bootstrap_server: str | None,
    faults: Path | None,
    listen: tuple[str, int],
    advertise: str | None,
    rate: float | None,
    seed: int | None,
    pause_file: Path | None,
    seconds: float | None,
    as_json: bool,
) -> None:
    """Run the proxy until it is interrupted or its time is over."""
    if bootstrap_server is None:
        raise Problem(
            "no cluster is named: give --bootstrap-server HOST:PORT, or set "
            "KAFKAGUARD_BOOTSTRAP_SERVER"
        )
    host, port = listen
    if pause_file is not None and kind_of(pause_file.absolute().parent) != "folder":
        raise Problem(f"--pause-file {pause_file}: its folder does not exist")
    try:
        running = FaultProxy(
            bootstrap_server, host=host, port=port, advertised_host=advertise
        )
        if faults is not None:
            running.load(faults, rate=rate, seed=seed)
        _check_reachable(running)
        running.start()
    except (FaultSpecError, ProxyError) as error:
        raise Problem(str(error)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{faults} is not a text file that can be read") from error
    try:
        with suppress(KeyboardInterrupt):
            say(f"Clients connect to {running.bootstrap_servers}", err=as_json)
            _watch(running, pause_file, seconds, quiet=as_json)
    finally:
        running.stop()
    if as_json:
        click.echo(json.dumps(_counts(running)))
    else:
        say(_summary(running))


def _check_reachable(running: FaultProxy) -> None:
    """Check that a broker can be reached; clients would only see closed connections."""
    refusals = []
    for host, port in running.upstream:
        try:
            socket.create_connection((host, port), _CONNECT_S).close()
        except OSError as error:
            refusals.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    raise Problem(
        "--bootstrap-server: no broker accepts a connection: "
        f"{', '.join(refusals)}. Start one, or correct the address"
    )


def _watch(
    running: FaultProxy, pause_file: Path | None, seconds: float | None, *, quiet: bool
) -> None:
    """Update the kill switch and the table until the end."""
    screen = console(quiet=quiet)
    end = None if seconds is None else time.monotonic() + seconds
    with Live(_table(running), console=screen, transient=True) as live:
        while end is None or time.monotonic() < end:
            running.paused = pause_file is not None and pause_file.exists()
            live.update(_table(running))
            time.sleep(_REFRESH_S)


def _table(running: FaultProxy) -> PlainTable:
    title = "paused: no faults" if running.paused else None
    table = PlainTable("API", "requests", "errors", title=title)
    for row in _rows(running):
        table.add_row(*row)
    for fault in running.faults:
        table.add_row(styled(fault, "bold"), str(fault.fired), "")
    return table


def _rows(running: FaultProxy) -> Iterator[tuple[str, str, str]]:
    counts = running.journal.counts()
    for api, requests in counts.requests.most_common():
        errors = ", ".join(
            f"{code_name(code)}: {times}"
            for (name, code), times in counts.errors.most_common()
            if name == api
        )
        yield api, str(requests), errors


def _counts(running: FaultProxy) -> dict[str, Any]:
    counts = running.journal.counts()
    return {
        "requests": dict(counts.requests),
        "errors": [
            {"api": api, "code": code, "name": code_name(code), "times": times}
            for (api, code), times in counts.errors.items()
        ],
        "faults": [{"fault": str(f), "fired": f.fired} for f in running.faults],
    }


def _summary(running: FaultProxy) -> str:
    rows = [f"{api}: {requests}  {errors}" for api, requests, errors in _rows(running)]
    fired = [f"{fault}: {fault.fired}" for fault in running.faults]
    return "\n".join(line.rstrip() for line in (*rows, *fired))
