"""The SDPA stages on the CPU emulator and, marked gpu, on a CUDA device."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from conformance import stages
from conftest import OnceASession
from defects.combined import compile_patched
from fp16_kit import unpatched
from places import ROOT
from sdpa_kit import (
    ENTRY,
    STAGES,
    extreme_inputs,
    on_device,
    problem,
    run,
    task_of,
    worst_error,
)

from gates.core import jsonio
from gates.launch.c_launcher import Kernel, KernelError
from gates.launch.emulated_kernel import EmulatedKernel
from gates.task.tensor_digest import digest

LIMIT = {stage: task_of(stage)["gates"]["correctness"]["max_abs_err"] for stage in STAGES}
RECORDED = ROOT / "results" / "recorded" / "h100" / "emulator" / "stages.json.gz"
ADDED = {"stage1_wmma_qk": "USE_WMMA_QK", "stage2_wmma_pv": "USE_WMMA_PV", "stage3_cp_async": "USE_CP_ASYNC"}  # stage: toggle that it adds
OTHERS = {
    **{toggle: (stage, {toggle: 0}) for stage, toggle in ADDED.items()},
    "debug": ("stage2_wmma_pv", {"DEBUG_PRINT": 1}),
}
LENGTHS = (1, 15, 31, 33, 48, 63, 65, 127, 129, 200)  # around the tiles of 32 queries and 64 keys


@pytest.fixture(scope="module")
def kernels(kept: OnceASession) -> dict[str, EmulatedKernel]:
    """The stages as they are, and others of them by name, compiled as one source."""
    tried = {
        **{stage: unpatched(stage) for stage in STAGES},
        **{name: unpatched(stage, **toggles) for name, (stage, toggles) in OTHERS.items()},
    }
    folder = kept("fp8_stages", lambda folder: compile_patched(list(tried.values()), folder))
    return {name: EmulatedKernel(folder / "patched.so", f"{ENTRY}_{number}") for number, name in enumerate(tried)}


@pytest.fixture(scope="module")
def device_kernels(tmp_path_factory) -> dict[str, Kernel]:
    folder = tmp_path_factory.mktemp("sdpa-device")
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(STAGES, (Kernel(path, ENTRY) for path in pool.map(lambda s: on_device(folder, s), STAGES)), strict=True))


def shape_of(length: int, batch: int = 1, heads: int = 2) -> dict[str, int]:
    return {"B": batch, "H": heads, "S": length, "D": 64}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("length", LENGTHS)
def test_any_length(kernels, stage, length):
    shape = shape_of(length)
    inputs = problem.make_inputs(shape, length, "cpu")
    assert worst_error(run(kernels[stage], inputs, shape), inputs, shape) <= LIMIT[stage]
    assert kernels[stage].findings == []


@pytest.mark.parametrize("stage", STAGES)
def test_mission(kernels, stage):
    shape = problem.SHAPES["mission"]
    inputs = problem.make_inputs(shape, 0, "cpu")
    out = run(kernels[stage], inputs, shape)
    assert worst_error(out, inputs, shape) <= 3e-4  # measured: 2.34e-4 in all stages, here and on an H100
    assert kernels[stage].findings == []


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("order", ["reversed", "shuffled"])
def test_result_does_not_depend_on_the_order_of_threads(kernels, stage, order):
    shape = shape_of(200)
    inputs = problem.make_inputs(shape, 3, "cpu")
    forward = run(kernels[stage], inputs, shape)
    assert torch.equal(run(kernels[stage], inputs, shape, order=order), forward)


@pytest.mark.parametrize("stage", ["stage3_cp_async", "stage4_mma"])
@pytest.mark.parametrize("seed", range(4))
def test_asynchronous_copies_may_land_early(kernels, stage, seed):
    shape = shape_of(130)
    inputs = problem.make_inputs(shape, 0, "cpu")
    assert torch.equal(*(run(kernels[stage], inputs, shape, order=order, seed=seed) for order in ("forward", "shuffled")))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", stages.SMALL_SHAPES)
def test_emulator_gives_what_an_h100_gave(kernels, stage, name):
    if not RECORDED.is_file():
        pytest.skip("no recording: studies/record_conformance.py stages makes it on a device")
    kept = jsonio.read(RECORDED)["outputs"][name]
    shape = problem.SHAPES[name]
    inputs = problem.make_inputs(shape, kept["seed"], "cpu")
    if stage not in kept["stages"]:
        pytest.skip("not recorded on a device yet")
    assert digest(inputs) == kept["inputs_sha256"], "recorded with other inputs"
    base = None if stage == STAGES[0] else stages.decode(kept["stages"][STAGES[0]], None, kept["elements"])
    device = stages.decode(kept["stages"][stage], base, kept["elements"])
    out = run(kernels[stage], inputs, shape).reshape(-1).view(torch.int16).numpy().view("uint16")
    figures = stages.compared(device, out, problem.reference(inputs, shape)["out"].reshape(-1).numpy())
    assert stages.passes(figures, LIMIT[stage]), figures


def test_recorded_stage_outputs_agree_with_the_emulator_of_then():
    if not RECORDED.is_file():
        pytest.skip("no recording: studies/record_conformance.py stages makes it on a device")
    recorded = jsonio.read(RECORDED)
    tried = {case.split()[0] for case in recorded["cases"]}
    assert tried <= set(STAGES) and len(tried) >= 4, tried
    assert len(recorded["cases"]) == len(tried) * len(stages.ALL_SHAPES) * len(stages.SEEDS) and recorded["failed"] == {}
    for case, figures in recorded["cases"].items():
        assert stages.passes(figures, LIMIT[case.split()[0]]), case


@pytest.mark.parametrize("stage", STAGES)
def test_scores_of_minus_four_million(kernels, stage):
    shape = shape_of(130)
    inputs = extreme_inputs(shape)
    out = run(kernels[stage], inputs, shape)
    mean = problem.dequantise(inputs["v"], inputs["v_scale"]).mean(dim=2, keepdim=True)
    assert torch.isfinite(out).all()
    assert (out.double() - mean).abs().max() <= LIMIT[stage]


@pytest.mark.parametrize("stage", STAGES)
def test_maximum_that_comes_last_outweighs_all_tiles_before(kernels, stage):
    shape = shape_of(150)
    inputs = extreme_inputs(shape)
    keys = torch.full((1, 2, 150, 64), -724.0, dtype=torch.float16)
    keys[:, :, -1] = 724.0
    inputs["k"], inputs["k_scale"] = problem.quantise(keys)
    expected = problem.dequantise(inputs["v"], inputs["v_scale"])[:, :, -1:]
    assert (run(kernels[stage], inputs, shape).double() - expected).abs().max() <= LIMIT[stage]


@pytest.mark.parametrize("stage", STAGES)
def test_scales_are_a_heads_own(kernels, stage):
    shape = shape_of(70, batch=2, heads=3)
    inputs = problem.make_inputs(shape, 0, "cpu")
    for name, base in (("q_scale", 1.3), ("k_scale", 0.7), ("v_scale", 1.9)):
        inputs[name] = (inputs[name] * base ** torch.arange(6.0).view(2, 3) / 2).contiguous()
    inputs["softmax_scale"] = 0.09
    reference = problem.reference(inputs, shape)["out"]
    error = (run(kernels[stage], inputs, shape).double() - reference).abs() / reference.abs().clamp(min=1)
    assert error.max() <= LIMIT[stage]


REFUSED = {
    "null": ("q", 0, "q: null pointer"),
    "unaligned": ("k", 8, "k: address 0x8 is not aligned to 16 bytes"),
    "unaligned out": ("out", 2, "out: address 0x2 is not aligned to 16 bytes"),
    "unaligned scale": ("v_scale", 2, "v_scale: address 0x2 is not aligned to 4 bytes"),
    "no batch": ("B", 0, "B: 0, must be from 1 to"),
    "negative length": ("S", -1, "S: -1, must be from 1 to"),
    "head dimension": ("D", 128, "D: 128, this kernel is for 64"),
    "length": ("S", 2**31, "S: 2147483648, must be from 1 to 1073741824"),
    "heads": ("H", 2**33, "H: 8589934592, must be from 1 to"),
    "scale": ("softmax_scale", float("inf"), "softmax_scale: inf, must be finite"),
}


def refusal(kernel, **changes):
    """What a call of `small` with other arguments says; whole numbers stand for addresses."""
    shape = problem.SHAPES["small"]
    values = {**problem.make_inputs(shape, 0, "cpu"), **problem.make_outputs(shape, "cpu"), **shape}
    changes = {name: ctypes.c_void_p(value) if torch.is_tensor(values[name]) else value for name, value in changes.items()}
    with pytest.raises(KernelError) as caught:
        kernel(*({**values, **changes}[key] for key in problem.ARGUMENTS))
    return str(caught.value)


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("stage", ["stage3_cp_async", "stage4_mma"])
def test_launcher_refuses_and_names_the_argument(kernels, stage, case):
    name, value, message = REFUSED[case]
    assert message in refusal(kernels[stage], **{name: value})


def test_launcher_refuses_more_than_a_grid_holds(kernels):
    many = refusal(kernels["stage3_cp_async"], B=2**16, H=2**15)
    assert "B, H, S: 65536 x 32768 heads of 1 query tiles are more CTAs than a grid's 2147483647" in many
    assert "H: 65536, must be from 1 to 65535" in refusal(kernels["stage4_mma"], H=2**16)


@pytest.mark.parametrize("stage", ADDED)
def test_a_stage_without_what_it_adds_is_the_stage_before(kernels, stage):
    shape = shape_of(130)
    inputs = problem.make_inputs(shape, 0, "cpu")
    calls = {}
    for name in (STAGES[STAGES.index(stage) - 1], stage, ADDED[stage]):
        out = run(kernels[name], inputs, shape)
        (launch,) = kernels[name].launches
        calls[name] = (out.view(torch.int16).tolist(), launch["dynamic_smem_bytes"])
    before, own, off = calls.values()
    assert off == before != own


def test_debug_print_shows_the_first_tile_once(kernels, capfd):
    kernel = kernels["debug"]
    shape = shape_of(130)
    inputs = problem.make_inputs(shape, 0, "cpu")
    out = run(kernel, inputs, shape)
    ctypes.CDLL(None).fflush(None)
    printed = capfd.readouterr().out
    q, k = (inputs[name].view(torch.float8_e4m3fn).double() for name in ("q", "k"))
    first = (q[0, 0, 0] @ k[0, 0, 0]).item()
    assert f"score[0][0] = {first:.6f}\n" in printed
    assert printed.count("score[0][0]") == printed.count("p[0][0]") == printed.count("m[0] = ") == 1
    assert worst_error(out, inputs, shape) <= LIMIT["stage2_wmma_pv"]


@pytest.mark.gpu
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", [name for name in problem.SHAPES if name != "big"])  # timing checks its outputs
def test_shapes_on_the_device(device_kernels, stage, name):
    shape = problem.SHAPES[name]
    inputs = problem.make_inputs(shape, 0, "cuda")
    assert worst_error(run(device_kernels[stage], inputs, shape), inputs, shape) <= LIMIT[stage]


@pytest.mark.gpu
@pytest.mark.parametrize("stage", STAGES)
def test_scores_of_minus_four_million_on_the_device(device_kernels, stage):
    shape = shape_of(130)
    inputs = {name: value.cuda() if torch.is_tensor(value) else value for name, value in extreme_inputs(shape).items()}
    mean = problem.dequantise(inputs["v"], inputs["v_scale"]).mean(dim=2, keepdim=True)
    assert (run(device_kernels[stage], inputs, shape).double() - mean).abs().max() <= LIMIT[stage]
