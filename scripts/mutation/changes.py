"""Small wrong changes: what they are, and where in a module they can be made.

A change replaces one expression or statement of a syntax tree, and is put back after
the tree was compiled. Texts for people (strings with a space), docstrings, annotations
and ``if TYPE_CHECKING`` are left alone.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import CodeType

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
#: Enumerations whose members are exchanged for the next one.
_ENUMERATIONS = {"Action": ["IGNORE", "RETRY", "REFRESH", "WAIT", "REJOIN", "ABORT"]}
_ENUMERATIONS["Action"] += ["REJECT", "IN_DOUBT", "CONFIGURE", "RECREATE", "FENCED"]
#: Calls that make types or names, where a change says nothing.
_OF_TYPES = {"TypeVar", "ParamSpec", "cast", "NewType", "getLogger"}


@dataclass(frozen=True)
class Change:
    """A small wrong change.

    Attributes:
        path: The module, relative to the checkout.
        function: The qualified name of the function or class that it is in, or
            ``<module>``.
        words: What is changed into what; with ``path`` and ``function`` its identity,
            which outlives changes elsewhere in the file.
        line: Where it is now.
        code_of: Name and first line of the outermost function whose code it is in;
            None where it takes effect when the module is imported.
        spot: The field of the syntax tree, as (node, field, index).
        new: What is put there.
    """

    path: str
    function: str
    words: str
    line: int
    code_of: tuple[str, int] | None
    spot: tuple[ast.AST, str, int | None]
    new: Any

    @property
    def identity(self) -> str:
        """The same for as long as the changed code is."""
        return f"{self.path} | {self.function} | {self.words}"


class Module:
    """A module and the changes that can be made in it."""

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        self.file = root / path
        self._source = self.file.read_text()
        self._tree = ast.parse(self._source)
        seen: Counter[str] = Counter()
        self.changes: list[Change] = []
        for change in _Finder(path, self._source).find(self._tree):
            seen[change.identity] += 1
            if (number := seen[change.identity]) > 1:
                words = f"{change.words} #{number}"
                change = Change(**{**vars(change), "words": words})  # noqa: PLW2901 - told from its twins
            self.changes.append(change)

    def changed(self, change: Change) -> CodeType:
        """Compile the module with the change."""
        node, name, index = change.spot
        field: Any = getattr(node, name)
        if index is None:
            setattr(node, name, change.new)
        else:
            setattr(node, name, [*field[:index], *change.new, *field[index + 1 :]])
        try:
            return compile(self._tree, str(self.file), "exec", dont_inherit=True)
        finally:
            setattr(node, name, field)


class _Finder:
    """Walks a syntax tree and yields the changes."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source

    def find(self, tree: ast.Module) -> Iterator[Change]:
        yield from self._body(tree, "body", (), None)

    def _body(
        self,
        node: ast.AST,
        name: str,
        scope: tuple[str, ...],
        code: tuple[str, int] | None,
    ) -> Iterator[Change]:
        for index, statement in enumerate(getattr(node, name)):
            yield from self._statement(statement, (node, name, index), scope, code)

    def _statement(
        self, node: Any, spot: Any, scope: tuple[str, ...], code: Any
    ) -> Iterator[Change]:
        """Changes of a statement, then of what is in it."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = (*scope, node.name)
            first = min((d.lineno for d in node.decorator_list), default=node.lineno)
            arguments = node.args
            yield from self._all(arguments, "defaults", inner, code)
            yield from self._all(arguments, "kw_defaults", inner, code)
            own = code or (".".join(inner), first)
            yield from self._body(node, "body", (*inner,), own)
            return
        if isinstance(node, ast.ClassDef):
            yield from self._body(node, "body", (*scope, node.name), code)
            return
        if _is_for_types_only(node):
            return
        for new, words in _of_statement(node, self._text):
            yield self._change(node, spot, scope, code, ([new], words))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        for field, value in ast.iter_fields(node):
            if field == "annotation" or (field == "targets"):
                continue
            if field in {"body", "orelse", "finalbody"} and isinstance(value, list):
                yield from self._body(node, field, scope, code)
            elif field in {"handlers", "cases"}:
                for part in value:
                    yield from self._parts(part, scope, code, ("type", "guard"))
                    yield from self._body(part, "body", scope, code)
            elif isinstance(value, list):
                yield from self._all(node, field, scope, code)
            elif isinstance(value, ast.expr):
                if field == "test" and isinstance(value, _PLAIN_TESTS):
                    turned = ast.UnaryOp(ast.Not(), value)
                    words = f"`if {self._text(value)}` -> `if not`"
                    place = (node, field, None)
                    yield self._change(value, place, scope, code, (turned, words))
                yield from self._expression(value, (node, field, None), scope, code)

    def _all(
        self, node: ast.AST, field: str, scope: Any, code: Any
    ) -> Iterator[Change]:
        for index, value in enumerate(getattr(node, field)):
            spot = (node, field, index)
            if isinstance(value, ast.expr):
                yield from self._expression(value, spot, scope, code)
            elif isinstance(value, ast.AST):
                yield from self._parts(value, scope, code)

    def _parts(
        self, node: ast.AST, scope: Any, code: Any, only: tuple[str, ...] = ()
    ) -> Iterator[Change]:
        for field, value in ast.iter_fields(node):
            if only and field not in only:
                continue
            if isinstance(value, list):
                yield from self._all(node, field, scope, code)
            elif isinstance(value, ast.expr):
                yield from self._expression(value, (node, field, None), scope, code)
            elif isinstance(value, ast.arguments):
                yield from self._all(value, "defaults", scope, code)

    def _expression(
        self, node: ast.expr, spot: Any, scope: Any, code: Any
    ) -> Iterator[Change]:
        if _says_nothing(node):
            return
        listed = spot[2] is not None
        for new, words in _of_expression(node, self._text):
            yield self._change(
                node, spot, scope, code, ([new] if listed else new, words)
            )
        yield from self._parts(node, scope, code)

    def _text(self, node: ast.AST) -> str:
        text = ast.get_source_segment(self._source, node) or ast.unparse(node)
        return " ".join(text.split())

    def _change(
        self, node: Any, spot: Any, scope: Any, code: Any, made: tuple[Any, str]
    ) -> Change:
        new, words = made
        for part in new if isinstance(new, list) else [new]:
            ast.copy_location(part, node)
            ast.fix_missing_locations(part)
        function = ".".join(scope) or "<module>"
        return Change(self._path, function, words, node.lineno, code, spot, new)


def _is_for_types_only(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
        return True
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    return bool(names & {"__all__", "__slots__"})


def _says_nothing(node: ast.expr) -> bool:
    """Tell whether all of an expression is about types, or is text for people."""
    if isinstance(node, ast.JoinedStr):
        return True
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        return node.value.id in {"Literal", "Annotated"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        return getattr(node.func, "id", getattr(node.func, "attr", "")) in _OF_TYPES
    return False


_Made = tuple[Any, str]
_PLAIN_TESTS = (ast.Name, ast.Attribute, ast.Call, ast.NamedExpr, ast.Subscript)


def _of_statement(node: ast.stmt, text: Any) -> Iterator[_Made]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Delete():
            yield ast.Pass(), f"no `{text(node)}`"
        case ast.Expr(value=ast.YieldFrom()):
            yield ast.Pass(), f"no `{text(node)}`"
        case ast.Raise():
            yield ast.Pass(), f"no `{text(node).partition('(')[0]}`"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield ast.Pass(), f"no `{text(node)}`"
        case ast.AugAssign(op=op) if type(op) in _ARITHMETIC:
            other = ast.AugAssign(node.target, _ARITHMETIC[type(op)](), node.value)
            yield other, f"`{text(node)}` -> `{ast.unparse(other)}`"
        case ast.Continue():
            yield ast.Break(), "`continue` -> `break`"
        case ast.Break():
            yield ast.Continue(), "`break` -> `continue`"
        case ast.Return(value=value) if value is not None and not (
            isinstance(value, ast.Constant) and not value.value
        ):
            yield ast.Return(ast.Constant(None)), f"`{text(node)}` -> `return None`"


def _of_expression(node: ast.expr, text: Any) -> Iterator[_Made]:
    for new in _replacements(node):
        if isinstance(new, tuple):
            part, shown = new
            yield part, f"no `{text(shown)}` in `{_short(text(node))}`"
        else:
            yield new, f"`{_short(text(node))}` -> `{_short(ast.unparse(new))}`"


def _short(text: str) -> str:
    most = 90
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _without(values: list[Any], index: int) -> list[Any]:
    return values[:index] + values[index + 1 :]


def _replacements(node: ast.expr) -> Iterator[Any]:
    """Yield what may stand in place of an expression, or (that, what it lacks)."""
    match node:
        case ast.Compare(left=left, ops=[op, *more], comparators=comparators):
            for other in _COMPARISONS[type(op)]:
                yield ast.Compare(left, [other(), *more], comparators)
        case ast.BoolOp(op=op, values=values):
            for index, value in enumerate(values):
                rest = _without(values, index)
                yield (rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)), value
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            if not _is_text(left) and not _is_text(right):
                yield ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str() as value) if value and " " not in value:
            yield ast.Constant(f"{value}X")
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts):
            if len(elts) > 1 and isinstance(
                getattr(node, "ctx", None), ast.Load | None
            ):
                for index, element in enumerate(elts):
                    other = type(node)(_without(elts, index))
                    if not isinstance(node, ast.Set):
                        other.ctx = ast.Load()
                    yield other, element
        case ast.Dict(keys=keys, values=values):
            for index, value in enumerate(values):
                other = ast.Dict(_without(keys, index), _without(values, index))
                yield other, keys[index] or value
        case ast.Call(func=func, args=args, keywords=keywords):
            for index, keyword in enumerate(keywords):
                if keyword.arg not in {"scenario", "source"}:
                    yield ast.Call(func, args, _without(keywords, index)), keyword
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in (
            members := _ENUMERATIONS.get(name, [])
        ):
            after = members[(members.index(attr) + 1) % len(members)]
            yield ast.Attribute(node.value, after, ast.Load())


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
