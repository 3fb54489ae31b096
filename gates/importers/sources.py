"""What can be told of a source without running it."""

from __future__ import annotations

import ast
import re
from typing import Any

from gates.core.errors import GatesError
from gates.importers.folder import Original, text

_DEEPEST = 200
_GLOBAL = re.compile(r"__global__(?:\s+(?:static|inline|__launch_bounds__\s*\([^)]*\)|void))*\s+([A-Za-z_]\w*)\s*\(")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def python_tree(original: Original) -> ast.Module:
    """The syntax tree of a Python file; GatesError with the line where it is not Python."""
    return parse(text(original), str(original.path))


def parse(code: str, where: str) -> ast.Module:
    """The syntax tree of Python code that stands at ``where``."""
    return _parsed(code, where, "exec")


def expression(code: str, where: str) -> ast.expr:
    """The syntax tree of one Python expression that stands at ``where``."""
    return _parsed(code.strip(), where, "eval").body


def _parsed(code: str, where: str, mode: str) -> Any:
    try:
        tree = ast.parse(code, mode=mode)
    except (SyntaxError, ValueError) as error:
        raise GatesError(f"{where}:{getattr(error, 'lineno', None) or 1}: not Python: {getattr(error, 'msg', error)}") from None
    except (RecursionError, MemoryError):
        raise GatesError(f"{where}: nested too deeply") from None
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):  # whoever reads the tree calls itself for each level, several times at that
        level = [below for node in level for below in ast.iter_child_nodes(node)]
    if level:
        line = getattr(level[0], "lineno", 1)
        raise GatesError(
            f"{where}:{line}: nested in more than {_DEEPEST} levels", hint="each + adds a level: split the expression into named parts"
        )
    return tree


def require(tree: ast.Module, names: tuple[str, ...], where: str, format: str) -> None:
    """Raise GatesError for names that the module does not define at its top level."""
    missing = [name for name in names if name not in defined(tree)]
    if missing:
        raise GatesError(f"{where} does not define {', '.join(missing)}", hint=f"a {format} file has {', '.join(names)}")


def defined(tree: ast.Module) -> set[str]:
    """Names that the module's top level binds by def, class, assignment or import."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found


def cuda_kernels(code: str) -> list[str]:
    """Names of the __global__ functions of CUDA code, in order."""
    return list(dict.fromkeys(_GLOBAL.findall(_COMMENT.sub(" ", code))))
