"""``kafkaguard decode``: print a Kafka message."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkaguard._common.files import kind_of
from kafkaguard.cli.content import (
    as_json_knows,
    from_hex,
    is_text,
    lines,
    without_credentials,
)
from kafkaguard.cli.group import Problem, request_name
from kafkaguard.cli.output import say
from kafkaguard.protocol._errors import ProtocolError
from kafkaguard.protocol._guess import guess_request, guess_version, split_frames
from kafkaguard.protocol._message import Message, message
from kafkaguard.protocol._other_protocols import name_protocol

if TYPE_CHECKING:
    from collections.abc import Callable

# A broker's own limit for a request is 100 MiB.
_MOST_BYTES = 128 * 2**20


class Decoded(NamedTuple):
    """A decoded message."""

    message_type: Message
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
    decode_one = _make_decoder(
        api, version, "response" if response else "request", not no_header
    )
    for number, data in enumerate(split_frames(_read_source(source)), start=1):
        try:
            decoded = decode_one(data)
        except ProtocolError as error:
            raise Problem(
                f"{_name_source(source)}, message {number}: {error}"
            ) from None
        _print(decoded, len(data), show_secrets=show_secrets, as_json=as_json)


def _read_source(source: str) -> bytes:
    if source == "-":
        data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    elif kind_of(source):
        data = _read_file(Path(source))
    else:
        data = source.encode()
    if len(data) > _MOST_BYTES:
        raise Problem(
            f"{_name_source(source)}: more than {_MOST_BYTES} bytes; split it"
        )
    content = from_hex(data.decode()) if is_text(data) else data
    for each in (data, content or b""):
        if (protocol := name_protocol(each)) is not None:
            raise Problem(
                f"{_name_source(source)}: this is {protocol}, not a Kafka message: "
                "check the port and the security protocol"
            )
    if not content:
        is_argument = source != "-" and not kind_of(source)
        reason = "no such file, and no" if is_argument else "no bytes, and no"
        raise Problem(f"{_name_source(source)}: {reason} hexadecimal digits")
    return content


def _name_source(source: str) -> str:
    """Name the source without showing the message, which may hold credentials."""
    if source == "-":
        return "standard input"
    return source if kind_of(source) else "the argument"


def _read_file(path: Path) -> bytes:
    if path.is_dir():
        raise Problem(f"{path} is a directory: name one of its files")
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from error


def _make_decoder(
    api: str | None, version: int | None, side: str, with_header: bool
) -> Callable[[bytes], Decoded]:
    def guess(data: bytes) -> Decoded:
        message_type, stated_version = guess_request(data)
        return Decoded(
            message_type,
            side,
            stated_version,
            message_type.deserialize_request(data, stated_version),
        )

    if api is None:
        return guess
    message_type = _find_message(api)
    deserialize = getattr(message_type, f"deserialize_{side}")

    def read(data: bytes) -> Decoded:
        def as_version(each: int) -> dict[str, Any]:
            content: dict[str, Any] = deserialize(data, each, with_header)
            return content

        if version is not None:
            return Decoded(message_type, side, version, as_version(version))
        return Decoded(message_type, side, *guess_version(message_type, as_version))

    return read


def _find_message(api: str) -> Message:
    try:
        return message(request_name(api) or api)
    except ProtocolError as error:
        raise Problem(str(error)) from None


def _print(decoded: Decoded, size: int, *, show_secrets: bool, as_json: bool) -> None:
    message_type, side, version, content = decoded
    if not show_secrets:
        content = without_credentials(content)
    if as_json:
        head = {"message": message_type.name, "type": side, "version": version}
        click.echo(json.dumps({**head, "content": as_json_knows(content)}))
        return
    key = message_type.api_key()
    say(f"{message_type.name} {side} v{version} (API key {key}, {size} bytes)")
    for line in lines(content):
        say(f"  {line}")
