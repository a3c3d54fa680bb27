"""Connection options that all commands share."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkaguard._cluster.reports import make
from kafkaguard._errors import KafkaGuardError
from kafkaguard.cli.group import Problem
from kafkaguard.cli.numbers import SECONDS
from kafkaguard.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
    from kafkaguard_adapters.wire.settings import Settings

#: The packages that kafka-python needs for a SASL mechanism.
_LOGIN_PACKAGES: Final = {"GSSAPI": "gssapi", "AWS_MSK_IAM": "botocore"}
_MECHANISM_NAMES: Final = ("sasl.mechanism", "sasl.mechanisms")


bootstrap_option = click.option(
    "-b",
    "--bootstrap-server",
    metavar="HOST:PORT,...",
    envvar="KAFKAGUARD_BOOTSTRAP_SERVER",
    show_envvar=True,
    help="Brokers to connect to first.",
)
config_option = click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="KAFKAGUARD_CONFIG",
    show_envvar=True,
    help="A file of client settings, one per line (security.protocol=SSL).",
)
_timeout_option = click.option(
    "--timeout",
    type=SECONDS,
    default=30.0,
    show_default=True,
    help="Seconds that one query of the cluster may take.",
)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``--bootstrap-server``, ``--config`` and ``--timeout``."""
    return bootstrap_option(config_option(_timeout_option(command)))


def connect(bootstrap_server: str | None, config: Path | None) -> ClusterCalls:
    """Return the calls for the given cluster.

    Raises:
        Problem: No cluster is given, or the settings cannot be used.
    """
    from kafkaguard_adapters.asking.cluster_calls import ClusterCalls
    from kafkaguard_adapters.asking.cluster_view import ClusterView

    settings = _read_connection(bootstrap_server, config)[1]
    calls = ClusterCalls()
    calls.cluster_view = ClusterView(lambda: settings, make)
    return calls


def client_settings(
    bootstrap_server: str | None, config: Path | None
) -> dict[str, str]:
    """Return the settings of a client of confluent-kafka for the given cluster.

    Raises:
        Problem: No cluster is given, or the settings cannot be used.
    """
    from kafkaguard_adapters.wire.client_settings import translate

    return translate(_read_connection(bootstrap_server, config)[0])


def _read_connection(
    bootstrap_server: str | None, config: Path | None
) -> tuple[dict[str, str], Settings]:
    from kafkaguard_adapters.confluent.settings import read_settings

    file_settings = {} if config is None else _read_settings(config)
    values = {name: value for name, (value, _) in file_settings.items()}
    if bootstrap_server is not None:
        values.pop("metadata.broker.list", None)
        values["bootstrap.servers"] = bootstrap_server
    if not values.keys() & {"bootstrap.servers", "metadata.broker.list"}:
        raise Problem(
            "no cluster is named: give --bootstrap-server HOST:PORT, or --config FILE "
            "with bootstrap.servers in it, or set KAFKAGUARD_BOOTSTRAP_SERVER"
        )
    try:
        settings = read_settings(values, make)
    except KafkaGuardError as error:
        lines = {name: line for name, (_, line) in file_settings.items()}
        raise Problem(_locate(str(error), config, lines)) from error
    is_given = not values.keys().isdisjoint(_MECHANISM_NAMES)
    _check_login(settings.mechanism, is_given=is_given)
    return values, settings


def _check_login(mechanism: str | None, *, is_given: bool) -> None:
    package = _LOGIN_PACKAGES.get(mechanism or "")
    if package and find_spec(package) is None:
        needs = (
            f"needs the package {package}, which is not installed: "
            f"pip install {package}"
        )
        if is_given:
            raise Problem(f"sasl.mechanism={mechanism} {needs}")
        raise Problem(
            "sasl.mechanism is not given: set it to PLAIN, SCRAM-SHA-256, "
            f"SCRAM-SHA-512 or OAUTHBEARER. Its default is {mechanism}, which {needs}"
        )


def _locate(text: str, config: Path | None, lines: dict[str, int]) -> str:
    """Return the file, and the line of the setting that a text is about."""
    for name, number in lines.items():
        if re.search(rf"(?<![\w.]){re.escape(name)}(?=[\s=:'])", text):
            return f"{config}, line {number}: {text}"
    return text if config is None else f"{config}: {text}"


def _read_settings(path: Path) -> dict[str, tuple[str, int]]:
    from kafkaguard_adapters.wire.client_settings import SettingError, read_properties

    try:
        return read_properties(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path} is not a text file that can be read: {error}") from error
    except SettingError as error:
        raise Problem(f"{path}, {error}") from error


def ask(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Make a call, and turn an error into one line of text.

    Raises:
        Problem: The cluster cannot be reached, or refuses the login.
    """
    try:
        return call(*arguments, **options)
    except (KafkaGuardError, OSError, ValueError) as error:
        raise Problem(str(error)) from error


def print_errors(errors: Iterable[KafkaGuardError]) -> None:
    """Print each error once, however many items it concerns."""
    for text in dict.fromkeys(str(error) for error in errors):
        say(text, err=True)
