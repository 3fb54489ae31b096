"""A kernel of the default stream is told as that, and not by the symptoms that it shows on the current one."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from places import TASKS
from test_correctness_records import LIMITS, raw, result

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core.records import Status
from gates.gate.correctness import evidence as parse
from gates.gate.correctness.judge import judge
from gates.gate.correctness.runner import case as casecheck
from gates.gate.correctness.runner.accuracy import figures
from gates.launch.device import probe
from gates.launch.side import Launched
from gates.task.load import load_task
from gates.task.sources import cuda_text, default_stream


class Problem:
    """out = 2 x."""

    __name__ = "double"
    SHAPES = {"small": {"N": 64}}
    ARGUMENTS = ("x", "out")

    @staticmethod
    def make_inputs(shape, seed, device):
        return {"x": torch.randn(shape["N"], generator=torch.Generator().manual_seed(seed))}

    @staticmethod
    def make_outputs(shape, device):
        return {"out": torch.empty(shape["N"])}

    @staticmethod
    def reference(inputs, shape):
        return {"out": 2 * inputs["x"].double()}


class FakeSide:
    """A device with two streams, as far as a case sees it: ``works`` says of each call (its number, its stream) whether it is right."""

    emulated, on_emulator, function, problem, arguments = False, False, False, Problem(), ("x", "out")

    def __init__(self, works: Any, stream: str = "current", factor: float = 2.0, ahead: Any = lambda number: True) -> None:
        self.works, self.stream, self.factor, self.ahead, self.asked = works, stream, factor, ahead, list[str]()

    def call(self, inputs, shape, *, variant, order, seed, memory=None, stream=None) -> Launched:
        self.asked.append(stream or self.stream)
        poison = torch.full((shape["N"],), float("nan"))
        out = (inputs["x"] * self.factor) if self.works(len(self.asked), self.asked[-1]) else poison.clone()
        return Launched({"out": out}, {"out": poison}, ahead=self.ahead(len(self.asked)))


CASE = {"shape": "small", "seed": 0, "inputs": "default", "orders": ["forward"] * 3, "probe": False, "plain": True, "role": "headline"}
LATE = {
    "of the default stream": lambda number, stream: stream == "default",
    "whose first call waits": lambda number, stream: stream == "default" or number == 1,
}


def checked(side: FakeSide) -> dict[str, Any]:
    return casecheck.check(side, CASE, {"reference": 1e-3}, lambda phase: None, LIMITS)


def verdict(record: dict[str, Any], launches: tuple[str, ...] = ()):
    evidence = parse.parse(raw())
    own = parse.Case(**{**dataclasses.asdict(evidence.cases[0]), **parse_case(record)})
    return judge(dataclasses.replace(evidence, cases=(own,), asked=1, default_launches=launches), LIMITS)


def parse_case(record: dict[str, Any]) -> dict[str, Any]:
    data = raw([{"type": "case", "index": 0, "result": record}, {"type": "done"}])
    case = parse.parse(data).cases[0]
    return {field.name: getattr(case, field.name) for field in dataclasses.fields(case)}


@pytest.mark.parametrize("works", LATE.values(), ids=LATE)
def test_a_kernel_of_the_default_stream_is_told_as_that_alone(works) -> None:
    result_ = verdict(checked(FakeSide(works)), ("model.py:12: relu_kernel<<<blocks, 256>>>",))
    failed = [check for check in result_.checks if check.status is Status.FAIL and check.name != "cases"]
    assert [check.code for check in failed] == ["correctness.other_stream"] and result_.code == "correctness.other_stream"
    assert failed[0].hint.startswith(
        "launches without a stream: model.py:12: relu_kernel<<<blocks, 256>>>. The kernel launches on the default stream instead"
    )
    assert not failed[0].notes and "syncthreads" not in failed[0].hint and "race" not in failed[0].hint


def test_a_busy_machine_on_which_calls_are_late_is_asked_again() -> None:
    late = {3, 5, 6, 8}  # their stream went on before they were enqueued, so that they come out right
    side = FakeSide(lambda number, stream: stream == "default" or number in late, ahead=lambda number: number not in late)
    assert verdict(checked(side)).code == "correctness.other_stream"


def test_where_the_task_declares_it_it_passes_and_nothing_more_is_called() -> None:
    side = FakeSide(LATE["of the default stream"], stream="default")
    assert verdict(checked(side)).status is Status.PASS and side.asked == ["default"] * 3


def test_an_honest_kernel_is_called_no_more_often() -> None:
    side = FakeSide(lambda number, stream: True)
    record = checked(side)
    assert verdict(record).status is Status.PASS and side.asked == ["current"] * 3 and "default_stream" not in record


@pytest.mark.parametrize(
    ("side", "code"),
    [
        (FakeSide(lambda number, stream: True, factor=2.5), "correctness.max_abs_err"),  # wrong everywhere
        (
            FakeSide(lambda number, stream: stream == "default", factor=2.5),
            "correctness.unwritten",
        ),  # late and wrong: not right on the default stream either
        (FakeSide(lambda number, stream: number != 2), "correctness.not_repeatable"),  # a race that showed once
        (FakeSide(lambda number, stream: number % 2 == 1), "correctness.not_repeatable"),
        (
            FakeSide(lambda number, stream: number in (1, 4, 6, 7)),
            "correctness.not_repeatable",
        ),  # right on the default stream by luck, and on the current one once
        (FakeSide(lambda number, stream: False), "correctness.unwritten"),
    ],
)
def test_what_does_not_go_by_the_stream_keeps_its_symptoms(side: FakeSide, code: str) -> None:
    codes = [check.code for check in verdict(checked(side)).checks if check.status is Status.FAIL]
    assert code in codes and "correctness.other_stream" not in codes


def test_the_judge_asks_the_limits_of_what_is_right_elsewhere() -> None:
    want = torch.randn(64, dtype=torch.float64)
    wrong, right, worse = (figures("out", (want + error).float(), want, 1e-3) for error in (1.0, 0.0, 0.5))
    assert verdict(result(0, outputs=[wrong], default_stream=[right])).code == "correctness.other_stream"
    assert verdict(result(0, outputs=[wrong], default_stream=[worse])).code != "correctness.other_stream"
    assert verdict(result(0, outputs=[right], default_stream=[right])).status is Status.PASS
    guarded = verdict(result(0, outputs=[wrong], default_stream=[right], guards=["out: one byte behind"]))
    assert {"correctness.other_stream", "correctness.guard"} <= {check.code for check in guarded.checks}


CUDA = """\
// relu_kernel<<<1, 1>>>(x)  a comment
/* scan<<<1, 2>>>() */ void launch(cudaStream_t stream) {
  relu_kernel<<<blocks, 256>>>(x, y, n);
  gelu<float, 4><<<dim3(a, b), block(1, 2), bytes>>>(x);
  add<<<grid, block, 0, 0>>>(x); sub<<<grid, block, 0, (cudaStream_t)0>>>(x);
  good<<<grid, block, 0, stream>>>(x);
  good<<<dim3(1, 2, 3), min(a, b), f(x, y), at::cuda::getCurrentCUDAStream()>>>(x);
  wide<<<grid,
         block>>>(x);
}
"""


def test_launches_that_name_no_stream_are_found_with_their_lines() -> None:
    found = default_stream.default_stream_launches({"k.cu": CUDA, "ok.cu": "f<<<a, b, c, s>>>(); int x = a << 3 >> 1;"})
    assert [text.partition(": ")[0] for text in found] == ["k.cu:3", "k.cu:4", "k.cu:5", "k.cu:5", "k.cu:8"]
    assert found[0] == "k.cu:3: relu_kernel<<<blocks, 256>>>" and found[4] == "k.cu:8: wide<<<grid, block>>>"
    model = f'import torch\nSOURCE = """\n{CUDA}"""\nx = 7 // 2\n'
    assert [text.partition(": ")[0] for text in default_stream.default_stream_launches({"model.py": model})] == [
        f"model.py:{line}" for line in (5, 6, 7, 7, 10)
    ]


def test_a_task_declares_its_stream(tmp_path: Path) -> None:
    folder = tmp_path / "saxpy_fast"
    folder.mkdir()
    for name in ("saxpy.cu", "saxpy_problem.py"):
        (tmp_path / name).write_bytes((TASKS / name).read_bytes())
    text = (TASKS / "saxpy_fast" / "task.yaml").read_text().replace("baseline: saxpy_slow\n", "").replace(", match_baseline: true", "")
    (folder / "task.yaml").write_text(text)
    assert load_task(folder, environ={}).side(None, emulated=False)["stream"] == "current"
    (folder / "task.yaml").write_text(text + "stream: default\n")
    assert load_task(folder, environ={}).side(None, emulated=False)["stream"] == "default"
    (folder / "task.yaml").write_text(text + "stream: legacy\n")
    with pytest.raises(Exception, match="stream"):
        load_task(folder, environ={})


@pytest.mark.parametrize(
    ("streams", "refuses", "captured"),
    [
        ({}, False, 7),
        ({"on_default": True}, False, None),
        ({"on_default": True, "per_thread": True}, False, 2),
        ({"on_default": True, "per_thread": True}, True, None),
    ],
    ids=["own", "legacy", "per_thread", "waits"],
)
def test_what_can_be_captured_is(monkeypatch: pytest.MonkeyPatch, streams: dict[str, bool], refuses: bool, captured: int | None) -> None:
    """A kernel that waits for itself can't be: its calls are then timed as they are."""
    from contextlib import nullcontext
    from types import SimpleNamespace

    from gates.gate.performance.runner import cuda_graphs

    events, called = list[str](), list[int]()
    graph = SimpleNamespace(
        capture_begin=lambda **_: events.append("begin"),
        capture_end=lambda: events.append("end"),
        replay=lambda: events.append("replayed"),
    )
    fakes = {
        "Stream": lambda device: SimpleNamespace(cuda_stream=7),
        "ExternalStream": lambda number, device: SimpleNamespace(cuda_stream=number),
        "default_stream": lambda device: SimpleNamespace(cuda_stream=0),
        "CUDAGraph": lambda: graph,
        "get_device_properties": lambda device: SimpleNamespace(L2_cache_size=1024),
        "synchronize": lambda device: None,
        "stream": lambda stream: nullcontext(),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)

    def call(stream: int) -> None:
        if refuses and events == ["begin"]:
            raise RuntimeError("operation not permitted when stream is capturing")
        called.append(stream)

    replays = cuda_graphs.Clockwork("cpu", **streams).capture([call, call])
    before = list(called)
    replays.replay()
    if captured is not None:
        assert before == called == [captured] * 2 and events == ["begin", "end", "replayed"]
    else:
        assert called == [*before, *[2 if refuses else 0] * 2] and "replayed" not in events


