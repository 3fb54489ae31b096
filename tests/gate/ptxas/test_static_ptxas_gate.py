"""The ptxas gate: what real logs must lead to, and the defects that must turn it red."""

from __future__ import annotations

from dataclasses import replace

import pytest
from places import TESTS

from gates.cli.task_build import _kernel
from gates.comparison.sections import _resource_rows
from gates.core.kernel_names import instance_of_signature
from gates.core.records import GateResult, Status, from_json, to_json
from gates.gate.ptxas.codes import CODES, RELOCATABLE
from gates.gate.ptxas.evidence import Launch, PtxasEvidence, gather
from gates.gate.ptxas.judge import judge
from gates.sweep.work import _resources

DATA = TESTS / "data" / "ptxas"
LIMITS = {"max_registers": 128, "max_smem_bytes": 65_536, "max_spill_bytes": 0}


def read(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def launch(kernel: str, *, threads: int = 128, dynamic: int | None = 0, opt_in: int = 0, static: int | None = None) -> dict:
    record = {"kernel": kernel, "grid": [1, 1, 1], "block": [threads, 1, 1], "dynamic_smem_bytes": dynamic, "opt_in_smem_bytes": opt_in}
    return record if static is None else {**record, "static_smem_bytes": static}


def evidence(
    text: str, *launches: dict, arch: str = "sm_89", expected: tuple[str, ...] = (), usage: str | None = None, **more
) -> PtxasEvidence:
    return gather({arch: text}, launches, expected, {arch: usage}, **more)


def checks(result: GateResult, name: str) -> list:
    return [check for check in result.checks if check.name == name]


def failed(result: GateResult) -> set[tuple[str, str]]:
    return {(check.code, check.where) for check in result.checks if check.status is Status.FAIL}


def one_kernel(*, registers: int = 32, smem: int = 0, arch: str = "sm_89", name: str = "k") -> str:
    shared = f", {smem} bytes smem" if smem else ""
    return (
        f"ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function '{name}' for '{arch}'\n"
        f"ptxas info    : Function properties for {name}\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        f"ptxas info    : Used {registers} registers, used 1 barriers{shared}\nptxas info    : Compile time = 1.0 ms\n"
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_the_spilling_kernel_fails_wherever_it_stands(swapped: bool) -> None:
    text = read("cuda13.0_sm89_spill.log")
    if swapped:
        head, light, heavy = (
            text.partition("ptxas info    : Compiling entry function 'light'")[0],
            *text.split("ptxas info    : Compiling entry")[1:],
        )
        text = head + "".join("ptxas info    : Compiling entry" + block for block in (heavy, light))
    result = judge(evidence(text, launch("light"), launch("heavy")), LIMITS)
    assert result.status is Status.FAIL and result.code == "ptxas.spills"
    assert failed(result) == {("ptxas.spills", "heavy sm_89")}
    assert [check.observed for check in result.checks if check.code] == [1044, 1196]
    assert {check.where for check in checks(result, "spill_stores") if check.status is Status.PASS} == {"light sm_89"}


def test_a_launched_kernel_that_the_task_does_not_name_fails() -> None:
    text = read("cuda13.0_sm89_spill.log")
    limits = {**LIMITS, "max_spill_bytes": 1196}
    assert judge(evidence(text, launch("light"), expected=("light",)), limits).status is Status.PASS
    result = judge(evidence(text, launch("light"), launch("heavy"), expected=("light",)), limits)
    assert failed(result) == {("ptxas.unlisted_kernel", "heavy sm_89")}


@pytest.mark.parametrize("name", ["cuda11.8_sm80_nvrtc_spill.log", "cuda12.4_sm80_spill.log", "cuda13.0_sm89_spill_warnings.log"])
def test_spills_are_found_in_every_wording_and_counted_once(name: str) -> None:
    arch = "sm_80" if "sm80" in name else "sm_89"
    result = judge(evidence(read(name), launch("light"), launch("heavy"), arch=arch), LIMITS)
    assert [check.observed for check in result.checks if check.code == "ptxas.spills"] == [1044, 1196]


def test_a_budget_met_exactly_is_met() -> None:
    text = read("cuda13.0_sm89_spill.log")
    ours = evidence(text, launch("light"), launch("heavy"))
    assert judge(ours, {**LIMITS, "max_spill_bytes": 1196, "max_registers": 32}).status is Status.PASS
    assert judge(ours, {**LIMITS, "max_spill_bytes": 1195}).code == "ptxas.spills"
    assert judge(ours, {**LIMITS, "max_spill_bytes": 1196, "max_registers": 31}).code == "ptxas.registers"


def test_every_instance_of_a_template_is_judged() -> None:
    ours = evidence(read("cuda13.0_sm89_templates.log"), launch("row_scale"), expected=("row_scale",))
    result = judge(ours, {**LIMITS, "max_registers": 19})
    assert [check.observed for check in checks(result, "registers")] == [20, 19, 18]
    assert [check.observed for check in checks(result, "smem")] == [512, 256, 128]
    assert len(failed(result)) == 1


@pytest.mark.parametrize(
    "named",
    [
        {"function": "void row_scale(const T*, T*, int, float) [with T = double; int kThreads = 128; bool kAdd = true]"},  # the emulator's
        {"kernel": "void row_scale<double, 128, true>(double const*, double*, int, float)"},  # a device's
    ],
)
def test_a_launch_counts_for_the_instance_that_it_names(named: dict[str, str]) -> None:
    names = {
        "_Z9row_scaleIdLi128ELb1EEvPKT_PS0_if": "void row_scale<double, 128, true>(double const*, double*, int, float)",
        "_Z9row_scaleIfLi64ELb1EEvPKT_PS0_if": "void row_scale<float, 64, true>(float const*, float*, int, float)",
        "_Z9row_scaleIfLi32ELb0EEvPKT_PS0_if": "void row_scale<float, 32, false>(float const*, float*, int, float)",
    }
    own = {**launch("row_scale", dynamic=3000), **named}
    other = {
        **launch("row_scale", dynamic=500),
        "function": "void row_scale(const T*, T*, int, float) [with T = float; int kThreads = 64; bool kAdd = true]",
    }
    text = read("cuda13.0_sm89_templates.log")
    seen = {
        kernel.demangled.split("(")[0]: [one.dynamic_smem_bytes for one in kernel.launches]
        for kernel in evidence(text, own, other, demangled=names).kernels
    }
    assert seen == {
        "void row_scale<double, 128, true>": [3000],
        "void row_scale<float, 64, true>": [500],
        "void row_scale<float, 32, false>": [3000, 500],  # never launched: judged as if it were launched like the others
    }
    unclear = evidence(text, own, launch("row_scale", dynamic=500), demangled=names)  # of which instance is not known
    assert all(len(kernel.launches) == 2 for kernel in unclear.kernels)


@pytest.mark.parametrize(
    ("signature", "instance"),
    [
        ("void a::k(float*) [with int N = 64; bool kFast = false]", "a::k<64,false>"),
        ("void k(T::Problem) [with T = a::Tiling<__half, 128, 1>; bool kCausal = true]", "k<a::Tiling<__half,128,1>,true>"),
        ("void k(float*)", "k"),
        ("", ""),
    ],
)
def test_a_signature_of_the_compiler_is_reduced_to_the_instance(signature: str, instance: str) -> None:
    assert instance_of_signature(signature) == instance


def test_readable_names_are_shown() -> None:
    mangled = "_Z9row_scaleIdLi128ELb1EEvPKT_PS0_if"
    ours = evidence(
        read("cuda13.0_sm89_templates.log"),
        launch("row_scale<double, 128, true>"),
        demangled={mangled: "void row_scale<double, 128, true>(double const*, double*, int, float)"},
    )
    assert judge(ours, LIMITS).checks[0].where == "row_scale<double, 128, true> sm_89"


def test_a_kernel_that_the_log_lacks_fails() -> None:
    result = judge(evidence(one_kernel(name="other"), launch("other"), expected=("k",)), LIMITS)
    assert ("ptxas.kernel_missing", "k sm_89") in failed(result)
    assert judge(evidence("", launch("k"), expected=("k",)), LIMITS).code == "ptxas.kernel_missing"
    assert judge(evidence("nvcc: nothing to see\n"), LIMITS).code == "ptxas.kernel_missing"


def test_one_architecture_without_a_log_is_not_run_and_without_the_kernel_fails() -> None:
    good = one_kernel()
    none = judge(gather({"sm_89": good, "sm_90": None}, [launch("k")], ["k"], {}), LIMITS)
    assert none.status is Status.NOT_RUN and none.code == "ptxas.no_log"
    empty = judge(gather({"sm_89": good, "sm_90": "ptxas info    : 0 bytes gmem\n"}, [launch("k")], ["k"], {}), LIMITS)
    assert failed(empty) == {("ptxas.kernel_missing", "k sm_90")}
    assert judge(gather({}, None, [], {}), LIMITS).status is Status.NOT_RUN


def test_a_cut_log_fails_and_says_where() -> None:
    text = read("cuda13.0_sm89_spill.log")
    result = judge(evidence(text[: text.index("Used 32")], launch("light"), launch("heavy")), LIMITS)
    assert result.status is Status.FAIL
    assert any("log ends inside the block of heavy" in str(check.observed) for check in result.checks)


def test_two_architectures_of_one_log_are_kept_apart() -> None:
    text = read("torch2.13_ninja_first.log")
    ours = gather({"sm_80": text, "sm_90": text}, [launch("row_sum"), launch("axpy")], ["row_sum", "axpy"], {})
    assert sorted((kernel.base_name, kernel.arch) for kernel in ours.kernels) == [
        ("axpy", "sm_80"),
        ("axpy", "sm_90"),
        ("row_sum", "sm_80"),
        ("row_sum", "sm_90"),
    ]


# dynamic shared memory, chip limits


def test_unknown_dynamic_shared_memory_is_inconclusive_not_zero() -> None:
    for ours in (evidence(one_kernel(smem=1024)), evidence(one_kernel(smem=1024), launch("k", dynamic=None))):
        result = judge(ours, LIMITS)
        assert result.status is Status.INCONCLUSIVE and result.code == "ptxas.smem_unknown"
    assert judge(gather({"sm_89": one_kernel()}, None, ["k"], {}), LIMITS).status is Status.INCONCLUSIVE
    assert judge(evidence(one_kernel(smem=2048)), {**LIMITS, "max_smem_bytes": 1024}).code == "ptxas.smem"


def test_static_and_dynamic_shared_memory_share_the_budget() -> None:
    ours = evidence(one_kernel(smem=1024), launch("k", dynamic=64_512, opt_in=64_512))
    assert judge(ours, LIMITS).status is Status.PASS
    assert judge(ours, {**LIMITS, "max_smem_bytes": 65_535}).code == "ptxas.smem"


@pytest.mark.parametrize(
    ("static", "dynamic", "opt_in", "code"),
    [
        (0, 49_152, 0, "ptxas.pass"),
        (16, 49_152, 0, "ptxas.smem_opt_in"),
        (0, 49_153, 0, "ptxas.smem_opt_in"),
        (0, 49_153, 49_152, "ptxas.smem_opt_in"),
        (0, 49_153, 49_153, "ptxas.pass"),
        (16, 49_152, 49_152, "ptxas.pass"),
        (0, 101_376, 101_376, "ptxas.pass"),
        (0, 101_377, 101_377, "ptxas.smem_chip"),
    ],
)
def test_a_launch_above_48_kib_must_opt_in(static: int, dynamic: int, opt_in: int, code: str) -> None:
    ours = evidence(one_kernel(smem=static), launch("k", dynamic=dynamic, opt_in=opt_in))
    assert judge(ours, {"max_registers": 128, "max_smem_bytes": 200_000, "max_spill_bytes": 0}).code == code


def test_the_kilobyte_of_sm_90_counts_in_the_occupancy_and_not_against_the_launch() -> None:
    limits = {**LIMITS, "max_smem_bytes": 232_448}
    text = one_kernel(smem=128, arch="sm_90")
    full = judge(evidence(text, launch("k", dynamic=232_320, opt_in=232_320), arch="sm_90"), limits)
    assert full.status is Status.PASS and "1 CTAs" in checks(full, "occupancy")[0].hint
    over = judge(evidence(text, launch("k", dynamic=232_321, opt_in=232_321), arch="sm_90"), {**limits, "max_smem_bytes": 300_000})
    assert over.code == "ptxas.smem_chip"
    shared = judge(evidence(text, launch("k", dynamic=58_240, opt_in=58_240), arch="sm_90"), limits)  # 57 KiB
    assert "3 CTAs" in checks(shared, "occupancy")[0].hint


@pytest.mark.parametrize(
    ("registers", "threads", "code"),
    [(64, 1024, "ptxas.pass"), (96, 1024, "ptxas.registers_per_cta"), (65, 1000, "ptxas.registers_per_cta"), (16, 2048, "ptxas.threads")],
)
def test_launches_that_no_chip_takes(registers: int, threads: int, code: str) -> None:
    assert judge(evidence(one_kernel(registers=registers), launch("k", threads=threads)), LIMITS).code == code


WIDE, NARROW = one_kernel(name="_Z1kILi0EEvPf", registers=96), one_kernel(name="_Z1kILi1EEvPf", registers=168)  # of bounds 640 and 384
NO_REGISTERS = ("ptxas.registers_per_cta", "_Z1kILi1EEvPf sm_89")


@pytest.mark.parametrize(
    ("text", "threads", "bounds", "failures"),
    [
        (WIDE + NARROW, 640, 640, set()),
        (WIDE + NARROW, 640, None, {NO_REGISTERS}),
        (WIDE + NARROW, 640, 0, {NO_REGISTERS}),  # no __launch_bounds__
        (WIDE + NARROW, 640, 384, {NO_REGISTERS}),  # beyond its own bounds
        (NARROW, 640, 640, {NO_REGISTERS}),  # no other instance can have made it
        (WIDE + NARROW, 384, 384, set()),
        (WIDE + NARROW, 768, 768, {NO_REGISTERS, ("ptxas.registers_per_cta", "_Z1kILi0EEvPf sm_89")}),
    ],
)
def test_a_launch_within_its_bounds_is_of_an_instance_that_has_the_registers(
    text: str, threads: int, bounds: int | None, failures: set
) -> None:
    record = launch("k", threads=threads)
    ours = evidence(text, record if bounds is None else {**record, "max_threads": bounds})
    assert failed(judge(ours, {**LIMITS, "max_registers": 168})) == failures


def test_the_worst_of_several_launches_counts() -> None:
    launches = [launch("k", dynamic=1024), launch("k", dynamic=50_000, opt_in=50_000), launch("k", dynamic=1024)]
    ours = evidence(one_kernel(), *launches)
    assert len(ours.kernels[0].launches) == 2
    assert judge(ours, {**LIMITS, "max_smem_bytes": 49_999}).code == "ptxas.smem"


def test_a_kernel_of_the_task_that_was_never_launched_is_inconclusive_and_another_is_not() -> None:
    text = one_kernel(name="k") + one_kernel(name="unused").split("\n", 1)[1]
    assert judge(evidence(text, launch("k"), expected=("k",)), LIMITS).status is Status.PASS
    assert judge(evidence(text, launch("k"), expected=("k", "unused")), LIMITS).code == "ptxas.smem_unknown"


def test_a_chip_that_the_table_lacks_is_inconclusive() -> None:
    result = judge(evidence(one_kernel(arch="sm_999"), launch("k"), arch="sm_999"), LIMITS)
    assert result.code == "ptxas.unknown_chip"


# linker, spills to shared memory, cross-check


def test_the_linker_s_figures_are_judged() -> None:
    ours = evidence(read("cuda13.0_sm89_rdc_nvlink.log"), launch("caller"))
    assert checks(judge(ours, LIMITS), "registers")[0].observed == 46
    assert judge(ours, {**LIMITS, "max_registers": 45}).code == "ptxas.registers"
    assert (ours.kernels[0].linked.stack_bytes, ours.kernels[0].registers) == (264, 24)


def test_the_linker_s_figures_are_the_ones_everywhere() -> None:
    """ptxas's share is 24 registers and 16 warps' worth more."""
    ours = evidence(read("cuda13.0_sm89_rdc_nvlink.log").replace("used 46 registers", "used 254 registers"), launch("caller", threads=256))
    (kernel,) = ours.kernels
    assert (kernel.registers, kernel.final.registers, round(kernel.occupancy_pct, 2)) == (24, 254, 16.67)
    gate = judge(ours, LIMITS)
    rows = {row.name: row.candidate for row in _resource_rows(None, ours)}
    resources = _resources(kernel)
    assert checks(gate, "registers")[0].observed == int(rows["caller sm_89"].partition(" / ")[0]) == resources.registers == 254
    assert (
        checks(gate, "occupancy")[0].observed
        == float(rows["caller sm_89"].rpartition(" / ")[2])
        == round(resources.occupancy_pct, 2)
        == 16.67
    )
    assert "caller sm_89: 254 registers" in _kernel(kernel)


def test_the_launch_that_fits_the_fewest_warps_gives_the_occupancy() -> None:
    ours = evidence(one_kernel(registers=32), launch("k", threads=1024), launch("k", threads=64, dynamic=40000))
    (kernel,) = ours.kernels
    assert kernel.tightest == 1 and kernel.occupancy_pct == pytest.approx(100 * 4 / 48) and kernel.smem_bytes == 40000
    assert evidence(one_kernel(), launch("k", dynamic=None)).kernels[0].occupancy_pct is None


def test_relocatable_code_without_the_linker_s_line_is_inconclusive() -> None:
    text = "".join(line for line in read("cuda13.0_sm89_rdc_nvlink.log").splitlines(keepends=True) if not line.startswith("nvlink"))
    first = "".join(text.splitlines(keepends=True)[:6])  # the caller's file alone does not show it; the build's flags do
    for ours in (evidence(text, launch("caller")), evidence(first, launch("caller"), relocatable=True)):
        result = judge(ours, LIMITS)
        assert result.status is Status.INCONCLUSIVE and result.code == "ptxas.relocatable"
        assert result.checks[0].hint == RELOCATABLE.next_step


def test_spills_into_shared_memory_are_judged_and_pointed_at() -> None:
    text = read("cuda13.0_sm89_smem_spilling.log")
    result = judge(evidence(text, launch("heavy_smem", static=0)), LIMITS)
    assert result.code == "ptxas.spills" and checks(result, "smem")[0].observed == 16_384
    none = judge(evidence(text.replace("440", "0"), launch("heavy_smem", static=0)), LIMITS)
    assert none.status is Status.PASS
    assert "may be spilled to shared memory" in checks(none, "smem_beyond_source")[0].hint
    declared = judge(evidence(text.replace("440", "0"), launch("heavy_smem", static=16_384)), LIMITS)
    assert not checks(declared, "smem_beyond_source")


@pytest.mark.parametrize(
    ("arch", "shared", "agrees"), [("sm_89", 128, True), ("sm_90", 1152, True), ("sm_90", 128, False), ("sm_89", 1152, False)]
)
def test_the_cubin_must_agree_with_the_log(arch: str, shared: int, agrees: bool) -> None:
    usage = f"Resource usage:\n Common:\n  GLOBAL:0\n Function k:\n  REG:32 STACK:0 SHARED:{shared} LOCAL:0 CONSTANT[0]:360 TEXTURE:0\n"
    ours = evidence(one_kernel(smem=128, arch=arch), launch("k"), arch=arch, usage=usage)
    assert (ours.kernels[0].cross_check == "agrees") is agrees
    assert judge(ours, LIMITS).code == ("ptxas.pass" if agrees else "ptxas.cubin_differs")


@pytest.mark.parametrize(("stack", "agrees"), [(0, True), (8, True), (16, False)])
def test_the_cubin_may_count_the_stack_of_called_functions(stack: int, agrees: bool) -> None:
    """As ptxas 13.0 does for a kernel that calls a function by its address."""
    usage = f"Resource usage:\n Common:\n  GLOBAL:0\n Function k:\n  REG:32 STACK:{stack} SHARED:128 LOCAL:0 CONSTANT[0]:360 TEXTURE:0\n"
    log = one_kernel(smem=128).replace("used 1 barriers", "used 1 barriers, 8 bytes cumulative stack size")
    assert "cumulative" in log
    ours = evidence(log, launch("k"), usage=usage)
    assert (ours.kernels[0].cross_check == "agrees") is agrees


def test_warnings_are_shown_at_their_kernel() -> None:
    result = judge(evidence(read("cuda13.0_sm89_bounds.log"), launch("fine"), launch("impossible")), LIMITS)
    assert [(check.where, check.observed) for check in checks(result, "advice")] == [
        ("impossible", "impossible: Value of threads per SM is out of range. .minnctapersm will be ignored, sm_89")
    ]
    assert checks(result, "registers")[1].observed == 26


# change against the baseline

NAMES = ("calls_pointer", "calls_fib", "local_array", "calls_helper")


def stack_evidence(text: str, expected: tuple[str, ...] = NAMES) -> PtxasEvidence:
    return evidence(text, *(launch(name) for name in NAMES), expected=expected)


def test_a_change_of_one_register_is_in_the_report() -> None:
    text = read("cuda13.0_sm89_stack.log")
    before = stack_evidence(text.replace("Used 48 registers", "Used 47 registers"))
    result = judge(stack_evidence(text), LIMITS, before)
    assert result.status is Status.PASS
    (change,) = checks(result, "registers_change")
    assert (change.where, change.observed) == ("calls_helper sm_89", "47 -> 48 (+1)")
    assert not checks(judge(stack_evidence(text), LIMITS, stack_evidence(text)), "registers_change")


@pytest.mark.parametrize("expected", [NAMES, (), tuple(name for name in NAMES if name != "local_array")])
def test_a_vanished_kernel_fails(expected: tuple[str, ...]) -> None:
    text = read("cuda13.0_sm89_stack.log")
    start, end = (
        text.index("ptxas info    : Compiling entry function 'local_array'"),
        text.index("ptxas info    : Compiling entry function 'calls_helper'"),
    )
    result = judge(stack_evidence(text[:start] + text[end:], expected), LIMITS, stack_evidence(text, expected))
    assert result.status is Status.FAIL
    assert ("ptxas.kernel_vanished", "local_array sm_89") in failed(result)
    assert any(check.observed == "in the baseline, not in this build" for check in result.checks)


def test_a_kernel_taken_out_of_the_task_is_no_failure() -> None:
    text = read("cuda13.0_sm89_stack.log")
    start, end = (
        text.index("ptxas info    : Compiling entry function 'local_array'"),
        text.index("ptxas info    : Compiling entry function 'calls_helper'"),
    )
    kept = tuple(name for name in NAMES if name != "local_array")
    result = judge(stack_evidence(text[:start] + text[end:], kept), LIMITS, stack_evidence(text))
    assert result.status is Status.PASS and checks(result, "dropped_kernel")


def test_a_new_kernel_is_listed() -> None:
    result = judge(
        evidence(one_kernel() + one_kernel(name="fresh"), launch("k"), launch("fresh")), LIMITS, evidence(one_kernel(), launch("k"))
    )
    assert result.status is Status.PASS and checks(result, "new_kernel")[0].where == "fresh sm_89"


def test_one_source_in_two_folders_matches() -> None:
    text = read("cuda13.0_sm89_names.log")
    names = ("hidden", "apply", "kernel$with$dollar", "used_32_registers_0_bytes_spill_stores")
    there = evidence(text.replace("9131ba9c", "d8e4ea1f"), *map(launch, names))
    result = judge(evidence(text, *map(launch, names)), LIMITS, there)
    assert result.status is Status.PASS
    assert not checks(result, "new_kernel") and len(checks(result, "registers")) == 4
    assert {check.observed for check in checks(result, "registers")} == {8}


def test_a_template_whose_argument_changed_is_the_same_kernel() -> None:
    off, on = one_kernel(name="_Z1kILi0EEvPf"), one_kernel(name="_Z1kILi1EEvPf", registers=40)
    result = judge(evidence(on, launch("k")), LIMITS, evidence(off, launch("k")))
    assert result.status is Status.PASS and checks(result, "registers_change")[0].observed == "32 -> 40 (+8)"


# the record


def test_every_code_is_explained_and_evidence_survives_json() -> None:
    ours = evidence(read("cuda13.0_sm89_rdc_nvlink.log"), launch("caller", static=0))
    assert from_json(PtxasEvidence, to_json(ours), "ptxas.json") == ours
    text = read("cuda13.0_sm89_spill.log")
    for other in (evidence(text), evidence(text[:500]), evidence("")):
        assert {check.code for check in judge(other, LIMITS).checks if check.code} <= set(CODES)


def test_a_figure_that_is_missing_in_stored_evidence_never_passes() -> None:
    ours = evidence(one_kernel(), launch("k"))
    for field in ("registers", "static_smem_bytes", "spill_store_bytes", "spill_load_bytes"):
        holed = replace(ours, kernels=(replace(ours.kernels[0], **{field: None}),))
        assert judge(holed, LIMITS).status is Status.FAIL, field


def test_a_launch_as_a_device_saw_it_gives_its_dynamic_part() -> None:
    log = (
        "ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90'\nptxas info    : Function properties for _Z1kPf\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 16 registers, 1024 bytes smem, 376 "
        "bytes cmem[0]\n"
    )
    seen = [{"kernel": "void k(float*)", "grid": [1, 1, 1], "block": [64, 2, 1], "smem_bytes": 5120, "error": ""}]
    (kernel,) = gather({"sm_90": log}, seen, ["k"], {}).kernels
    assert kernel.launches == (Launch(128, 4096, None, None),)


def test_a_register_cap_without_effect_is_noted() -> None:
    line = "ptxas info    : Overriding global maxrregcount 64 with entry-specific value 128 computed using thread count\n"
    result = judge(evidence(line + one_kernel(), launch("k")), LIMITS)
    assert result.status is Status.PASS and result.sentence.endswith("on sm_89; -maxrregcount has no effect")
    assert (
        checks(result, "register_cap")[0].observed
        == "no effect: global maxrregcount 64 with entry-specific value 128 computed using thread count"
    )
