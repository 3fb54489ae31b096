"""Imports go one way, lazy ones counted: no circle among modules, packages import what ``MAY_IMPORT`` says, what starts fast imports no
torch.

Imports for type checkers alone do not count. Few modules have some: ``gates/render`` names the records that it turns into text.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from places import ROOT

TYPES_ONLY = ("gates.render", "gates.review.frames", "gates.pytest_plugin", "gates.verify.report")  # may import for type checkers alone
NO_MODULES = (
    "gates/task/templates/",
    "gates/diagnostics/selftest_data/",
    "gates/diagnostics/calibration_data/",
    "gates/run.py",
)  # files for a task's folder
MAY_IMPORT = {  # package -> packages that it may import, the lowest first; of gate/ each gate is one, and the session that they share
    "core": set(),
    "hardware": set(),
    "stats": set(),
    "emulator": {"core", "hardware"},
    "gate": {"core"},
    "task": {"core", "gate"},
    "worker": {"core", "hardware", "gate", "task"},
    "evidence": {"core", "gate", "task", "worker"},
    "launch": {"core", "hardware", "emulator", "task", "worker"},
    "build": {"core", "hardware", "emulator", "task", "worker", "launch"},
    "gate.session": {"core", "gate", "task", "evidence", "launch", "build", "worker"},
    "gate.ptxas": {"core", "evidence", "gate", "hardware", "task", "worker", "build", "gate.session"},
    "gate.size": {"core", "gate", "evidence", "task", "build", "gate.session"},
    "gate.sass": {"core", "evidence", "gate", "gate.session"},
    "gate.correctness": {"core", "evidence", "gate", "task", "worker", "launch", "gate.session"},
    "gate.ncu": {"core", "evidence", "gate", "hardware", "worker", "launch", "gate.session"},
    "gate.performance": {"core", "evidence", "gate", "hardware", "stats", "task", "worker", "launch", "gate.session"},
    "gate.sanitizer": {"core", "evidence", "gate", "task", "worker", "launch", "gate.session"},
    "diagnostics": {
        "core",
        "hardware",
        "evidence",
        "gate",
        "gate.session",
        "gate.ptxas",
        "gate.sass",
        "task",
        "worker",
        "launch",
        "build",
        "gate.correctness",
        "gate.performance",
    },
    "importers": {"core", "gate", "task", "gate.correctness", "emulator"},
    "render": {"core", "stats", "gate.ptxas", "evidence", "gate.correctness", "gate.sanitizer", "gate.ncu", "gate.performance"},
    "comparison": {"core", "stats", "gate", "gate.ptxas", "task", "evidence", "gate.correctness", "gate.performance", "render"},
    "pipeline": {"core", "gate", "task", "worker", "evidence", "launch", "build", "gate.session", "gate.ncu", "render", "comparison"},
    "verify": {
        "core",
        "gate",
        "gate.ptxas",
        "task",
        "worker",
        "evidence",
        "gate.ncu",
        "render",
        "comparison",
    },
    "review": {
        "core",
        "hardware",
        "stats",
        "gate",
        "gate.ptxas",
        "gate.sass",
        "task",
        "evidence",
        "gate.performance",
        "diagnostics",
        "render",
        "comparison",
        "verify",
    },
    "sweep": {
        "core",
        "stats",
        "gate",
        "gate.ptxas",
        "gate.sass",
        "task",
        "evidence",
        "launch",
        "build",
        "gate.session",
        "gate.performance",
        "render",
        "pipeline",
        "verify",
    },
    "evaluation": {
        "core",
        "hardware",
        "gate",
        "gate.ptxas",
        "gate.sass",
        "gate.performance",
        "gate.session",
        "task",
        "worker",
        "evidence",
        "launch",
        "build",
        "render",
        "pipeline",
        "verify",
        "review",
        "sweep",
    },
    "cli": {
        "core",
        "gate",
        "gate.ptxas",
        "task",
        "worker",
        "evidence",
        "launch",
        "build",
        "gate.correctness",
        "gate.performance",
        "diagnostics",
        "importers",
        "render",
        "pipeline",
        "verify",
        "review",
        "sweep",
        "evaluation",
    },
}
MOST_MODULES = 15  # of a folder, beside its __init__.py
MOST_ENTRIES = 26  # at the first level of gates/
OPERATOR_WORDS = ("attention", "sdpa", "softmax", "flash")
NAMES_OF_OTHERS = (
    "flashinfer",
    '"scaled_dot_product_attention"',
    '"softmax"',
    '"log_softmax"',
)  # a format's and torch's: no operators that the engine knows


_HOLDS_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)  # expressions, most of a module, import nothing


@lru_cache(maxsize=1)
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted((ROOT / "gates").rglob("*.py")):
        place = path.relative_to(ROOT)
        if not place.as_posix().startswith(NO_MODULES):
            parts = place.with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, text: str, package: bool, known: Mapping[str, object]) -> Iterator[tuple[str, bool]]:
    """(a module of ``known`` that ``text`` imports, whether for type checkers alone)."""

    def visit(node: ast.AST, types: bool) -> Iterator[tuple[str, bool]]:
        if isinstance(node, ast.Import):
            yield from ((alias.name, types) for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = name.split(".")[: len(name.split(".")) - node.level + package] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                found = f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
                yield from [(found, types)] if found in known else []
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for child in node.body:
                yield from visit(child, True)
            for child in node.orelse:
                yield from visit(child, types)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _HOLDS_STATEMENTS):
                yield from visit(child, types)

    yield from ((found, types) for found, types in visit(ast.parse(text), False) if found != name)


@lru_cache(maxsize=1)
def graph() -> dict[str, set[tuple[str, bool]]]:
    known = modules()
    return {name: set(imports(name, path.read_text(encoding="utf-8"), path.name == "__init__.py", known)) for name, path in known.items()}


@cache
def unit(name: str) -> str:
    """The package of a module, as ``MAY_IMPORT`` has it: of gates/gate, each gate's folder is one, and the session that they share."""
    parts = name.split(".")
    if parts[1:2] == ["gate"] and len(parts) > 2 and (parts[2] == "session" or (ROOT / "gates" / "gate" / parts[2]).is_dir()):
        return f"gate.{parts[2]}"
    return parts[1] if len(parts) > 1 else ""


