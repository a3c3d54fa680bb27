"""Small wrong changes, and where in a module they can be made.

A change replaces one expression or statement of a syntax tree, and is undone after the
tree was written. Texts for people (strings with a space), docstrings, annotations and
``if TYPE_CHECKING`` are not changed.
"""

from __future__ import annotations

import ast
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

from operators import IDLE_ARGUMENTS, Lacking, expressions, statements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: A field of a node, with the index if the field is a list.
_Spot = tuple[ast.AST, str, int | None]


@dataclass(frozen=True)
class Change:
    """A small wrong change.

    Attributes:
        path: The module, relative to the checkout.
        function: The qualified name of the function or class around it, or
            ``<module>``.
        words: The old and the new code. With ``path`` and ``function`` they are the
            identity, which stays the same if other parts of the file change.
        line: The current line.
        code_of: Name and first line of the outermost function that contains it; None
            if it takes effect when the module is imported.
        spot: The field of the syntax tree, as (node, field, index).
        new: The new node.
    """

    path: str
    function: str
    words: str
    line: int
    code_of: tuple[str, int] | None
    spot: _Spot
    new: ast.AST

    @property
    def identity(self) -> str:
        """The identity, which stays the same while the changed code does."""
        return f"{self.path} | {self.function} | {self.words}"


class Module:
    """A module and the changes that can be made in it."""

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        self.file = root / path
        self.source = self.file.read_text()
        self._tree = ast.parse(self.source)
        seen: Counter[str] = Counter()
        self.changes: list[Change] = []
        for change in _Finder(path, self.source).find(self._tree):
            seen[change.identity] += 1
            if (number := seen[change.identity]) > 1:
                words = f"{change.words} #{number}"
                self.changes.append(replace(change, words=words))
            else:
                self.changes.append(change)

    def changed_text(self, change: Change) -> str:
        """Write the module with the change, without comments."""
        with self._made(change):
            return ast.unparse(self._tree)

    @contextmanager
    def _made(self, change: Change) -> Iterator[None]:
        node, name, index = change.spot
        field: Any = getattr(node, name)
        new: Any = change.new
        if index is not None:
            new = [*field[:index], change.new, *field[index + 1 :]]
        setattr(node, name, new)
        try:
            yield
        finally:
            setattr(node, name, field)