RELU = '''\
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = """
#include <torch/types.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void relu_kernel(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
torch::Tensor relu(torch::Tensor x) {
  auto y = torch::empty_like(x);
  relu_kernel<<<(x.numel() + 255) / 256, 256%s>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""
module = load_inline(name="relu_inline", cpp_sources="torch::Tensor relu(torch::Tensor x);", cuda_sources=CUDA, functions=["relu"])


class ModelNew(nn.Module):
    def __init__(self, name="relu"):
        super().__init__()

    def forward(self, x):
        return module.relu(x)
'''
RELU_PROBLEM = """\
import torch
import torch.nn as nn

N = 4096


class Model(nn.Module):
    def __init__(self, name="relu"):
        super().__init__()

    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(N, 17)]


def get_init_inputs():
    return ["relu"]
"""
ON_DEFAULT, ON_CURRENT = RELU % "", RELU % ", 0, at::cuda::getCurrentCUDAStream()"


def imported(folder: Path, solution: str) -> Path:
    """A KernelBench task of relu with this solution."""
    from gates.importers import folder as tasks
    from gates.importers import kernelbench

    (folder / "given").mkdir()
    for name, text in (("problem.py", RELU_PROBLEM), ("solution.py", solution)):
        (folder / "given" / name).write_text(text)
    return tasks.write(
        kernelbench.load(folder / "given" / "problem.py", folder / "given" / "solution.py"), folder, "relu_inline_task", 300
    )[0]


