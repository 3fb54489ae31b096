"""Honest kernels in the forms that people write: no gate that can judge them here refuses one."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

import pytest
from conftest import OnceASession
from exploits import kit
from exploits.record import Exploit
from honest.catalogue import CASES, COMPILED, HERE, HONEST, NOT_EMULATED, elsewhere, here

import gates

PYTHON, LAUNCHERS, TRITON = (tuple(one for one in HONEST if one.kind == kind) for kind in ("python", "cuda", "triton"))
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


def let_through(one: Exploit, root: Path, library: Path | None = None) -> None:
    room = kit.room(root, one)
    result = room.judged(library)
    assert kit.objections(one, room, result) == [], result.checks


@pytest.mark.parametrize("one", PYTHON, ids=lambda one: one.name)
def test_a_function(one: Exploit, tmp_path: Path) -> None:
    let_through(one, tmp_path)


@pytest.mark.slow
def test_a_compiled_function(tmp_path: Path) -> None:
    let_through(COMPILED, tmp_path)


@pytest.mark.parametrize("one", LAUNCHERS, ids=lambda one: one.name)
def test_a_launcher(one: Exploit, tmp_path: Path, kept: OnceASession) -> None:
    source = kit.STUDIES / one.source
    let_through(one, tmp_path, kept(f"honest-{source.stem}", partial(kit.emulator_library, source)) / "launchers.so")


@needs_triton
@pytest.mark.parametrize("one", TRITON, ids=lambda one: one.name)
def test_a_triton_kernel(one: Exploit, tmp_path: Path) -> None:
    let_through(one, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_an_unusual_kernel_s_whole_run(name: str, tmp_path: Path) -> None:
    run = gates.run(HERE / "cases" / name, profile="cpu", results=tmp_path / "results", build_dir=tmp_path / "build")
    status = {gate: result.status.value for gate, result in run.gates.items()}
    wanted = {"not_run", "pass"} if name in NOT_EMULATED else {"pass"}
    assert status["correctness"] in wanted and "fail" not in status.values(), run.report()
    gates.load(run.path)  # its evidence is whole


def test_there_are_a_hundred() -> None:
    assert len({*here(), *elsewhere()}) == len(here()) + len(elsewhere()) and len(here()) >= 100
