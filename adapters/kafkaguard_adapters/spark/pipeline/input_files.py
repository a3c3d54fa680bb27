"""Checks of a source's files without Spark, if they are on this machine."""

from __future__ import annotations

import bz2
import gzip
from glob import glob
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Formats of text: Spark reads any bytes as text.
TEXTS: Final = ("csv", "json", "text", "xml")
#: First bytes of compressed files, and the ending by which Spark knows them.
_COMPRESSED: Final = {
    b"\x1f\x8b\x08": ("gzip", ".gz"),
    b"BZh91AY&SY": ("bzip2", ".bz2"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", ".zst"),
    b"PK\x03\x04": ("zip", None),
    b"\xfd7zXZ\x00": ("xz", None),
}
_OPENERS: Final[dict[str, Any]] = {".gz": gzip.open, ".bz2": bz2.open}
#: Endings of compressed files whose lines cannot be read here.
_UNREAD: Final = (".zst", ".snappy", ".lz4", ".deflate")
_MOST_FILES: Final = 10_000
_HEAD_BYTES: Final = 64 * 1024


def files_at(path: str) -> Iterator[Path]:
    """Yield the files at a local path, as Spark finds them: at most 10,000.

    Args:
        path: A file, a folder or a pattern.
    """
    yield from islice(_walk(path), _MOST_FILES)


def _walk(path: str) -> Iterator[Path]:
    for root in map(Path, sorted(glob(path))):  # noqa: PTH207 - a user's pattern
        if not root.is_dir():
            yield root
        else:
            for file in sorted(root.rglob("*")):
                parts = file.relative_to(root).parts
                if file.is_file() and not any(map(_is_hidden, parts)):
                    yield file


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def describe_empty_files(files: Iterable[Path]) -> str | None:
    """Return a text if there are files, and all of them are empty."""
    listed = list(files)
    try:
        if not listed or any(file.stat().st_size for file in listed):
            return None
    except OSError:
        return None  # Spark reports it.
    number = len(listed)
    which = f"the file {listed[0]} is" if number == 1 else f"all {number:,} files are"
    return f"{which} empty: nothing was read, and nothing was written"


def describe_wrong_compression(files: Iterable[Path]) -> str | None:
    """Find a compressed file that Spark would read as text; say what to do."""
    for file in files:
        try:
            with file.open("rb") as content:
                head = content.read(16)
        except OSError:
            continue  # Spark reports it.
        for magic, (name, ending) in _COMPRESSED.items():
            if not head.startswith(magic) or file.suffix.lower() == ending:
                continue
            advice = (
                f"unpack it, because Spark does not read {name}"
                if ending is None
                else f"rename it so that its name ends with {ending}"
            )
            return (
                f"the file {file} is compressed with {name}, and Spark would read it "
                f"as text: {advice}"
            )
    return None


def find_different_heads(
    addresses: Iterable[str], options: Mapping[str, str]
) -> list[str]:
    """Return one file for each different first line.

    Args:
        addresses: The addresses of CSV files, as ``file:///...``.
        options: The source's options, by their names in lower case.

    Returns:
        The addresses; empty if the files are not on this machine, or all empty.
    """
    by_head: dict[bytes, str] = {}
    for address in addresses:
        try:
            head = _read_head(address, options)
        except (OSError, EOFError):
            continue  # Spark reports it, if it cannot read the file either.
        if head is not None:
            by_head.setdefault(head, address)
    return list(by_head.values())


def _read_head(address: str, options: Mapping[str, str]) -> bytes | None:
    """Return the first line of a file that is not blank or a comment."""
    place = urlsplit(address)
    path = Path(unquote(place.path))
    if place.scheme != "file" or path.suffix in _UNREAD:
        return None
    with _OPENERS.get(path.suffix, open)(path, "rb") as file:
        start: bytes = file.read(_HEAD_BYTES)
    end = options.get("linesep", "\n").encode()
    comment = options.get("comment", "").encode()
    for line in start.removeprefix(b"\xef\xbb\xbf").split(end):
        if line.strip() and not (comment and line.startswith(comment)):
            return line.rstrip(b"\r")
    return None
