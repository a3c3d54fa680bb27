"""Wrong replacements of statements and expressions, by the kind of node."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import singledispatch
from typing import Any, NamedTuple

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
#: Members of ``Action`` in order. They are repeated here because kafkaguard must not be
#: imported before the processes that try the changes are forked.
_ACTIONS = ["IGNORE", "RETRY", "REFRESH", "WAIT", "REJOIN", "ABORT", "REJECT"]
_ACTIONS += ["IN_DOUBT", "CONFIGURE", "RECREATE", "FENCED"]
#: Arguments that are text for people, and one that is only an assertion.
IDLE_ARGUMENTS = {"scenario", "source", "strict"}


class Lacking(NamedTuple):
    """An expression without one of its parts."""

    rest: ast.expr
    part: ast.AST


@singledispatch
def statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield replacements of a statement."""
    if isinstance(node, ast.Raise | ast.Delete):
        yield ast.Pass()


@statements.register
def _(node: ast.Expr) -> Iterator[ast.stmt]:
    if isinstance(node.value, ast.Call | ast.Await | ast.YieldFrom):
        yield ast.Pass()


@statements.register
def _(node: ast.Assign) -> Iterator[ast.stmt]:
    if isinstance(node.targets[0], ast.Attribute | ast.Subscript):
        yield ast.Pass()


@statements.register
def _(node: ast.AugAssign) -> Iterator[ast.stmt]:
    if type(node.op) in _ARITHMETIC:
        yield ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)


@statements.register
def _(_: ast.Continue) -> Iterator[ast.stmt]:
    yield ast.Break()


@statements.register
def _(_: ast.Break) -> Iterator[ast.stmt]:
    yield ast.Continue()


@statements.register
def _(node: ast.Return) -> Iterator[ast.stmt]:
    is_falsy = isinstance(node.value, ast.Constant) and not node.value.value
    if node.value is not None and not is_falsy:
        yield ast.Return(ast.Constant(None))


@singledispatch
def expressions(_: ast.expr) -> Iterator[ast.expr | Lacking]:
    """Yield replacements of an expression."""
    yield from ()


@expressions.register
def _(node: ast.Compare) -> Iterator[ast.expr]:
    first, *more = node.ops
    for other in _COMPARISONS[type(first)]:
        yield ast.Compare(node.left, [other(), *more], node.comparators)


@expressions.register
def _(node: ast.BoolOp) -> Iterator[Lacking]:
    for index, value in enumerate(node.values):
        rest = _without(node.values, index)
        yield Lacking(rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest), value)


@expressions.register
def _(node: ast.UnaryOp) -> Iterator[ast.expr]:
    yield node.operand


@expressions.register
def _(node: ast.BinOp) -> Iterator[ast.expr]:
    of_text = _is_text(node.left) or _is_text(node.right)
    if type(node.op) in _ARITHMETIC and not of_text:
        yield ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)


@expressions.register
def _(node: ast.Constant) -> Iterator[ast.expr]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
    elif isinstance(value, str) and value and " " not in value:
        yield ast.Constant(f"{value}X")


@expressions.register
def _(node: ast.IfExp) -> Iterator[ast.expr]:
    yield ast.IfExp(node.test, node.orelse, node.body)


@expressions.register(ast.Tuple)
@expressions.register(ast.List)
@expressions.register(ast.Set)
def _(node: Any) -> Iterator[Lacking]:
    is_value = isinstance(node, ast.Set) or isinstance(node.ctx, ast.Load)
    if is_value and len(node.elts) > 1:
        for index, element in enumerate(node.elts):
            rest = _without(node.elts, index)
            is_set = isinstance(node, ast.Set)
            yield Lacking(
                ast.Set(rest) if is_set else type(node)(rest, ast.Load()), element
            )


@expressions.register
def _(node: ast.Dict) -> Iterator[Lacking]:
    for index, value in enumerate(node.values):
        rest = ast.Dict(_without(node.keys, index), _without(node.values, index))
        yield Lacking(rest, node.keys[index] or value)


@expressions.register
def _(node: ast.Call) -> Iterator[Lacking]:
    for index, keyword in enumerate(node.keywords):
        if keyword.arg not in IDLE_ARGUMENTS:
            rest = ast.Call(node.func, node.args, _without(node.keywords, index))
            yield Lacking(rest, keyword)


@expressions.register
def _(node: ast.Attribute) -> Iterator[ast.expr]:
    if isinstance(node.value, ast.Name) and node.value.id == "Action":
        after = _ACTIONS.index(node.attr) + 1 if node.attr in _ACTIONS else 0
        yield ast.Attribute(node.value, _ACTIONS[after % len(_ACTIONS)], ast.Load())


def _without(values: list[Any], index: int) -> list[Any]:
    return values[:index] + values[index + 1 :]


def _is_text(node: ast.expr) -> bool:
    is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_string or isinstance(node, ast.JoinedStr)