@pytest.mark.parametrize(("solution", "stream"), [(ON_DEFAULT, "default"), (ON_CURRENT, "current")])
def test_an_import_declares_the_stream_that_its_sources_launch_on(tmp_path: Path, solution: str, stream: str) -> None:
    task = imported(tmp_path, solution)
    text = (task / "task.yaml").read_text()
    assert load_task(task, environ={}).stream == stream and (
        "KernelBench's own harness calls on the default stream, and so does model.py:14" in text
    ) is (stream == "default")


def test_values_that_are_neither_tensors_nor_numbers_reach_a_replayed_function(tmp_path: Path) -> None:
    from gates.launch.replay import write_cases
    from gates.worker.job import run_job

    task = load_task(imported(tmp_path, RELU_PROBLEM.replace("class Model(", "class ModelNew(")), environ={})
    side = task.side(task.sources[0], emulated=True)
    cases = write_cases(side, ["given"], work=tmp_path / "cases", limit_s=120, smallest=True)
    job = {"kind": "case", "mode": "replay", "side": side, "paths": [case["path"] for case in cases], "launches": 2}
    tried = run_job(task.folder, job, tmp_path / "replay", limit_s=120, name="replay")
    assert [(line["launches"], line["error"]) for line in tried.own() if line["type"] == "case"] == [(2, "")] * len(cases), (
        tried.output_tail
    )


