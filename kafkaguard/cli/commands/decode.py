"""``kafkaguard decode``: print a Kafka message."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkaguard.cli.content import as_json_knows, lines, without_credentials
from kafkaguard.cli.group import Problem
from kafkaguard.cli.hexdump import from_hex, is_text
from kafkaguard.cli.output import say
from kafkaguard.cli.requests import request_name
from kafkaguard.protocol._errors import ProtocolError
from kafkaguard.protocol._guess import guess_request, guess_version, split_frames
from kafkaguard.protocol._message import Message, message
from kafkaguard.protocol._strangers import stranger

if TYPE_CHECKING:
    from collections.abc import Callable

# A broker's own limit for a request is 100 MiB.
_MOST_BYTES = 128 * 2**20


class Decoded(NamedTuple):
    """A decoded message."""

    found: Message
    side: str
    version: int
    content: dict[str, Any]


@click.command()
@click.argument("source", default="-")
@click.option("--api", help="The name or number of the API, such as Fetch.")
@click.option(
    "--version", type=int, help="The version; by default the newest that fits."
)
@click.option(
    "--response", is_flag=True, help="The message is a response; needs --api."
)
@click.option(
    "--no-header", is_flag=True, help="The message has no header; needs --api."
)
@click.option("--show-secrets", is_flag=True, help="Show credentials.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print a line of JSON for each message."
)
def decode(
    source: str,
    *,
    api: str | None,
    version: int | None,
    response: bool,
    no_header: bool,
    show_secrets: bool,
    as_json: bool,
) -> None:
    """Decode SOURCE: hexadecimal digits, a file, or - for standard input.

    A file holds the bytes, or a dump of them as xxd, hexdump -C or tcpdump -X print it.
    The sizes before messages may be there or not. A request with its header says itself
    what it is; for anything else --api is needed.
    """
    if api is None and (response or no_header):
        raise Problem("only a request with a header names its API: give --api")
    read = _reader(api, version, "response" if response else "request", not no_header)
    for number, data in enumerate(split_frames(_bytes(source)), start=1):
        try:
            decoded = read(data)
        except ProtocolError as error:
            raise Problem(f"{_name(source)}, message {number}: {error}") from None
        _print(decoded, len(data), show_secrets=show_secrets, as_json=as_json)


def _bytes(source: str) -> bytes:
    if source == "-":
        data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    elif _is_there(source):
        data = _read(Path(source))
    else:
        data = source.encode()
    if len(data) > _MOST_BYTES:
        raise Problem(f"{_name(source)}: more than {_MOST_BYTES} bytes; split it")
    found = from_hex(data.decode()) if is_text(data) else data
    for each in (data, found or b""):
        if (protocol := stranger(each)) is not None:
            raise Problem(
                f"{_name(source)}: this is {protocol}, not a Kafka message: check the "
                "port and the security protocol"
            )
    if not found:
        is_argument = source != "-" and not _is_there(source)
        what = "no such file, and no" if is_argument else "no bytes, and no"
        raise Problem(f"{_name(source)}: {what} hexadecimal digits")
    return found


def _name(source: str) -> str:
    """Name the source without showing the message, which may hold credentials."""
    if source == "-":
        return "standard input"
    return source if _is_there(source) else "the argument"


def _is_there(source: str) -> bool:
    try:
        return bool(source) and Path(source).exists()
    except (OSError, ValueError):  # too long for a file name, or not valid as one
        return False


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise Problem(f"{path} is a directory: name one of its files")
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from error


def _reader(
    api: str | None, version: int | None, side: str, with_header: bool
) -> Callable[[bytes], Decoded]:
    def guess(data: bytes) -> Decoded:
        found, told = guess_request(data)
        return Decoded(found, side, told, found.deserialize_request(data, told))

    if api is None:
        return guess
    found = _message(api)
    deserialize = getattr(found, f"deserialize_{side}")

    def read(data: bytes) -> Decoded:
        def as_version(each: int) -> dict[str, Any]:
            content: dict[str, Any] = deserialize(data, each, with_header)
            return content

        if version is not None:
            return Decoded(found, side, version, as_version(version))
        return Decoded(found, side, *guess_version(found, as_version))

    return read


def _message(api: str) -> Message:
    try:
        return message(request_name(api) or api)
    except ProtocolError as error:
        raise Problem(str(error)) from None


def _print(decoded: Decoded, size: int, *, show_secrets: bool, as_json: bool) -> None:
    found, side, version, content = decoded
    if not show_secrets:
        content = without_credentials(content)
    if as_json:
        head = {"message": found.name, "type": side, "version": version}
        click.echo(json.dumps({**head, "content": as_json_knows(content)}))
        return
    say(f"{found.name} {side} v{version} (API key {found.api_key()}, {size} bytes)")
    for line in lines(content):
        say(f"  {line}")
