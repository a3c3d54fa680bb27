"""Schemas of messages: kafka-python's and kafkaguard's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from kafkaguard._verdicts.apis import API_KEYS

_ENGINE = "kafka.protocol.schemas.resources"
_OWN = "kafkaguard.protocol.schemas"


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, including both ends."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        """Return whether a version is in the range."""
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schema.

    Attributes:
        name: Its name in content, such as ``broker_id``.
        kind: Its type; for an array, the type of its elements.
        array: Whether it is an array.
        default: The default as written in the schema; None if there is none.
        compact: Whether it is compact in flexible versions; only a client id is not.
        fields: The fields of a struct.
    """

    name: str
    kind: str
    array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: object
    ignorable: bool
    compact: bool
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """One direction of a message, or a header."""

    name: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


@cache
def names() -> tuple[str, ...]:
    """Return the names of the requests with a schema, by API key."""
    return tuple(name for name in API_KEYS if _home(f"{name}Request"))


def _home(name: str) -> str | None:
    for package in (_OWN, _ENGINE):
        if resources.files(package).joinpath(f"{name}.json").is_file():
            return package
    return None


@cache
def load(name: str) -> Schema:
    """Load a schema by its name, such as ``BrokerRegistrationRequest``."""
    from kafka.protocol.schemas import load_json

    json: dict[str, Any] = load_json(name, package=_home(name))
    return Schema(
        name,
        _versions(json["validVersions"]),
        _versions(json["flexibleVersions"]),
        tuple(map(_field, json["fields"])),
    )


def _versions(text: str | None) -> Versions:
    from kafka.protocol.schemas import BaseField

    return Versions(*(BaseField.parse_versions(text) or (-1, -1)))


def _field(json: dict[str, Any]) -> Field:
    from kafka.protocol.schemas import BaseField

    kind = json["type"]
    return Field(
        name=BaseField.underscore_name(json["name"]),
        kind=kind.removeprefix("[]"),
        array=kind.startswith("[]"),
        versions=_versions(json["versions"]),
        nullable=_versions(json.get("nullableVersions")),
        tag=json.get("tag"),
        tagged=_versions(json.get("taggedVersions")),
        default=json.get("default"),
        ignorable=bool(json.get("ignorable")),
        compact=json.get("flexibleVersions") != "none",
        fields=tuple(map(_field, json.get("fields", ()))),
    )