def test_a_replay_waits_for_no_lock_that_a_killed_build_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from gates.launch import replay as case

    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", "/elsewhere")
    (tmp_path / "extensions" / "relu_inline").mkdir(parents=True)
    (tmp_path / "extensions" / "relu_inline" / "lock").write_text("")
    (tmp_path / "extensions" / "relu_inline" / "relu_inline.so").write_text("built")
    case._own_extensions(tmp_path / "extensions")
    assert os.environ["TORCH_EXTENSIONS_DIR"] == str(tmp_path / "extensions")
    assert [path.name for path in (tmp_path / "extensions").rglob("*") if path.is_file()] == ["relu_inline.so"]


def declared(folder: Path, solution: str, stream: str) -> Path:
    """The imported task with this stream in its task.yaml."""
    task = imported(folder, solution)
    (task / "task.yaml").write_text((task / "task.yaml").read_text().replace("stream: default\n", "") + f"stream: {stream}\n")
    return task


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``built(solution)``: the solution with its extension's kernel from a library that is compiled once; its CUDA text stays where it
    was.
    """
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    folder = tmp_path_factory.mktemp("relu")
    kernel = RELU[RELU.index("__global__") : RELU.index("torch::Tensor relu")]
    launch = """extern "C" void relu(const float* x, float* y, int n, void* stream) {{
  relu_kernel<<<(n + 255) / 256, 256, 0, {}>>>(x, y, n);
}}
"""
    made: dict[bool, Path] = {}

    def one(solution: str) -> str:
        on_default = solution == ON_DEFAULT
        if on_default not in made:
            source, made[on_default] = folder / f"relu{on_default:d}.cu", folder / f"relu{on_default:d}.so"
            source.write_text(kernel + launch.format("0" if on_default else "(cudaStream_t)stream"))
            subprocess.run([nvcc, "-shared", "-Xcompiler", "-fPIC", "-arch=native", str(source), "-o", str(made[on_default])], check=True)
        begin, end = solution.index("module = load_inline("), solution.index("\n\n\nclass ModelNew")
        return solution[:begin] + PREBUILT.format(str(made[on_default])) + solution[end:]

    return one


PREBUILT = """\
class module:
    @staticmethod
    def relu(x):
        import ctypes

        y = torch.empty_like(x)
        pointers = [ctypes.c_void_p(pointer) for pointer in (x.data_ptr(), y.data_ptr(), torch.cuda.current_stream().cuda_stream)]
        ctypes.CDLL({!r}).relu(*pointers[:2], x.numel(), pointers[2])
        return y"""


def on_device(task: Any, work: Path, side: Any = None) -> Any:
    from gates.gate.correctness.collect import run_correctness

    raw_ = run_correctness(
        side or task.side(task.sources[0], emulated=False),
        ["given"],
        [0],
        work=work,
        limit_s=300,
        device="cuda:0",
        bad_atol=task.gates["correctness"]["bad_atol"],
        limits=task.gates["correctness"],
        default_launches=cuda_text.launches_without_stream(task),
    )
    return judge(parse.parse(raw_), task.gates["correctness"])


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("solution", "stream", "code"), [(ON_CURRENT, "current", "correctness.pass"), (ON_DEFAULT, "current", "correctness.other_stream")]
)
def test_the_stream_of_a_solution_on_a_device(tmp_path: Path, built: Any, solution: str, stream: str, code: str) -> None:
    result_ = on_device(load_task(declared(tmp_path, built(solution), stream), environ={}), tmp_path / "work")
    assert result_.code == code, result_
    if code == "correctness.other_stream":
        assert "model.py:14: relu_kernel<<<" in next(check.hint for check in result_.checks if check.code == code)


@pytest.mark.gpu
def test_a_solution_of_load_inline_on_the_default_stream_on_a_device(tmp_path: Path) -> None:
    """Takes a minute: the extension is compiled."""
    task = load_task(declared(tmp_path, ON_DEFAULT, "default"), environ={})
    built = build(task, find_toolchain(), tmp_path / "build", device_arch=probe().devices[0].arch, want={"device"})
    assert built.failure("device") is None
    result_ = on_device(task, tmp_path / "work", built.side(task, "device"))
    assert result_.code == "correctness.pass", result_


@pytest.mark.gpu
def test_a_solution_of_the_default_stream_passes_all_gates_on_a_device(tmp_path: Path, built: Any) -> None:
    from gates.pipeline.run import Options, run_task
    from gates.render.console import Progress

    task = declared(tmp_path, built(ON_DEFAULT), "default")
    outcome = run_task(Options(str(task), profile="full", results=tmp_path / "results", build_dir=tmp_path / "build"), Progress())
    results = {one.gate: one for one in outcome.verdict.gates}
    assert results["correctness"].status is Status.PASS, results["correctness"]
    assert results["sanitizer"].status is Status.PASS, results["sanitizer"]
    assert results["performance"].code not in ("performance.capture_failed", "performance.not_captured", "performance.runner_died"), (
        results["performance"]
    )
