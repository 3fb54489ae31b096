"""Defects planted in real source and compiled by the real nvcc: each must turn a static gate red."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from conftest import OnceASession
from places import DATA
from static_kit import make_task, needs_cuobjdump, needs_nvcc

from gates.build.build import build
from gates.build.dumps import StaticTexts, collect
from gates.build.toolchain import find_toolchain
from gates.core.records import GateResult, Status
from gates.gate.ptxas import evidence as ptxas
from gates.gate.ptxas import judge as ptxas_judge
from gates.gate.sass import evidence as sass
from gates.gate.sass import judge as sass_judge

pytestmark = needs_nvcc
SOURCE = DATA / "static" / "planted.cu"
KERNELS = ("product", "many")
LIMITS = {"max_registers": 128, "max_smem_bytes": 32_768, "max_spill_bytes": 0}


BUILDS: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def builds(kept: OnceASession) -> None:
    """One build folder for the whole module, so that what two tests share is compiled once."""
    BUILDS.append(kept("static_planted", lambda folder: None))


@lru_cache
def texts(flags: tuple[str, ...] = ()) -> tuple[StaticTexts, bool]:
    toolchain = find_toolchain()
    arch = ("sm_89",) if flags else ("sm_89", "sm_90")
    task = make_task(SOURCE.parent, source=SOURCE, toggles={}, nvcc_flags=flags, arch=arch)
    result = build(task, toolchain, BUILDS[0], want={"cubin"})
    assert not result.failures
    return collect(result, toolchain), result.relocatable


def evidence(*flags: str, arch: tuple[str, ...] = ("sm_89",), expected: tuple[str, ...] = KERNELS, **launch: int) -> ptxas.PtxasEvidence:
    found, relocatable = texts(flags)
    logs = {name: found.logs[name] for name in arch}
    launches = [{"kernel": name, "block": [32, 1, 1], "dynamic_smem_bytes": 0, "opt_in_smem_bytes": 0, **launch} for name in KERNELS]
    return ptxas.gather(logs, launches, expected, found.resource_usage, demangled=found.demangled, relocatable=relocatable)


def ptxas_gate(*flags: str, **more) -> GateResult:
    return ptxas_judge.judge(evidence(*flags, **more), LIMITS)


def sass_gate(limits: dict, *flags: str) -> GateResult:
    found, _ = texts(flags)
    return sass_judge.judge(sass.gather(found.sass, ["product"], demangled=found.demangled), limits)


def test_the_sound_build_passes_both_gates() -> None:
    result = ptxas_gate(arch=("sm_89", "sm_90"))
    assert result.status is Status.PASS
    assert {check.where for check in result.checks if check.name == "registers"} == {
        f"{kernel} {arch}" for kernel in KERNELS for arch in ("sm_89", "sm_90")
    }


@needs_cuobjdump
def test_log_and_cubin_agree_where_the_system_reserves_shared_memory_and_where_not() -> None:
    assert {kernel.cross_check for kernel in evidence(arch=("sm_89", "sm_90")).kernels} == {"agrees"}


def test_a_register_cap_that_spills() -> None:
    result = ptxas_gate("-maxrregcount=32")
    assert result.code == "ptxas.spills"
    assert {check.where for check in result.checks if check.status is Status.FAIL} == {"many sm_89"}


def test_shared_memory_over_budget() -> None:
    result = ptxas_gate("-DSTATIC_BYTES=32784")
    assert result.code == "ptxas.smem" and "32784" in result.sentence


def test_a_kernel_that_is_not_in_the_build() -> None:
    assert ptxas_gate(expected=("product", "renamed")).code == "ptxas.kernel_missing"


def test_a_kernel_that_vanished() -> None:
    result = ptxas_judge.judge(evidence("-DWITHOUT_MANY=1", expected=()), LIMITS, evidence(expected=()))
    assert result.code == "ptxas.kernel_vanished"


def test_49153_bytes_without_opting_in() -> None:
    limits = {**LIMITS, "max_smem_bytes": 65_536}
    asked = 49_153 - 1024  # the kernel has 1024 bytes of its own
    assert ptxas_judge.judge(evidence(dynamic_smem_bytes=asked), limits).code == "ptxas.smem_opt_in"
    assert ptxas_judge.judge(evidence(dynamic_smem_bytes=asked, opt_in_smem_bytes=asked), limits).status is Status.PASS


def test_relocatable_code_is_judged_as_linked() -> None:
    ours = evidence("-rdc=true")
    assert ours.relocatable == ("sm_89",) and all(kernel.linked for kernel in ours.kernels)
    assert ptxas_judge.judge(ours, LIMITS).status is Status.PASS
    product = next(kernel for kernel in ours.kernels if kernel.base_name == "product")
    assert product.linked is not None and product.linked.static_smem_bytes == 1024


@needs_cuobjdump
def test_scalar_code_under_a_tensor_claim() -> None:
    claim = {"require": {"tensor": 1, "async_copy": 1}, "forbid": ["local_memory"]}
    assert sass_gate(claim).status is Status.PASS
    result = sass_gate(claim, "-DUSE_WMMA=0")
    assert result.code == "sass.required" and "tensor (product sm_89): 0" in result.sentence


@needs_cuobjdump
def test_local_memory_without_a_spill() -> None:
    flags = ("-DLOCAL_TABLE=1",)
    assert ptxas_gate(*flags).status is Status.PASS  # ptxas calls it a stack frame, not a spill
    assert sass_gate({"forbid": ["local_memory"]}, *flags).code == "sass.forbidden"
