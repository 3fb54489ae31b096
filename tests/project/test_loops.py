"""The adapters of examples/loops: a scripted proposer finds the best of planted variants through each loop's interface.

Where a loop's package is installed its own classes are used, else what its interface asks for. Evaluations are made up.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import sys
from dataclasses import make_dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from evolution_kit import made_up
from places import ROOT

import gates
from gates.evaluation.overlay import Candidate
from gates.evaluation.record import Evaluation

LOOPS = ROOT / "examples" / "loops"
SPEEDS = {"a": 0.9, "b": 1.4, "c": None, "d": 1.2}  # of each variant, None if it is wrong; b is planted as the best
INSTALLED = {name for name in ("evotoolkit", "openevolve") if importlib.util.find_spec(name) is not None}


def text(variant: str) -> str:
    return f"// variant {variant}\n"


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages asked for; an evaluation knows a variant by its text."""
    asked: list[str] = []

    def evaluate(task: str, candidate: Candidate, terms: gates.Terms, progress: Any) -> Evaluation:
        asked.append(terms.stage)
        (source,) = candidate.files.values()
        speed = SPEEDS[source.split()[-1]]
        return made_up(task, candidate, speed, stage=terms.stage, score=speed if terms.stage == "speed" else None)

    monkeypatch.setattr("gates.api.evaluate_task", evaluate)
    monkeypatch.setenv("GATES_TASK", "some_task")
    monkeypatch.setenv("GATES_SOURCE", "kernel.cu")
    return asked


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"loop_{name}", LOOPS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **classes: type) -> None:
    """The module ``name`` with what its documentation says of these classes, if the package is not installed."""
    if name.partition(".")[0] not in INSTALLED:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(".".join(parts[:end])))
        for called, cls in classes.items():
            setattr(sys.modules[name], called, cls)


@pytest.mark.parametrize("path", sorted(LOOPS.glob("*.py")), ids=lambda path: path.stem)
def test_an_adapter_has_at_most_25_lines_and_is_in_the_table(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 25
    assert f"`{path.name}`" in (LOOPS / "README.md").read_text(encoding="utf-8")


def test_evotoolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(
        monkeypatch,
        "evotoolkit.core",
        TaskSpec=make_dataclass("TaskSpec", ["name", "prompt", "modality", "main_file"]),
        EvaluationResult=make_dataclass("EvaluationResult", ["valid", "score", "feedback", "metrics"]),
    )
    evaluator = loaded("evotoolkit_evaluator").GatesEvaluator("some_task", "kernel.cu")
    if "evotoolkit" not in INSTALLED:
        found = {name: evaluator.evaluate({"kernel.cu": text(name)}) for name in SPEEDS}
        best = max((one for one in found if found[one].valid), key=lambda one: found[one].score)
        assert best == "b" and not found["c"].valid and found["c"].score is None and "wrong" in found["c"].feedback
        return
    from evotoolkit.core import Instruction, Proposal, ProposalContext, Runner

    class Scripted:
        """Each variant once, the best kept: proposer, strategy and archive in one."""

        name, config = "scripted", dict[str, Any]()

        def __init__(self) -> None:
            self.seen: list[Any] = []
            self.archive = self

        def propose(self, ctx: Any) -> list[Any]:
            return [Proposal(ctx.call_id, {"kernel.cu": text(name)}, name) for name in SPEEDS]

        def next_batch(self, step: int, max_n: int, remaining_budget: int, rng: Any) -> list[Any]:
            return [ProposalContext(evaluator.spec, [], Instruction("all", 0, "", ""), num_proposals=len(SPEEDS))]

        def observe(self, solutions: list[Any]) -> None:
            self.seen += solutions

        def should_stop(self, step: int) -> bool:
            return bool(self.seen)

        def best(self) -> Any:
            return max((one for one in self.seen if one.score is not None), key=lambda one: one.score, default=None)

        def __len__(self) -> int:
            return len(self.seen)

    scripted = Scripted()
    runner = Runner(evaluator=evaluator, proposer=scripted, strategy=scripted, output_dir=tmp_path, budget=len(SPEEDS), verbose=False)
    runner.run()
    assert runner.best_solution.name == "b" and sum(one.evaluation.valid for one in scripted.seen) == 3


def test_openevolve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: list[str]) -> None:
    stand_in(monkeypatch, "openevolve.evaluation_result", EvaluationResult=make_dataclass("EvaluationResult", ["metrics", "artifacts"]))
    loop = loaded("openevolve_evaluator")
    scores = {}
    for name in SPEEDS:
        (tmp_path / f"{name}.cu").write_text(text(name))
        if "openevolve" not in INSTALLED:
            first = loop.evaluate_stage1(str(tmp_path / f"{name}.cu"))
            found = first.metrics if first.metrics["combined_score"] < 0.5 else loop.evaluate_stage2(str(tmp_path / f"{name}.cu")).metrics
        else:
            from openevolve.config import EvaluatorConfig
            from openevolve.evaluator import Evaluator

            evaluator = Evaluator(EvaluatorConfig(cascade_thresholds=[0.5]), str(LOOPS / "openevolve_evaluator.py"))
            found = asyncio.run(evaluator.evaluate_program(text(name), name))
        scores[name] = found["combined_score"]
    assert max(scores, key=lambda name: scores[name]) == "b" and scores["c"] == 0.0 and scores["b"] == 1.4
    assert answers.count("static") == 4 and answers.count("speed") == 3, "what fails costs no timing"


def test_shinkaevolve(tmp_path: Path) -> None:
    loop, scores = loaded("shinka_evaluate"), {}
    for name in SPEEDS:
        (tmp_path / f"{name}.cu").write_text(text(name))
        loop.main(["--program_path", str(tmp_path / f"{name}.cu"), "--results_dir", str(tmp_path / name)])
        metrics, correct = (json.loads((tmp_path / name / file).read_text()) for file in ("metrics.json", "correct.json"))
        scores[name] = metrics["combined_score"] if correct["correct"] else -math.inf
        assert metrics["text_feedback"] and (correct["error"] is None) == correct["correct"]
    assert max(scores, key=lambda name: scores[name]) == "b" and scores["c"] == -math.inf


def test_kernelagent(tmp_path: Path) -> None:
    worker, best = loaded("kernelagent").Gates("some_task", "kernel.cu"), ("", math.inf)
    for name in SPEEDS:  # as its orchestrator does
        success, code, feedback = worker.verify_with_refinement(kernel_code=text(name), test_code="", problem_description="")
        assert success == (not feedback) and code == text(name)
        (tmp_path / "kernel.py").write_text(code)
        time_ms = worker.benchmark_kernel(tmp_path / "kernel.py", tmp_path / "problem.py")["time_ms"] if success else math.inf
        best = (name, time_ms) if time_ms < best[1] else best
    assert best[0] == "b" and worker.benchmark_pytorch(tmp_path)["time_ms"] == math.inf
    assert worker.benchmark_kernel(written(tmp_path, "c"))["speedup"] == 0.0


def written(folder: Path, name: str) -> Path:
    (folder / "kernel.py").write_text(text(name))
    return folder / "kernel.py"


def test_kernelbench() -> None:
    loop = loaded("kernelbench_result")
    found = {name: SimpleNamespace(**loop.eval_kernel("some_task", text(name), "kernel.cu")) for name in SPEEDS}
    assert max(found, key=lambda name: found[name].speedup) == "b" and found["b"].runtime == pytest.approx(10 / 1.4 / 1000)
    assert (found["c"].compiled, found["c"].correctness, found["c"].runtime, found["c"].speedup) == (True, False, -1.0, -1.0)
