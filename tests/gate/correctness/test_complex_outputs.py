"""Complex outputs: both parts of every element count, in every figure, and in the places that are told."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from exploits.kit import codes, correctness
from test_returned_outputs import checked

from gates.core.records import Status
from gates.gate.correctness.runner import accuracy
from gates.gate.correctness.runner.error_map import error_map
from gates.gate.correctness.runner.yardstick import Yardstick
from gates.gate.performance.runner.outputs import compare
from gates.launch import guarded_buffers
from gates.task.load import load_task

PROBLEM = """
import torch
SHAPES = {"small": {"N": 96}, "odd": {"N": 37}, "mission": {"N": 500}}
ODD_SHAPES = ("odd",)
def make_inputs(shape, seed, device):
    return {"x": torch.randn(shape["N"], generator=torch.Generator().manual_seed(seed), dtype=torch.complex64)}
def reference(inputs, shape):
    a = inputs["x"].to(torch.complex128)
    return ANSWER
"""
TIGHT = {"max_abs_err": 1e-5, "mean_abs_err": 1e-6, "bad_pct": 0.0, "bad_atol": 1e-5}
COMPLEX = (
    "def make_inputs(shape, seed, device):\n    return {'x': torch.randn(shape['N'], "
    "generator=torch.Generator().manual_seed(seed), dtype=torch.complex64)}\n"
)
SQUARE = COMPLEX + "def reference(inputs): return inputs['x'].to(torch.complex128) ** 2\n"


def judged(root: Path, answer: str, kernel: str, limits: dict[str, float]) -> Any:
    """The gate's verdict on the function that gives ``kernel`` for x."""
    folder = root / (name := "complex_out")
    folder.mkdir()
    (folder / f"{name}_problem.py").write_text(PROBLEM.replace("ANSWER", answer))
    (folder / "kernel.py").write_text(f"import torch\ndef kern(x):\n    return {kernel}\n")
    task = {
        "name": name,
        "title": name,
        "kind": "python",
        "problem": f"{name}_problem",
        "sources": ["kernel.py"],
        "entry": "kern",
        "arguments": ["x"],
        "shapes": ["small", "mission"],
        "seeds": [0, 1, 2],
        "gates": {"correctness": limits, "performance": {"shape": "mission", "min_speedup_pct": 15, "metrics": ["p50"]}},
        "not_applicable": dict.fromkeys(("ptxas", "sass", "sanitizer", "ncu", "performance"), "x y z"),
        "time_limit_s": 60,
    }
    (folder / "task.yaml").write_text(yaml.safe_dump(task, sort_keys=False))
    return correctness(load_task(folder, environ={}), None, root / "work", "cpu")


@pytest.mark.parametrize(
    ("answer", "kernel"),
    [
        ("a * a", "x * x"),
        ("torch.exp(a).conj()", "torch.exp(x).conj()"),
        ("a.abs()", "x.abs()"),
        ("a.imag", "x.imag"),
        ("torch.view_as_real(a * a)", "torch.view_as_real(x * x)"),
    ],
)
def test_an_honest_function_of_complex_numbers_passes(answer: str, kernel: str, tmp_path: Path) -> None:
    result = judged(tmp_path, answer, kernel, TIGHT)
    assert result.status is Status.PASS, result.checks


@pytest.mark.parametrize(
    ("kernel", "likely"),
    [
        ("(x * x).conj()", "only the imaginary part is wrong"),
        ("torch.complex((x * x).imag, (x * x).real)", "the real and the imaginary part are exchanged"),
        ("torch.complex((x * x).real, 0 * x.real)", "only the imaginary part is wrong"),
        ("torch.complex(0 * x.real, (x * x).imag)", "only the real part is wrong"),
    ],
)
def test_a_wrong_part_is_refused_and_named(kernel: str, likely: str, tmp_path: Path) -> None:
    result = judged(tmp_path, "a * a", kernel, {"max_abs_err": 1.0, "mean_abs_err": 1.0, "bad_pct": 0.0, "bad_atol": 1.0})
    assert result.status is Status.FAIL and "max_abs_err" in codes(result), result.checks
    assert any(note.startswith(f"likely: {likely}") for check in result.checks for note in check.notes), result.checks


def test_the_map_and_the_places_name_the_part(tmp_path: Path) -> None:
    record = checked(tmp_path, "def f(x): return (x * x).conj()", SQUARE, TIGHT)
    (output,) = record["outputs"]
    assert output["dtype"] == "complex64" and output["elements"] == 16 and output["worst_index"][1] == 1
    assert output["worst_got"] == pytest.approx(-output["worst_expected"], rel=1e-6)
    axes, first = output["error_map"]["axes"], output["error_map"]["first"][0]
    assert [axis["name"] for axis in axes] == ["axis 0", "complex part"] and axes[1]["ranges"] == [[1, 1]]
    assert first["index"] == [0, 1] and first["got"] == pytest.approx(-first["expected"], rel=1e-6)