class _Finder:
    """Walks a syntax tree and yields the changes."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source

    def find(self, tree: ast.Module) -> Iterator[Change]:
        yield from self._body(tree, "body", _Where())

    def _body(self, node: ast.AST, name: str, where: _Where) -> Iterator[Change]:
        for index, statement in enumerate(getattr(node, name)):
            yield from self._statement(statement, (node, name, index), where)

    def _statement(self, node: Any, spot: _Spot, where: _Where) -> Iterator[Change]:
        """Yield changes of a statement, then of its parts."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = where.within(node.name)
            yield from self._all(node.args, "defaults", inner)
            yield from self._all(node.args, "kw_defaults", inner)
            yield from self._body(node, "body", inner.in_code_of(node))
        elif isinstance(node, ast.ClassDef):
            yield from self._body(node, "body", where.within(node.name))
        elif not _says_nothing(node):
            for new in statements(node):
                words = self._replaced(node, new)
                if isinstance(new, ast.Pass):
                    words = f"no `{_short(self._text(node))}`"
                yield self._change(node, spot, where, new, words)
            yield from self._fields(node, where)

    def _fields(self, node: ast.AST, where: _Where) -> Iterator[Change]:
        """Yield changes of the parts of a statement."""
        for field, value in ast.iter_fields(node):
            if field in {"body", "orelse", "finalbody"} and isinstance(value, list):
                yield from self._body(node, field, where)
            elif field in {"handlers", "cases"}:
                for part in value:
                    yield from self._parts(part, where, ("type", "guard"))
                    yield from self._body(part, "body", where)
            elif field == "test" and isinstance(value, _PLAIN_TESTS):
                turned = ast.UnaryOp(ast.Not(), value)
                words = f"`if {_short(self._text(value))}` -> `if not`"
                yield self._change(value, (node, field, None), where, turned, words)
                yield from self._expression(value, (node, field, None), where)
            elif field not in {"annotation", "targets", "target"}:
                yield from self._field(node, field, value, where)

    def _parts(
        self, node: ast.AST, where: _Where, only: tuple[str, ...] = ()
    ) -> Iterator[Change]:
        """Yield changes of the parts of an expression."""
        for field, value in ast.iter_fields(node):
            if not only or field in only:
                yield from self._field(node, field, value, where)

    def _field(
        self, node: ast.AST, field: str, value: Any, where: _Where
    ) -> Iterator[Change]:
        if isinstance(value, list):
            yield from self._all(node, field, where)
        elif isinstance(value, ast.expr):
            yield from self._expression(value, (node, field, None), where)
        elif isinstance(value, ast.arguments):
            yield from self._all(value, "defaults", where)

    def _all(self, node: ast.AST, field: str, where: _Where) -> Iterator[Change]:
        for index, value in enumerate(getattr(node, field)):
            if isinstance(value, ast.expr):
                yield from self._expression(value, (node, field, index), where)
            elif (
                isinstance(value, ast.AST)
                and getattr(value, "arg", None) not in IDLE_ARGUMENTS
            ):
                yield from self._parts(value, where)

    def _expression(
        self, node: ast.expr, spot: _Spot, where: _Where
    ) -> Iterator[Change]:
        if _says_nothing(node):
            return
        for new in expressions(node):
            if isinstance(new, Lacking):
                words = f"no `{self._text(new.part)}` in `{_short(self._text(node))}`"
                yield self._change(node, spot, where, new.rest, words)
            else:
                yield self._change(node, spot, where, new, self._replaced(node, new))
        yield from self._parts(node, where)

    def _replaced(self, old: ast.AST, new: ast.AST) -> str:
        return f"`{_short(self._text(old))}` -> `{_short(ast.unparse(new))}`"

    def _text(self, node: ast.AST) -> str:
        text = ast.get_source_segment(self._source, node) or ast.unparse(node)
        return " ".join(text.split())

    def _change(
        self, node: Any, spot: _Spot, where: _Where, new: ast.AST, words: str
    ) -> Change:
        if not hasattr(new, "lineno"):  # otherwise it is a part of the old node
            ast.fix_missing_locations(ast.copy_location(new, node))
        function = ".".join(where.scope) or "<module>"
        return Change(self._path, function, words, node.lineno, where.code, spot, new)


class _Where(NamedTuple):
    """The functions and classes around a node, and the outermost function's code."""

    scope: tuple[str, ...] = ()
    code: tuple[str, int] | None = None

    def within(self, name: str) -> _Where:
        return _Where((*self.scope, name), self.code)

    def in_code_of(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> _Where:
        first = min((each.lineno for each in node.decorator_list), default=node.lineno)
        return _Where(self.scope, self.code or (".".join(self.scope), first))


def _short(text: str) -> str:
    most = 90
    return text if len(text) <= most else f"{text[: most - 3]}..."


#: Calls that make types or names, in which a change has no meaning.
_OF_TYPES = frozenset({"TypeVar", "ParamSpec", "cast", "NewType", "getLogger"})
#: Names that are types in an expression such as ``int | None``.
_TYPES = frozenset(
    {"bytes", "dict", "frozenset", "int", "list", "str", "tuple", "type"}
)
_PLAIN_TESTS = (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr, ast.Subscript)


@singledispatch
def _says_nothing(node: ast.AST) -> bool:
    """Return whether a node is only about types, or is text for people."""
    return isinstance(
        node,
        ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.JoinedStr,
    )


@_says_nothing.register
def _(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant)


@_says_nothing.register
def _(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.unparse(node.test)


@_says_nothing.register
def _(node: ast.Assign) -> bool:
    names = {target.id for target in node.targets if isinstance(target, ast.Name)}
    return bool(names & {"__all__", "__slots__"})


@_says_nothing.register
def _(node: ast.Subscript) -> bool:
    return getattr(node.value, "id", None) in {"Literal", *_TYPES}


@_says_nothing.register
def _(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return isinstance(node.op, ast.BitOr) and any(
        getattr(side, "id", None) in _TYPES or getattr(side, "value", "") is None
        for side in sides
    )


@_says_nothing.register
def _(node: ast.Call) -> bool:
    return getattr(node.func, "id", getattr(node.func, "attr", None)) in _OF_TYPES
