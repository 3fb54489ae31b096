"""What a Python function may give back: what can't be judged is a finding about the kernel, not about the problem."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.worker.job import ResultWriter

PROBLEM = """
import torch
SHAPES = {"small": {"N": 8}}
def make_inputs(shape, seed, device):
    return {"x": torch.randn(shape["N"], generator=torch.Generator().manual_seed(seed))}
def reference(inputs):
    return inputs["x"].double() * 2
"""
OUTPUTS = "def make_outputs(shape, device):\n    return torch.empty(shape['N'])\n"
GOOD = "def f(x): return x * 2"


def checked(folder: Path, kernel: str, more: str = "", limits: dict[str, float] | None = None, **other: Any) -> dict[str, Any]:
    """The record of one case of the function ``f``; ``other``: what the case has otherwise."""
    from gates.gate.correctness.runner import case as casecheck
    from gates.launch.side import opened

    name = f"returned_problem_{folder.name}"
    (folder / f"{name}.py").write_text(PROBLEM + more)
    (folder / "kernel.py").write_text(f"import torch\nimport numpy\ncalls = []\n{kernel}\n")
    side = {
        "name": "f",
        "library": str(folder / "kernel.py"),
        "entry": "f",
        "folder": str(folder),
        "problem": name,
        "emulated": True,
        "kind": "python",
    }
    case = {"shape": "small", "seed": 0, "inputs": "default", "orders": ["forward", "forward"], "probe": False, "role": "headline", **other}
    with opened({"side": side, "device": "cpu", "result": str(folder / "result.jsonl")}) as opened_side:
        return casecheck.check(opened_side, case, {"reference": 1e-5}, lambda phase: None, limits)


@pytest.mark.parametrize("kernel", [GOOD, "def f(x): return torch.stack((x * 2, x), dim=1)[:, 0]"])
@pytest.mark.parametrize("size", [8, 1])
def test_outputs_that_can_be_judged(kernel: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PROBLEM", PROBLEM.replace('"N": 8', f'"N": {size}'))
    assert checked(tmp_path, kernel)["status"] == "ok"


ONE = "def reference(inputs): return {'y': inputs['x'].double() * 2}\n"
TWO = "def reference(inputs): return {'lo': inputs['x'].double().min(), 'hi': inputs['x'].double().max()}\n"
BESIDE = "IN_PLACE = ('x',)\ndef reference(inputs): return {'x': inputs['x'].double() + 1, 'y': inputs['x'].double() * 2}\n"


@pytest.mark.parametrize(
    ("kernel", "more"),
    [
        (GOOD, ONE),
        ("def f(x): return (x * 2,)", ONE),
        ("def f(x): return {'y': x * 2}", ONE),
        ("def f(x): return x.min(), x.max()", TWO),
        ("def f(x): return [x.min(), x.max()]", TWO),
        ("def f(x): return {'hi': x.max(), 'lo': x.min()}", TWO),
        ("def f(x):\n    y = x * 2\n    x += 1\n    return y", BESIDE),
    ],
)
def test_tensors_without_names_get_those_of_the_reference_in_order(kernel: str, more: str, tmp_path: Path) -> None:
    record = checked(tmp_path, kernel, more)
    assert record["status"] == "ok" and all(output["max_abs_err"] < 1e-5 for output in record["outputs"]), record


def test_the_order_of_the_reference_counts(tmp_path: Path) -> None:
    record = checked(tmp_path, "def f(x): return x.max(), x.min()", TWO)
    assert record["status"] == "ok" and {output["name"]: output["max_abs_err"] > 1 for output in record["outputs"]} == {
        "lo": True,
        "hi": True,
    }


@pytest.mark.parametrize(
    ("kernel", "more", "said"),
    [
        ("def f(x): return x * 2, x", ONE, "gave out0, out1; the reference gives y"),
        ("def f(x): return {'z': x * 2}", ONE, "gave z; the reference gives y"),
        ("def f(x): return {'out': x * 2}", ONE, "gave out; the reference gives y"),
        ("def f(x): return {'a': x.min(), 'b': x.max()}", TWO, "gave a, b; the reference gives hi, lo"),
        ("def f(x): return {'y': x * 2}, {'y': x}", ONE, "returned dict for output 'out0'"),
        ("def f(x): return {'lo': x.min()}, {'hi': x.max()}", TWO, "returned dict for output 'lo'"),
        ("def f(x): return x.min(), x.max(), x", TWO, "gave out0, out1, out2; the reference gives hi, lo"),
        ("def f(x): return x.min()", TWO, "gave out; the reference gives hi, lo"),
        ("async def f(x): return x * 2", "", "returned coroutine"),
        ("def f(x): yield x * 2", "", "returned generator"),
        ("def f(x): x * 2", "", "gave no outputs; the reference gives out"),
        ("def f(x): x * 2", OUTPUTS, "gave no outputs; the reference gives out"),
        ("def f(x): return [1.0, 2.0]", "", "returned float for output 'out0'"),
        ("def f(x): return (x * 2).numpy()", "", "returned ndarray"),
        ("def f(x): return x * 2, x", "", "gave out0, out1; the reference gives out"),
        ("def f(x): return {1: x}", "", "output 1"),
        ("def f(x): return x[1:] * 2", "", "returned shape [7] for out; the reference has [8]"),
        ("def f(x): return x[:1].expand(2**45)", "", "more than this machine's memory"),
        (
            "def f(x): return torch.quantize_per_tensor(x, 1.0, 0, torch.quint8)",
            "",
            "torch.quint8 for output 'out', which holds no numbers to compare",
        ),
        ("def f(x): return x.to(torch.uint8).view(torch.bits8)", "", "torch.bits8 for output 'out', which holds no numbers to compare"),
        ("class Lazy(torch.Tensor): pass\ndef f(x): return x.as_subclass(Lazy)", "", "returned Lazy for output 'out', not a plain tensor"),
        ("def f(x): return x.to('meta')", "", "can't be read"),
        ("def f(x): return x.double() * 2", OUTPUTS, "returned torch.float64 for output 'out', make_outputs has torch.float32"),
        ("def f(x):\n    calls.append(x)\n    return x[len(calls) - 1:] * 2", "", "in call 2 than in call 1"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_outputs_that_cannot_are_the_kernels_fault(tmp_path: Path, kernel: str, more: str, said: str) -> None:
    record = checked(tmp_path, kernel, more)
    assert record["status"] == "bad_output" and said in record["message"], record


@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3fn"])
def test_small_inputs_allow_what_the_format_of_a_returned_output_loses(dtype: str, tmp_path: Path) -> None:
    record = checked(tmp_path, f"def f(x): return (x * 2).to(torch.{dtype})", inputs="small", role="fresh")
    best = record["outputs"][0]["best"]["max_abs_err"]
    assert record["status"] == "ok" and best == record["outputs"][0]["max_abs_err"] <= record["limit_floor"], record
    assert record["limit_floor"] == pytest.approx({"float32": 2.0**-146, "float16": 2.0**-21, "float8_e4m3fn": 2.0**-6}[dtype])


def test_outputs_that_the_problem_itself_disagrees_about_are_its_fault(tmp_path: Path) -> None:
    record = checked(tmp_path, GOOD, OUTPUTS.replace("torch.empty(shape['N'])", "{'other': torch.empty(shape['N'])}"))
    assert record["status"] == "problem_error" and "disagree about" in record["message"]


def test_an_argument_that_nothing_provides_is_told_from_the_problem(tmp_path: Path) -> None:
    from gates.task import problem as problems
    from gates.worker.problem_check import check_answers

    (tmp_path / "argument_problem.py").write_text(PROBLEM)
    problem = problems.load("argument_problem", tmp_path)
    check_answers(problem, ["small"], ("x", "N"))
    for name in ("xs", "out"):  # the problem makes no outputs to be written into
        with pytest.raises(GatesError, match=f"`arguments` of task.yaml name {name}, which nothing provides") as caught:
            check_answers(problem, ["small"], (name, "N"))
        assert caught.value.hint.startswith("did you mean x?" if name == "xs" else "known: N, x")


def test_an_entry_that_is_no_function_is_told_so(tmp_path: Path) -> None:
    for kernel, says in (("f = 3", "'f' is not a function but int"), ("g = 3", "no function 'f'")):
        found = checked(tmp_path, kernel)
        told = f"kernel.py:1: AttributeError: {says}; rename the function, or entry in task.yaml"
        assert found["status"] == "launch_error" and told in found["message"]


def test_a_message_with_half_a_character_is_written_and_read(tmp_path: Path) -> None:
    result = tmp_path / "result.jsonl"
    with ResultWriter({"nonce": "n", "result": str(result)}) as writer:
        writer.write("case", result=SimpleNamespace(message="half \udc80 é \n").__dict__)
    (line,) = result.read_text(encoding="utf-8").splitlines()
    assert jsonio.loads(line, "line")["result"]["message"] == "half \\udc80 é \n"


SORTED = """
def reference(inputs): return inputs['x'].sort(stable=True)[1].double()
def check(out, expected):
    seen = torch.zeros(len(expected))
    seen[out{long}] = 1
    return bool(seen.all())
"""


@pytest.mark.parametrize(
    ("kernel", "long", "status", "said"),
    [
        ("def f(x): return x.sort(stable=True)[1]", "", "ok", ""),
        ("def f(x): return x.sort(stable=True)[1] + 9", "", "ok", "the problem's check raised IndexError"),
        ("def f(x): return x.sort(stable=True)[1].float()", "", "problem_error", None),  # so is the reference in this format
        ("def f(x): return x.sort(stable=True)[1].float() + 9", ".long()", "ok", "the problem's check raised IndexError"),
    ],
)
def test_a_check_that_raises_for_the_kernel_s_outputs_alone_objects_to_them(
    kernel: str, long: str, status: str, said: str | None, tmp_path: Path
) -> None:
    record = checked(tmp_path, kernel, SORTED.replace("{long}", long))
    assert record["status"] == status and (said is None or record["check"].startswith(said) and bool(said) is bool(record["check"])), record