def circle(edges: Mapping[str, set[str]]) -> list[str]:
    """The names of a circle, or none."""
    try:
        tuple(TopologicalSorter(edges).static_order())
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_circle_among_modules() -> None:
    edges = {name: {found for found, types in some if not types} for name, some in graph().items()}
    assert len(edges) > 150 and sum(map(len, edges.values())) > 600
    assert circle(edges) == []


def test_imports_for_type_checkers_alone_are_render_s() -> None:
    for name, some in graph().items():
        assert name.startswith(TYPES_ONLY) or not any(types for _, types in some), name


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_packages_import_downward(package: str) -> None:
    mine = MAY_IMPORT[package] | {package, ""}
    for name, some in graph().items():
        wrong = {found for found, types in some if not types and unit(found) not in mine}
        assert unit(name) != package or not wrong, f"{name} imports {wrong}"


def test_every_package_is_in_the_table() -> None:
    missing = {unit(name) for name in modules()} - MAY_IMPORT.keys() - {"", "__main__", "api", "pytest_plugin", "task_script"}
    assert not missing, f"tests/project/test_layers.py: add rows for {missing} to MAY_IMPORT, and name them in the rows that import them"


def test_folders_are_small_and_say_what_they_hold() -> None:
    folders = Counter(path.parent for path in modules().values() if path.name != "__init__.py")
    full = {str(folder.relative_to(ROOT)): count for folder, count in folders.items() if count > MOST_MODULES}
    assert not full, f"more than {MOST_MODULES} modules: {full}"
    first = {path.relative_to(ROOT / "gates").parts[0] for path in (ROOT / "gates").rglob("*.py")}
    assert len(first) <= MOST_ENTRIES, sorted(first)
    for folder in folders:
        charter = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        assert charter and charter.splitlines()[0].endswith("."), f"{folder} has no charter"


def test_no_circle_among_packages() -> None:
    assert circle(MAY_IMPORT) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n    from gates.b import x\n", {("gates.b", False)}),
        ("from . import b\nimport gates.c.d\n", {("gates.b", False), ("gates.c.d", False)}),
        ("if TYPE_CHECKING:\n    from gates import b\nelse:\n    from gates.c import d\n", {("gates.b", True), ("gates.c.d", False)}),
        ("try:\n    import gates.b\nexcept ImportError:\n    import os\n", {("gates.b", False)}),
    ],
)
def test_imports_are_found_wherever_they_stand(text: str, found: set[tuple[str, bool]]) -> None:
    assert set(imports("gates.a", text, False, dict.fromkeys(("gates.a", "gates.b", "gates.c", "gates.c.d")))) == found


def test_a_circle_is_told() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"} and circle({"a": {"b"}, "b": set()}) == []


def test_the_engine_knows_no_operator() -> None:
    for path in [*(ROOT / "gates").rglob("*.py"), *(ROOT / "gates").rglob("*.h")]:
        text = path.read_text(encoding="utf-8").lower()
        for name in NAMES_OF_OTHERS:
            text = text.replace(name, "")
        found = [word for word in OPERATOR_WORDS if word in text]
        assert not found, f"{path.name} speaks of {found}"


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["run", "--help"], ["sweep", "--help"], ["explain", "ptxas"]])
def test_no_torch_in_what_must_start_fast(arguments: list[str]) -> None:
    code = (
        "import sys; from gates.cli.main import cli\n"
        f"cli.main({arguments!r}, standalone_mode=False)\n"
        "sys.exit(bool({'torch', 'pandas', 'distributed'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
