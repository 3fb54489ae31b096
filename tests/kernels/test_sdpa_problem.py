"""The SDPA problem: inputs, quantisation, the reference, the task files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sdpa_kit import ROOT, STAGES, problem, task_of
from torch.nn.functional import scaled_dot_product_attention

from gates.task.load import load_task
from gates.task.problem import call_arguments, load
from tasks.problems import sdpa

SMALL = problem.SHAPES["small"]


def test_module_keeps_the_contract():
    module = load("tasks.problems.sdpa_fp8", ROOT / "tasks" / "stage0_scalar")
    inputs = module.make_inputs(SMALL, 0, "cpu")
    arguments = call_arguments(module, inputs, module.make_outputs(SMALL, "cpu"), SMALL)
    assert [type(argument).__name__ for argument in arguments[-5:]] == ["int", "int", "int", "int", "float"]
    assert set(module.ODD_SHAPES) <= set(module.SHAPES)


def test_inputs_depend_on_the_seed_and_on_nothing_else():
    one, same, other = (problem.make_inputs(SMALL, seed, "cpu") for seed in (5, 5, 6))
    for name in ("q", "k", "v", "q_scale", "k_scale", "v_scale"):
        assert torch.equal(one[name], same[name])
        assert not torch.equal(one[name], other[name])
    assert one["q"].dtype == torch.uint8 and one["q_scale"].dtype == torch.float32
    assert one["q_scale"].shape == (1, 1)


def test_quantisation_uses_the_whole_range_and_rounds_to_nearest():
    values = torch.tensor([0.0, 1.0, -2.0, 448.0]).to(torch.float16).view(1, 1, 1, 4)
    data, scale = problem.quantise(values)
    assert scale.item() == 1.0
    assert torch.equal(problem.dequantise(data, scale), values.double())
    inputs = problem.make_inputs(problem.SHAPES["mission"], 0, "cpu")
    dequantised = problem.dequantise(inputs["q"], inputs["q_scale"])
    relative = ((dequantised - inputs["q_fp16"].double()).abs() / inputs["q_fp16"].double().abs().clamp(min=0.2)).max()
    assert relative <= 2**-4 * 1.001  # half a step of 3 mantissa bits


def test_all_zero_head_is_quantised_without_nan():
    data, scale = problem.quantise(torch.zeros(1, 2, 3, 4, dtype=torch.float16))
    assert torch.equal(problem.dequantise(data, scale), torch.zeros(1, 2, 3, 4, dtype=torch.float64))


@pytest.mark.parametrize("name", ["small", "single", "tail", "odd", "mission"])
def test_reference_is_exact_attention(name):
    shape = problem.SHAPES[name]
    inputs = problem.make_inputs(shape, 1, "cpu")
    q, k, v = (problem.dequantise(inputs[key], inputs[f"{key}_scale"]) for key in ("q", "k", "v"))
    expected = scaled_dot_product_attention(q, k, v, scale=inputs["softmax_scale"])
    assert torch.allclose(problem.reference(inputs, shape)["out"], expected, rtol=0, atol=1e-12)


def test_reference_in_slices_equals_the_whole(monkeypatch):
    shape = problem.SHAPES["odd"]
    inputs = problem.make_inputs(shape, 1, "cpu")
    whole = problem.reference(inputs, shape)["out"]
    monkeypatch.setattr(sdpa, "_QUERY_SLICE", 7)
    assert torch.allclose(problem.reference(inputs, shape)["out"], whole, rtol=0, atol=1e-14)


def test_format_error_stays_within_the_end_to_end_limits_of_every_stage():
    for stage in STAGES:
        task = task_of(stage)
        limits = task["gates"]["correctness"]["end_to_end"]
        for name in task["shapes"]:
            for seed in task["seeds"]:
                shape = problem.SHAPES[name]
                inputs = problem.make_inputs(shape, seed, "cpu")
                error = (problem.reference(inputs, shape)["out"] - problem.end_to_end(inputs, shape)["out"]).abs()
                assert error.max() <= limits["max_abs_err"] and error.mean() <= limits["mean_abs_err"]
        break  # the cases are the same for all stages


def test_work_of_the_mission_shape():
    assert problem.work(problem.SHAPES["mission"]) == {
        "tensor.fp8": 4 * 8 * 512 * 512 * 64,
        "sfu.ex2": 8 * 512 * 512,
        "bytes": 5 * 8 * 512 * 64 + 96,
    }


def test_no_backends_without_a_device():
    assert problem.backends(problem.make_inputs(SMALL, 0, "cpu"), SMALL) == {}


@pytest.mark.gpu
def test_backends_agree_with_the_format_free_result():
    inputs = problem.make_inputs(SMALL, 0, "cuda")
    expected = problem.end_to_end(inputs, SMALL)["out"]
    backends = problem.backends(inputs, SMALL)
    assert set(backends) == {"flash", "efficient", "cudnn", "math"}
    for call in backends.values():
        assert (call().cpu().double() - expected).abs().max() < 2e-3


def test_each_stage_names_the_one_before_as_its_baseline():
    previous = None
    for stage in STAGES:
        task = load_task(Path(ROOT / "tasks" / stage))
        assert task.baseline == previous
        assert ("performance" in task.not_applicable) == (previous is None)
        previous = stage
