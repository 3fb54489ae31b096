"""The CPU device's rules for the asynchronous engines of sm_90: each planted fault gives its finding at its line, its honest neighbour
none.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import CpuDevice, Launcher

SOURCE = cpu_kit.DATA / "hopper.cu"
MODES = [word.strip() for word in SOURCE.read_text(encoding="utf-8").split("enum Mode {")[1].split("}")[0].split(",")]
RANDOM = np.random.default_rng(0)
A, B = RANDOM.integers(-3, 4, (64, 16)).astype(np.float16), RANDOM.integers(-3, 4, (8, 16)).astype(np.float16)
START = np.array([1, 2, 3, 4], np.float32)


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-hopper", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "hopper.so", capability="90a")) / "hopper.so"


def line(text: str) -> str:
    return f"{SOURCE}:{cpu_kit.line_of(SOURCE, text)}"


def product(library: Path, mode: str, **settings: int) -> tuple[CpuDevice, np.ndarray | None]:
    """The device after the kernel, and its output, if there is one."""
    cpu = cpu_kit.device(**settings)
    out = cpu.array(np.zeros((64, 8), np.float32))
    with contextlib.suppress(GatesError):
        Launcher(library, "product")(cpu.array(A), cpu.array(B), cpu.array(START), out, MODES.index(mode))
        return cpu, out.get()
    return cpu, None


@pytest.mark.parametrize("settings", [{"seed": 0}, {"seed": 1}, {"seed": 4, "races": 0}])
def test_two_products_that_are_fenced_and_awaited(library: Path, settings: dict[str, int]) -> None:
    cpu, out = product(library, "kHonest", **settings)
    wanted = 2 * (A.astype(np.float32) @ B.astype(np.float32).T)
    added = np.tile(np.repeat([START[:2], START[2:]], 8, axis=0), (4, 4))  # rows g and g + 8 of a warp
    assert not cpu.findings() and np.array_equal(out, wanted + added)


@pytest.mark.parametrize(
    ("mode", "code", "where", "other"),
    [
        ("kNoFence", "cpu.wgmma_not_fenced", "// first product", "// written again"),
        ("kNoWait", "cpu.wgmma_register_in_use", "// used", "// first product"),
        ("kOneGroupLess", "cpu.wgmma_register_in_use", "// used", "// second product"),
        ("kOverwritten", "cpu.wgmma_operand_overwritten", "// first product", "// while the products run"),
        ("kNoProxyFence", "cpu.no_proxy_fence", "// first product", "// fills A"),
        ("kNoCommit", "cpu.wgmma_register_in_use", "// used", "// second product"),
        ("kNotAwaited", "cpu.wgmma_not_awaited", "// first product", None),
        ("kMisplaced", "cpu.wgmma_descriptor", "// 128 bytes too far", None),
        ("kHalfGroup", "cpu.warpgroup_divergence", "// second product", None),
        ("kFirstUnfenced", "cpu.wgmma_not_fenced", "// first product", None),
    ],
)
def test_products_used_wrongly(library: Path, mode: str, code: str, where: str, other: str | None) -> None:
    cpu, _ = product(library, mode)
    found = cpu.findings()
    assert (found[0].code, found[0].where, found[0].other) == (code, line(where), other and line(other)), found
    assert {finding.code for finding in found} <= {code, "cpu.shared_out_of_bounds"}


def test_a_product_ends_as_late_as_its_wait_allows(library: Path) -> None:
    """With checks of races off, too: what is stored meanwhile gets into its numbers."""
    cpu, out = product(library, "kOverwritten", races=0)
    assert {finding.code for finding in cpu.findings()} == {"cpu.wgmma_operand_overwritten"}
    assert not np.array_equal(out, product(library, "kHonest")[1])


def test_registers_that_nobody_gives_back(library: Path) -> None:
    cpu = cpu_kit.device()
    Launcher(library, "registers")(cpu.empty((256,), np.float32), 240)
    assert not cpu.findings()
    with pytest.raises(GatesError):
        Launcher(library, "registers")(cpu.empty((256,), np.float32), 248)
    (found,) = cpu.findings()
    assert (
        found.code == "cpu.deadlock"
        and found.where == line("// takes")
        and "wait for 248 registers per thread (setmaxnreg)" in found.message
    )


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_dynamic_shared_memory_may_begin_anywhere(library: Path, seed: int) -> None:
    """An odd seed begins it at no multiple of 1024, as a chip may, unless the kernel's own declaration asks for one."""
    cpu = cpu_kit.device(seed=seed)
    by_luck, by_hand, declared = range(3)
    for alignment in (by_hand, declared, by_luck):
        target = cpu.empty((128,), np.float32)
        Launcher(library, "dynamic")(target, alignment)
        out = target.get()
        assert alignment == by_luck or (not cpu.findings() and (out == 16).all())
    found = [finding for finding in cpu.findings() if finding.code == "cpu.wgmma_descriptor"]
    assert [finding.where for finding in found] == ([line("// swizzled")] if seed % 2 else [])
    assert all("declares its dynamic shared memory with an alignment of 16 bytes" in finding.message for finding in found)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_stage_is_refilled_after_its_products(library: Path, seed: int) -> None:
    def ring(mode: str) -> tuple[CpuDevice, np.ndarray]:
        cpu = cpu_kit.device(seed=seed)
        out = cpu.empty((128,), np.float32)
        Launcher(library, "ring")(cpu.array(np.ones(1536, np.float32)), cpu.array(B), out, MODES.index(mode))
        return cpu, out.get()

    cpu, honest = ring("kHonest")
    assert not cpu.findings() and np.isfinite(honest).all()
    cpu, _ = ring("kNoProxyFence")  # the copy engine may not see the barrier that a thread has made
    (found,) = cpu.findings()
    assert (found.code, found.where, found.other) == (
        "cpu.no_proxy_fence",
        line("// refills"),
        line("mbarrier.init.shared::cta.b64 [%0], 1"),
    )
    cpu, _ = ring("kReleased")  # given back before its products have ended
    assert {finding.code for finding in cpu.findings()} == {"cpu.wgmma_operand_overwritten", "cpu.race_shared"}
    assert cpu.findings()[0].where == line("// reads") and cpu.findings()[0].other == line("// refills")
