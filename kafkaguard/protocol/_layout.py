"""Build the layout of a message from its schema and version."""

from __future__ import annotations

from copy import deepcopy
from functools import cache, partial
from typing import TYPE_CHECKING, Any

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
from kafkaguard.protocol._schema import load
from kafkaguard.protocol._uuids import ZERO

if TYPE_CHECKING:
    from kafkaguard.protocol._nodes import Node
    from kafkaguard.protocol._schema import Field, Schema

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
    return _struct(schema, schema.fields, version)


def _struct(schema: Schema, fields: tuple[Field, ...], version: int) -> Struct:
    here = [field for field in fields if version in field.versions]
    tagged = {
        field.tag: _slot(schema, field, version)
        for field in here
        if field.tag is not None and version in field.tagged
    }
    placed = [
        _slot(schema, field, version) for field in here if field.tag not in tagged
    ]
    return Struct(
        placed,
        tagged if version in schema.flexible else None,
        [
            _absent(schema, field)
            for field in fields
            if field not in here and not field.ignorable
        ],
        frozenset(field.name for field in fields),
    )


def _absent(schema: Schema, field: Field) -> Absent:
    first = max(field.versions.first, schema.versions.first)
    last = min(field.versions.last, schema.versions.last)
    versions = f"v{first}" if first == last else f"v{first} to v{last}"
    return Absent(_slot(schema, field, last), versions)


def _slot(schema: Schema, field: Field, version: int) -> Slot:
    node = _node(schema, field, version)
    default = _default(field, version)
    written = bytearray()
    try:
        node.write(written, default)
    except MalformedError:
        return Slot(field.name, node, partial(deepcopy, default), None)
    return Slot(field.name, node, partial(deepcopy, default), bytes(written))


def _node(schema: Schema, field: Field, version: int) -> Node:
    nullable = version in field.nullable
    if field.array:
        compact = version in schema.flexible
        length = Length(0 if compact else 4, nullable)
        return Array(length, _single(schema, field, version, nullable=False))
    return _single(schema, field, version, nullable=nullable)


def _single(schema: Schema, field: Field, version: int, *, nullable: bool) -> Node:
    if field.kind in _FIXED:
        return _FIXED[field.kind]
    compact = version in schema.flexible and field.compact
    if field.kind == "string":
        return Text(Length(0 if compact else 2, nullable))
    if field.kind in ("bytes", "records"):
        return Blob(Length(0 if compact else 4, nullable))
    struct = _struct(schema, field.fields, version)
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