def test_named_axes_get_the_part_as_their_last(tmp_path: Path) -> None:
    record = checked(tmp_path, "def f(x): return (x * x).conj()", SQUARE + "AXES = {'out': ('row',)}\n", TIGHT)
    assert [axis["name"] for axis in record["outputs"][0]["error_map"]["axes"]] == ["row", "complex part"]


def test_an_imaginary_part_that_differs_between_calls_is_seen(tmp_path: Path) -> None:
    kernel = "def f(x):\n    calls.append(x)\n    return torch.complex((x * x).real, (x * x).imag + len(calls))"
    record = checked(tmp_path, kernel, SQUARE)
    assert record["differences"] == 8 and record["first_difference"].startswith("out[1] is ")


@pytest.mark.parametrize(
    ("kernel", "more", "said"),
    [
        ("def f(x): return (x * x).real", SQUARE, "returned torch.float32 for out; the reference has torch.complex128"),
        (
            "def f(x): return x + 0",
            COMPLEX + "def reference(inputs): return inputs['x'].real.double()\n",
            "returned torch.complex64 for out; the reference has torch.float64",
        ),
        (
            "def f(x): return (x * x).to(torch.complex128)",
            SQUARE + "def make_outputs(shape, device): return torch.empty(shape['N'], dtype=torch.complex64)\n",
            "returned torch.complex128 for output 'out', make_outputs has torch.complex64",
        ),
    ],
)
def test_a_complex_output_is_no_real_one(kernel: str, more: str, said: str, tmp_path: Path) -> None:
    record = checked(tmp_path, kernel, more)
    assert record["status"] == "bad_output" and said in record["message"], record


def test_real_bounds_hold_for_each_part_and_real_null_answers_have_no_imaginary_one() -> None:
    want = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128)
    found = accuracy.figures("out", (want + 0.5j).to(torch.complex64), want, 0.1, torch.full((2,), 0.25), {"real": want.real})
    assert found["max_err_over_bound"] == pytest.approx(2.0) and found["bound_index"][1] == 1 and found["bad_pct"] == 50.0
    assert {one["kind"]: one["max_abs_err"] for one in found["nulls"]}["real"] == 4.0


@pytest.mark.parametrize(("dtype", "roundoff"), [(torch.complex32, 2.0**-11), (torch.complex64, 2.0**-24), (torch.complex128, 2.0**-53)])
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_formats_are_those_of_the_parts(dtype: torch.dtype, roundoff: float) -> None:
    want = torch.randn(64, dtype=torch.complex128, generator=torch.Generator().manual_seed(0))
    found = accuracy.figures("out", want.to(dtype), want, None)
    assert (
        found["unit_roundoff"] == roundoff and found["max_abs_err"] <= 4 * roundoff and found["max_abs_err"] == found["best"]["max_abs_err"]
    )


def test_timed_outputs_are_compared_in_both_parts() -> None:
    want = torch.tensor([1 + 2j, 3 - 4j])
    rows = {"out": torch.stack((want, want.conj().resolve_conj()))}
    found = compare("after", "candidate", rows, [{"out": want.to(torch.complex128)}] * 2, 0.5)
    assert found["max_abs_err"] == 8.0 and found["bad_pct"] == 25.0
    assert compare("after", "candidate", {"out": want.reshape(1, -1)}, [{"out": want}], 0.5)["max_abs_err"] == 0.0


def test_a_complex_poison_is_nan_in_both_parts_and_shows_what_was_not_written() -> None:
    calls = [guarded_buffers.poison(torch.empty(5, dtype=torch.complex64), 7, variant) for variant in range(3)]
    assert bool(torch.isnan(calls[0].real).all() and torch.isnan(calls[0].imag).all())
    left = [call.clone() for call in calls]
    for one in left:
        one.real[0] = 1.0
    assert guarded_buffers.untouched(left, calls) == 9  # reals


def test_limits_are_widened_by_what_complex_rounding_explains() -> None:
    class Problem:
        SHAPES = {"home": {"N": 64}}

        def make_inputs(self, shape: Any, seed: int, device: str) -> dict[str, Any]:
            return {"x": torch.randn(shape["N"], dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))}

        def reference(self, inputs: Any, shape: Any) -> dict[str, Any]:
            return {"out": inputs["x"].to(torch.complex128) ** 2}

    problem = Problem()
    inputs = {"x": 100j * problem.make_inputs(problem.SHAPES["home"], 1, "cpu")["x"]}
    reference = problem.reference(inputs, {})
    (scale, floor), missing = Yardstick(problem).judge(inputs, {}, reference, {"out": inputs["x"]}, bounded=False, non_finite=False)
    assert 1e4 < scale < 1e6 and 0 < floor < 1e-5 and not missing


def test_a_map_of_pairs_is_likened_to_what_it_is() -> None:
    want = torch.view_as_real(torch.randn(64, dtype=torch.complex128, generator=torch.Generator().manual_seed(0)))
    found = error_map(-want, want, torch.ones_like(want, dtype=torch.bool), limit="x", axes=("n", "part"), roundoff=2.0**-24)
    assert found is not None and found["likenesses"][0]["value"] == -1.0 and math.isfinite(found["relative"])
