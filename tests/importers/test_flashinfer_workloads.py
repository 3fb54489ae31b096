"""Workloads of flashinfer-bench and SOL-ExecBench: sizes that keep constraints, tensors from files, inputs that the reference makes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from places import TESTS

from gates.core.errors import GatesError
from gates.importers import flashinfer_bench, folder, sizes, sources
from gates.task.load import load_task

DATA = TESTS / "data" / "imports" / "flashinfer_bench"
WORKLOAD = {
    "axes": {"batch": 3},
    "inputs": {"x": {"type": "random"}, "weight": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-6}},
}
STORED = {"type": "safetensors", "path": "blobs/rows/x.safetensors", "tensor_key": "x"}
CUSTOM = (
    "\n\ndef rows_of(axes_and_scalars, device):\n    batch, hidden = axes_and_scalars['batch'], axes_and_scalars['hidden']\n"
    "    return {'x': torch.randn(batch, hidden, device=device).abs().bfloat16(),\n"
    "        'weight': torch.full((hidden,), 2.0).bfloat16(), 'eps': 0.5}\n"
)


def files(tmp_path: Path, definition: Callable[[Any], Any], solution: Callable[[Any], Any] = lambda _: None, *workloads: Any) -> list[Path]:
    """The files with these changes, and workloads where there are some."""
    paths = [Path(shutil.copy(DATA / name, tmp_path)) for name in ("definition.json", "solution.json")]
    for path, change in zip(paths, (definition, solution), strict=True):
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))
    if workloads:
        (tmp_path / "w" / "norm").mkdir(parents=True)
        paths.append(tmp_path / "w" / "norm" / "workloads.jsonl")
        paths[-1].write_text("".join(json.dumps(one) + "\n" for one in workloads))
    return paths


def same(_: Any) -> None:
    """No change."""


@pytest.fixture
def problem_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[ModuleType, Any]]]:
    """The problem module and the task of files with changes."""
    found = {"largest": 0.01, "mean": 0.001, "honest": 1e-6, "format": "float32", "rule_over_bound": None, "needs": {}, "untried": {}}
    monkeypatch.setattr(folder, "bounds", lambda *_, **__: {"shapes": {"small": {}}, **found})

    def make(*changes: Any) -> tuple[ModuleType, Any]:
        import importlib

        task = folder.write(flashinfer_bench.load(*files(tmp_path, *changes)), tmp_path / "made", "rows_of_files", 60).task
        monkeypatch.syspath_prepend(str(task.parent))
        return importlib.import_module("rows_of_files.problem"), load_task(task, environ={})

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "rows_of_files"]:
        del sys.modules[name]


def stored(path: Path, key: str, tensor: Any) -> None:
    """A safetensors file of one tensor."""
    import torch

    content = tensor.contiguous().view(torch.uint8).numpy().tobytes()
    header = json.dumps(
        {"__metadata__": {}, key: {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [0, len(content)]}}
    ).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header + content)


def test_a_tensor_comes_from_the_file_that_the_workload_names(tmp_path: Path, problem_of: Any) -> None:
    import torch

    x = torch.arange(96.0).reshape(3, 32).bfloat16()
    stored(tmp_path / "blobs" / "rows" / "x.safetensors", "x", x)
    missing, outside = ({**STORED, "path": path} for path in ("blobs/other.safetensors", "../blobs/rows/x.safetensors"))
    problem, task = problem_of(
        same, same, *({**WORKLOAD, "inputs": {**WORKLOAD["inputs"], "x": one}} for one in (STORED, missing, outside))
    )
    assert list(problem.SHAPES) == ["workload1"], "the others are left out"
    inputs = problem.make_inputs(problem.SHAPES["workload1"], 0, "cpu")
    assert inputs["x"].equal(x) and inputs["eps"] == 1e-6 and inputs["weight"].shape == (32,)
    kept = json.loads((task.folder / "origin.json").read_text())["files"][-1]
    assert kept["source"] == "x.safetensors" and (task.folder / kept["kept"]).is_file()


def test_workloads_whose_files_are_missing_are_one_error(tmp_path: Path) -> None:
    paths = files(tmp_path, same, same, {**WORKLOAD, "inputs": {**WORKLOAD["inputs"], "x": STORED}})
    with pytest.raises(GatesError, match="1 read safetensors files that are not"):
        flashinfer_bench.load(*paths)


@pytest.mark.parametrize("path", ["far/x.safetensors", "near/x.txt"])
def test_what_lies_further_above_or_is_no_safetensors_file_is_not_read(tmp_path: Path, path: str) -> None:
    (tmp_path / "set").mkdir()
    for place in (tmp_path / "far" / "x.safetensors", tmp_path / "set" / "near" / "x.txt", tmp_path / "set" / "near" / "x.safetensors"):
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"")
    near, other = ({**WORKLOAD, "inputs": {**WORKLOAD["inputs"], "x": {**STORED, "path": one}}} for one in ("near/x.safetensors", path))
    found = flashinfer_bench.load(*files(tmp_path / "set", same, same, near, other))
    assert found.details["workloads_left_out"] == 1 and [one.path.name for one in found.originals[3:]] == ["x.safetensors"]


def test_an_axis_and_an_input_may_have_names_like_that_of_the_case(problem_of: Any) -> None:
    def renamed(data: Any) -> None:
        data["axes"]["workloads"] = {"type": "const", "value": 9}
        data["inputs"]["workload"] = {"shape": ["workloads"], "dtype": "float32"}
        data["reference"] = data["reference"].replace("eps)", "eps, workload)", 1)

    problem, _ = problem_of(renamed, same, WORKLOAD)
    assert problem.SHAPES["workload1"] == {"workload": 1, "hidden": 32, "batch": 3, "workloads": 9}
    assert problem.make_inputs(problem.SHAPES["workload1"], 0, "cpu")["workload"].shape == (9,)


def constrained(*texts: str) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        data["axes"]["ends"] = {"type": "var"}
        data["inputs"]["at"] = {"shape": ["ends"], "dtype": "int32"}
        data.update(constraints=list(texts), reference=data["reference"].replace("eps)", "eps, at)", 1))

    return change


def test_sizes_are_made_to_keep_constraints(problem_of: Any) -> None:
    problem, _ = problem_of(constrained("ends == batch * 2 + 1", "hidden == 2 ** 5"))
    assert {name: (sizes["batch"], sizes["ends"]) for name, sizes in problem.SHAPES.items()} == {"small": (16, 33), "medium": (128, 257)}


@pytest.mark.parametrize("text", ["ends == at[-1].item() + 1", "ends > batch", "hidden == 7", "ends == batch %"])
def test_a_constraint_that_no_size_is_known_to_keep_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(GatesError, match="sizes must keep" if "%" not in text else "constraints:1: not Python"):
        flashinfer_bench.load(*files(tmp_path, constrained(text)))


def sol_definition(data: Any) -> None:
    """As SOL-ExecBench has it: a computed axis, inputs from the reference, no op_type."""
    data.pop("op_type")
    data["axes"]["half"] = {"type": "expr", "expression": "hidden // 2"}
    data.update(custom_inputs_entrypoint="rows_of", reference=data["reference"] + CUSTOM)


def sol_solution(data: Any) -> None:
    """As SOL-ExecBench has it: a list of languages, and hardware."""
    data["spec"].pop("language")
    data["spec"].update(languages=["pytorch"], target_hardware=["B200"])


SOL_WORKLOAD = {
    "uuid": "a",
    "axes": {"batch": 5},
    "inputs": {name: {"type": "custom"} for name in ("x", "weight", "eps")},
    "tolerance": {"max_atol": 0.25, "max_rtol": 0.5},
}


def test_a_problem_of_sol_execbench_is_one_of_this_format(problem_of: Any) -> None:
    problem, task = problem_of(sol_definition, sol_solution, SOL_WORKLOAD)
    shape = problem.SHAPES["workload1"]
    assert shape == {"workload": 1, "hidden": 32, "batch": 5, "half": 16}
    inputs, other = (problem.make_inputs(shape, seed, "cpu") for seed in (0, 1))
    assert list(inputs) == ["x", "weight", "eps"] and inputs["eps"] == 0.5 and bool((inputs["x"] >= 0).all())
    assert not inputs["x"].equal(other["x"]) and inputs["weight"].equal(other["weight"])
    exact = problem.reference(inputs, shape)["y"]
    assert problem.rule(inputs, shape)["y"].equal(0.25 + 0.5 * exact.abs())
    assert task.kind == "python" and "SOL-ExecBench's rule" in (task.folder / "task.yaml").read_text()


def compiled(code: str, **spec: Any) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        sol_solution(data)
        data["spec"].update(languages=["cuda_cpp"], entry_point="main.cu::run", **spec)
        data["sources"] = [{"path": "main.cu", "content": code}]

    return change


def test_compiled_solutions_have_the_formats_flags_and_may_call_a_library_alone(tmp_path: Path, problem_of: Any) -> None:
    _, task = problem_of(sol_definition, compiled("// cuBLAS does it\n"), SOL_WORKLOAD)
    assert task.kind == "torch-extension" and task.nvcc_flags == ("-O3", "--use_fast_math")
    assert {"ptxas", "sass"} <= set(task.not_applicable) and "a library's" in task.not_applicable["ptxas"]
    own = compiled("__global__ void own() {}\n", compile_options={"cuda_cflags": ["-lineinfo"]})
    shutil.rmtree(tmp_path / "w")
    side = flashinfer_bench.load(*files(tmp_path, same, own)).candidate
    assert side.kernels == ["own"] and side.nvcc_flags == ["-lineinfo"]


@pytest.mark.parametrize(
    ("definition", "solution", "workload", "said"),
    [
        (
            lambda data: (sol_definition(data), data.update(custom_inputs_entrypoint="other")),
            sol_solution,
            SOL_WORKLOAD,
            "does not define other",
        ),
        (same, sol_solution, SOL_WORKLOAD, "no custom_inputs_entrypoint"),
        (lambda data: data["axes"].update(half={"type": "expr", "expression": "hidden.size"}), same, WORKLOAD, "which gives no size"),
        (lambda data: data["axes"].update(half={"type": "expr"}), same, WORKLOAD, "'expression' is a required"),
        (lambda data: data["axes"].update(workload={"type": "const", "value": 1}), same, WORKLOAD, "an axis is named 'workload'"),
        (same, compiled("//", compile_options={"cuda_cflags": ["-ccbin=clang"]}), WORKLOAD, "cuda_cflags: -ccbin"),
        (same, lambda data: data["spec"].update(languages=["triton"]), WORKLOAD, "spec"),
    ],
)
def test_what_does_not_fit_is_one_error(tmp_path: Path, definition: Any, solution: Any, workload: Any, said: str) -> None:
    with pytest.raises(GatesError, match=said):
        flashinfer_bench.load(*files(tmp_path, definition, solution, workload))


def test_a_number_that_is_no_size_of_a_tensor_is_none() -> None:
    texts = (str(2**63 - 1), str(2**63), "0x" + "f" * 5000)
    assert [sizes.number(sources.expression(text, "t"), {}) for text in texts] == [2**63 - 1, None, None]


def test_sizes_may_be_powers_and_remainders() -> None:
    known = {"a": 7}
    assert [sizes.number(sources.expression(text, "t"), known) for text in ("2 ** 3 + a % 4", "a % 0", "2 ** 999999", "a ** -1")] == [
        11,
        None,
        None,
        None,
    ]
