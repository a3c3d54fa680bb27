"""Schemas of messages (kafka-python's and kafkaguard's own), and their layouts.

A layout is a schema in one version, ready to encode and decode.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from kafkaguard._verdicts.apis import API_KEYS
from kafkaguard.protocol._errors import MalformedError
from kafkaguard.protocol._nodes import Absent, Array, Nullable, Slot, Struct
from kafkaguard.protocol._scalars import (
    Blob,
    Boolean,
    Float,
    Integer,
    Length,
    Text,
    Uuid,
)
from kafkaguard.protocol._uuids import ZERO

if TYPE_CHECKING:
    from kafkaguard.protocol._nodes import Node


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


_LAYOUTS = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}
_FIXED: dict[str, Node] = {
    **{kind: Integer(kind, layout) for kind, layout in _LAYOUTS.items()},
    "bool": Boolean(),
    "float64": Float(),
    "uuid": Uuid(),
}


@cache
def layout(name: str, version: int) -> Struct:
    """Build the layout of a message or header in one version."""
    schema = load(name)
    return _make_struct(schema, schema.fields, version)


def _make_struct(schema: Schema, fields: tuple[Field, ...], version: int) -> Struct:
    present = [field for field in fields if version in field.versions]
    tagged = {
        field.tag: _make_slot(schema, field, version)
        for field in present
        if field.tag is not None and version in field.tagged
    }
    placed = [
        _make_slot(schema, field, version)
        for field in present
        if field.tag not in tagged
    ]
    return Struct(
        placed,
        tagged if version in schema.flexible else None,
        [
            _make_absent(schema, field)
            for field in fields
            if field not in present and not field.ignorable
        ],
        frozenset(field.name for field in fields),
    )


def _make_absent(schema: Schema, field: Field) -> Absent:
    first = max(field.versions.first, schema.versions.first)
    last = min(field.versions.last, schema.versions.last)
    versions = f"v{first}" if first == last else f"v{first} to v{last}"
    return Absent(_make_slot(schema, field, last), versions)


def _make_slot(schema: Schema, field: Field, version: int) -> Slot:
    node = _make_node(schema, field, version)
    default = _default(field, version)
    encoded = bytearray()
    try:
        node.write(encoded, default)
    except MalformedError:
        return Slot(field.name, node, partial(deepcopy, default), None)
    return Slot(field.name, node, partial(deepcopy, default), bytes(encoded))


def _make_node(schema: Schema, field: Field, version: int) -> Node:
    nullable = version in field.nullable
    if field.array:
        compact = version in schema.flexible
        length = Length(0 if compact else 4, nullable)
        return Array(length, _make_single(schema, field, version, nullable=False))
    return _make_single(schema, field, version, nullable=nullable)


def _make_single(schema: Schema, field: Field, version: int, *, nullable: bool) -> Node:
    if field.kind in _FIXED:
        return _FIXED[field.kind]
    compact = version in schema.flexible and field.compact
    if field.kind == "string":
        return Text(Length(0 if compact else 2, nullable))
    if field.kind in ("bytes", "records"):
        return Blob(Length(0 if compact else 4, nullable))
    struct = _make_struct(schema, field.fields, version)
    return Nullable(struct) if nullable else struct


def _default(field: Field, version: int) -> Any:
    """Return the default of a field, as in Kafka's own classes."""
    if field.default == "null":
        return None
    if field.array:
        return []
    if field.fields:
        inner = [each for each in field.fields if version in each.versions]
        return {each.name: _default(each, version) for each in inner}
    return _SIMPLE_DEFAULTS[field.kind](str(field.default or ""))


_SIMPLE_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(_LAYOUTS, lambda text: int(text or "0", 0)),
    "bool": lambda text: text.lower() == "true",
    "float64": lambda text: float(text or 0),
    "uuid": lambda _: ZERO,
    "string": str,
    "bytes": str.encode,
    "records": str.encode,
}
