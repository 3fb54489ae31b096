"""The engine's layers: imports go one way, and what starts fast does not import torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gates"
LAYERS = {"run", "parse", "judge", "render"}
ALLOWED = {"run": set(), "parse": set(), "judge": {"parse"}, "render": {"parse", "judge"}}
OPERATOR_WORDS = ("attention", "sdpa", "softmax", "flash")


def imported_layers(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("gates.") and name.split(".")[1] in LAYERS}


@pytest.mark.parametrize("layer", sorted(LAYERS))
def test_imports_go_one_way(layer: str) -> None:
    for path in (PACKAGE / layer).rglob("*.py"):
        wrong = imported_layers(path) - ALLOWED[layer] - {layer}
        assert not wrong, f"{path.name} in {layer} imports from {wrong}"


def test_facts_import_no_layer() -> None:
    for path in (PACKAGE / "facts").glob("*.py"):
        assert not imported_layers(path)


# A format's name and torch's functions are not operators that the engine knows.
NAMES_OF_OTHERS = ("flashinfer", '"scaled_dot_product_attention"', '"softmax"', '"log_softmax"')


def test_the_engine_knows_no_operator() -> None:
    for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.h")]:
        text = path.read_text(encoding="utf-8").lower()
        for name in NAMES_OF_OTHERS:
            text = text.replace(name, "")
        found = [word for word in OPERATOR_WORDS if word in text]
        assert not found, f"{path.name} speaks of {found}"


@pytest.mark.parametrize("arguments", [["--help"], ["compare", "--help"], ["run", "--help"], ["sweep", "--help"], ["explain", "ptxas"]])
def test_no_torch_in_what_must_start_fast(arguments: list[str]) -> None:
    code = (
        "import sys; from gates.cli import cli\n"
        f"cli.main({arguments!r}, standalone_mode=False)\n"
        "sys.exit(bool({'torch', 'pandas', 'distributed'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
