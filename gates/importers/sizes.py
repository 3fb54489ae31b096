"""The sizes of a problem that its module holds as whole numbers, and other sizes that it may run with."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Mapping
from typing import Any

from gates.core.errors import GatesError
from gates.task.load import nearest

_OPERATIONS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_MOST_POWER = 64
_MOST_NUMBER = 2**63 - 1  # a size of a tensor
_PLAIN = (ast.Tuple, ast.List, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
_CAPS = {
    32: (29, 23, 19),
    16: (13, 11, 7),
    8: (7, 5, 3),
    64: (61, 53, 47),
    128: (127, 113, 109),
    256: (251, 241, 239),
}  # odd sizes below each
_SMALL, _MOST = 2**10, 2**24  # product of sizes: a problem up to the first is small even if it cubes one of them


def of_module(tree: ast.Module, given: Mapping[str, int]) -> dict[str, int]:
    """Return the whole numbers of the module's top level by name, with those ``given`` in place of the module's own.

    What is computed from them follows. Raises GatesError for a name that is not a number there.
    """
    found: dict[str, int] = {}
    own: set[str] = set()
    for name, value in _assigned(tree):
        size = number(value, found)
        if size is not None:
            own |= {name} if _is_literal(value) else set()
            found[name] = given.get(name, size)
    if wrong := next((name for name in given if name not in own), None):
        raise GatesError(
            f"--set {wrong}: the problem has no such number",
            hint=nearest(wrong, own) if own else "its sizes are written into get_inputs: change them there",
        )
    return {name: value for name, value in found.items() if value > 0}


def offered(tree: ast.Module, given: Mapping[str, int]) -> dict[str, list[dict[str, int]]]:
    """Return sizes to try for the shapes "small" and "tail", the best first.

    A tail has odd sizes, in the first offers also those below the cap. The later offers are for a model that does not run with them: only
    large sizes are odd, if possible only where the model's own parameters do not depend on them.
    """
    own = of_module(tree, given)
    given_as_such = {name for name, value in _assigned(tree) if _is_literal(value)}
    literal = sorted(name for name, value in own.items() if value > 1 and name in given_as_such)
    free = [name for name in literal if name in _used(tree, "get_inputs") - _used(tree, "get_init_inputs", "Model")]
    small: list[dict[str, int]] = []
    all_odd: list[dict[str, int]] = []
    large_odd: list[dict[str, int]] = []
    for cap, odd in _CAPS.items():
        capped = {name: min(own[name], cap) for name in literal}
        small.append(of_module(tree, capped))
        below = {name: own[name] - 1 for name in literal if 2 < own[name] <= cap and own[name] % 2 == 0}
        for names, others, tail in ((literal, below, all_odd), (free, {}, large_odd), (literal, {}, large_odd)):
            if large := [name for name in names if own[name] > cap]:
                changed = {name: odd[number % len(odd)] for number, name in enumerate(large)}
                tail.append(of_module(tree, {**capped, **others, **changed}))
    return {
        "small": [sizes for sizes in small if _product(sizes) <= min(_MOST, _product(own) // 2)] if _product(own) > _SMALL else [],
        "tail": [sizes for sizes in all_odd + large_odd if _product(sizes) <= _MOST],
    }


def followers(tree: ast.Module) -> dict[str, str]:
    """Return what else of the module's top level is computed from its numbers, such as ``bias_shape = (out_channels, 1, 1)``, as text."""
    known = set(of_module(tree, {}))
    found: dict[str, str] = {}
    for name, value in _assigned(tree):
        nodes = list(ast.walk(value))
        names = {one.id for one in nodes if isinstance(one, ast.Name)}
        if name not in known and names and names <= known | found.keys() and all(isinstance(one, _PLAIN) for one in nodes):
            found[name] = ast.unparse(value)
    return found


def _product(sizes: Mapping[str, int]) -> int:
    return math.prod(sizes.values())


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [(name.id, part) for name, part in zip(target.elts, value.elts, strict=True) if isinstance(name, ast.Name)]
    return []


def number(node: ast.expr, known: Mapping[str, int]) -> int | None:
    """Return the whole number that an expression stands for, with the names in it ``known``; None if it is not an integer."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int and node.value <= _MOST_NUMBER else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = number(node.left, known), number(node.right, known)
        if left is None or right is None or (isinstance(node.op, (ast.FloorDiv, ast.Mod)) and right == 0):
            return None
        if isinstance(node.op, ast.Pow) and not 0 <= right <= _MOST_POWER:
            return None
        result: int = _OPERATIONS[type(node.op)](left, right)
        return result if abs(result) <= _MOST_NUMBER else None
    return None


def _assigned(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    """The names that the module's top level assigns to, each with its value."""
    return [pair for node in tree.body if isinstance(node, ast.Assign) for pair in _pairs(node.targets[0], node.value)]


def _is_literal(value: ast.expr) -> bool:
    """Return whether a value is written as numbers alone (``4096``, ``1024 * 4``), without other names."""
    return not any(isinstance(one, ast.Name) for one in ast.walk(value))


def _used(tree: ast.Module, *names: str) -> set[str]:
    """The names that these functions and classes of the module read."""
    bodies = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in names]
    return {one.id for body in bodies for one in ast.walk(body) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
