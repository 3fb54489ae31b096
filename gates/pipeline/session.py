"""What each gate needs done before it can judge: run, parse, write the evidence.

A step returns None when it has written its gate's evidence, or the verdict itself where nothing
could be run (no device, no build, a gate before it failed).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gates.build.build import build
from gates.build.dumps import StaticTexts, collect
from gates.build.result import BuildResult
from gates.build.toolchain import Toolchain
from gates.build.triton import build as triton_build
from gates.core.errors import EXIT_HOLD, GatesError
from gates.core.records import GateResult, Status, to_json
from gates.evidence.judging import rejudge, untried
from gates.evidence.run_directory import RunDirectory, RunInfo, portable
from gates.gate.correctness import evidence as correctness_evidence
from gates.gate.correctness.collect import draw_seed, run_correctness
from gates.gate.ncu import evidence as ncu_evidence
from gates.gate.ncu.collect import run_ncu
from gates.gate.performance import evidence as performance_evidence
from gates.gate.performance.collect import run_timing
from gates.gate.ptxas import evidence as ptxas_evidence
from gates.gate.reasons import build_failed, not_run
from gates.gate.sanitizer import evidence as sanitizer_evidence
from gates.gate.sanitizer.collect import run_sanitizer_device, run_sanitizer_emulator, write_memory_cases
from gates.gate.sass import evidence as sass_evidence
from gates.launch.device import DeviceInfo
from gates.render.console import Progress
from gates.task.load import CUDA, TRITON, WITHOUT_DEVICE, Task
from gates.task.reproduce import limit_places, runner_command
from gates.task.sources import cuda_text
from gates.task.sources.files import project_root
from gates.worker.job import attempt

NO_DEVICE = "no CUDA device"
_NO_LIMIT = "task.yaml has no limit for the {gate} gate: give it some, or say why it is not applicable"
LAUNCH_LIMIT_S = 20.0  # of one launch on the emulator, of the smallest shape and without torch: a kernel that takes longer hangs


@dataclass
class Session:
    """What the steps of one run share."""

    task: Task
    baseline: Task | None
    shapes: tuple[str, ...]
    seeds: tuple[int, ...]
    toolchain: Toolchain
    device: DeviceInfo | None
    directory: RunDirectory
    scratch: Path
    build_dir: Path
    jobs: int | None
    progress: Progress
    inputs: tuple[str, ...] = ()
    thorough: bool = False
    builds: dict[str, BuildResult] = field(default_factory=dict)
    results: dict[str, GateResult] = field(default_factory=dict)
    hangs: bool = False  # one launch of the candidate came to no end
    _texts: dict[str, StaticTexts] = field(default_factory=dict)
    _cases: dict[tuple[str, ...], list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def emulated(self) -> bool:
        """Whether kernels run on the CPU emulator."""
        return self.device is None

    @property
    def cuda(self) -> str:
        """The device as runner jobs name it."""
        return f"cuda:{self.device.index}" if self.device else "cpu"

    def where(self, task: Task) -> str:
        """What the task's kernels run on, in words."""
        return WITHOUT_DEVICE[task.kind] if self.emulated else "the device"

    def tasks(self) -> list[tuple[Task, str]]:
        """Candidate and baseline, each with the folder of the run directory that its evidence goes to."""
        return [(self.task, ""), *([(self.baseline, "baseline/")] if self.baseline else [])]

    def build(self) -> None:
        """Build candidate and baseline; what failed is in build.json, and each gate says what it lacks."""
        want = {"cubin", "emulator", *(() if self.emulated else ("device",))}
        for task, folder in self.tasks():
            kinds = want | ({"emulator_asan", "binding"} if self.emulated and task is self.task else set())
            self.progress.step(f"{task.name}: compiling")
            result = build(
                task, self.toolchain, self.build_dir, device_arch=self.device.arch if self.device else None,
                want=kinds, jobs=self.jobs, progress=self.progress.step,
            )
            self.builds[task.name] = result
            self.write(f"{folder}build.json", result.evidence())
            self.directory.write_text(f"{folder}build.log", portable(result.log_text, project_root(task.folder)))
            for failure in result.failures:
                self.progress.done(f"{task.name}: {failure.sentence}")
            self.progress.done(f"{task.name}: built in {result.wall_s:.1f} s")

    def side(self, task: Task, kind: str) -> dict[str, Any]:
        """The task's library as runner jobs name it; ``kind`` is device, emulator or emulator_asan."""
        return self.builds[task.name].side(task, kind)

    def missing(self, gate: str, kind: str) -> GateResult | None:
        """The verdict of a gate whose library was not built; None where it was."""
        failure = self.builds[self.task.name].failure(kind)
        if failure is None:
            return None
        if failure.missing_tool:
            return not_run(gate, "no_tool", failure.advice)
        if failure.unsupported:
            return not_run(gate, "not_emulated", f"{failure.advice}{self._unread_binding()}")
        return build_failed(gate, failure.advice)

    def _unread_binding(self) -> str:
        """What is to be said of an extension's C++ files where they could not be compiled here."""
        failure = self.builds[self.task.name].failure("binding")
        if failure is None or not failure.missing_tool:
            return ""
        names = " and ".join(source.name for source in self.task.sources if source.suffix != ".cu")
        return f"; {names} was not compiled: {failure.advice}"

    def after_correctness(self, gate: str) -> GateResult | None:
        """The verdict of a gate that means nothing for a wrong kernel."""
        if self.results["correctness"].status is Status.FAIL:
            return not_run(gate, "correctness_failed", "correctness failed")
        return self.unusable(gate)

    def unusable(self, gate: str) -> GateResult | None:
        """The verdict of a gate on a kernel that correctness could not run here, because a package that it needs does not work."""
        found = self.results["correctness"]
        return not_run(gate, "no_tool", found.sentence) if found.code == "correctness.no_tool" else None

    def measured_baseline(self) -> Task | None:
        """The baseline, if its device library was built."""
        built = self.baseline is not None and self.builds[self.baseline.name].path("device") is not None
        return self.baseline if built else None

    def texts(self, task: Task) -> StaticTexts:
        """The compiler's texts of a task's build, read once."""
        if task.name not in self._texts:
            self._texts[task.name] = collect(self.builds[task.name], self.toolchain)
        return self._texts[task.name]

    def launches(self, task: Task) -> tuple[list[dict[str, Any]] | None, str]:
        """How the task launches its kernels, or None, and what is to be said of where that is known from.

        As the emulator saw it for each shape and architecture, or the device for the smallest shape, as Triton decided it, or,
        where the emulator can't run it, what the sources leave no room for.
        """
        if task.kind == TRITON:
            return triton_build.launches(self.builds[task.name]), ""
        seen, note = self._seen_launches(task)
        failure = self.builds[task.name].failure("emulator")
        return (seen, note) if seen or failure is None or not failure.unsupported else cuda_text.declared_launches(task)

    def _seen_launches(self, task: Task) -> tuple[list[dict[str, Any]] | None, str]:
        kind = "emulator" if task.kind == CUDA and self.builds[task.name].path("emulator") else "device"
        if self.builds[task.name].path(kind) is None:
            return None, ""
        limit_s = min(LAUNCH_LIMIT_S, task.time_limit_s) if kind == "emulator" else task.time_limit_s
        self.progress.step(f"{task.name}: one launch on the {kind}, for its launch configuration", limit_s)
        smallest = self.cases(task)[0]["path"]
        job = {
            "kind": "case", "mode": "replay", "side": self.side(task, kind), "paths": [smallest], "launches": 1,
            "device": self.cuda, "trace": kind == "device",
        }
        tried = attempt(task.folder, job, self.scratch / "launches", limit_s=limit_s, name=task.name)
        if tried.timed_out:
            self.hangs |= task is self.task
            self.progress.done(f"{task.name}: that launch came to no end and was {tried.cause}")
        wanted, key = ("traced", "launches") if kind == "device" else ("case", "emulator_launches")
        found = [line[key] for line in tried.own() if line.get("type") == wanted]
        if not found:
            return None, f"one launch on the {kind}, which would show it, ended: {tried.cause}"
        if kind == "device":
            return found[0], ""
        others, note = self._launches_of_shapes(task)
        return [*found[0], *others], note

    def _launches_of_shapes(self, task: Task) -> tuple[list[dict[str, Any]], str]:
        """The launches of each of the run's shapes on each of the task's architectures, by the emulator, and which are missing.

        Their blocks did not run, so what they declare of static shared memory is not known.
        """
        self.progress.step(f"{task.name}: launch configurations of {', '.join(self.shapes)} on {', '.join(task.arch)}", task.time_limit_s)
        job = {"kind": "launches", "side": self.side(task, "emulator"), "shapes": list(self.shapes), "archs": list(task.arch)}
        tried = attempt(task.folder, job, self.scratch / "launches", limit_s=task.time_limit_s, name=f"{task.name}.shapes")
        lines = tried.own()
        found = [
            {**record, "arch": line["arch"], "static_smem_bytes": None}
            for line in lines if line.get("type") == "case" for record in line["emulator_launches"]
        ]
        missing = [f"{line['shape']} {line['arch']}".strip() + f" ({line['why']})" for line in lines if line.get("type") == "missing"]
        if not any(line.get("type") == "done" for line in lines):
            missing.append(f"all that were not tried when that process ended ({tried.cause})")
        return found, f"not known for {', '.join(missing)}" if missing else ""

    def cases(self, task: Task) -> list[dict[str, Any]]:
        """Files with the launches to check the memory of, the smallest shape's first; tasks called with the same arguments share them."""
        if task.arguments not in self._cases:
            self._cases[task.arguments] = write_memory_cases(
                self.side(task, "emulator"), self.shapes, on_device=not self.emulated, work=self.scratch / f"cases.{len(self._cases)}", limit_s=task.time_limit_s,
            )
        return self._cases[task.arguments]

    def write_evidence(self, name: str, record: Any, task: Task) -> None:
        """Write a gate's evidence of ``task``, which names the builds that it is about."""
        builds = {"build": self.builds[task.name].identity}
        if self.baseline is not None and getattr(record, "baseline", None) == self.baseline.name:
            builds["baseline_build"] = self.builds[self.baseline.name].identity
        self.write(name, replace(record, **builds))

    def write(self, name: str, record: Any) -> None:
        """Write a record into the run directory, without this machine's paths."""
        self.directory.write_json(name, _portable(to_json(record), project_root(self.task.folder)))


def judge_step(session: Session, info: RunInfo, gate: str) -> GateResult:
    """Do what ``gate`` needs, then judge it from the evidence file that this wrote."""
    result = untried(info, gate) or STEPS[gate](session)
    if result is None:
        result = rejudge(session.directory.path, info, gate)
    assert result is not None, f"{gate} left neither evidence nor a verdict"
    session.results[gate] = result
    return result


def _static(session: Session, gate: str) -> GateResult | None:
    """ptxas's log or the disassembly of candidate and baseline, for each architecture."""
    for task, folder in session.tasks():
        result = session.builds[task.name]
        failure, binding = result.failure("cubin"), result.failure("binding")
        if binding is not None and not binding.missing_tool and (failure is None or failure.missing_tool):
            failure = binding
        if failure is not None and task is session.task:
            if failure.missing_tool:
                return not_run(gate, "no_tool", failure.advice)
            return build_failed(gate, failure.advice)
        if failure is not None:
            continue  # a broken baseline leaves the candidate's own limits to judge
        texts = session.texts(task)
        if gate == "ptxas":
            launches, note = session.launches(task)
            evidence: Any = ptxas_evidence.gather(
                texts.logs, launches, task.kernels, texts.resource_usage,
                demangled=texts.demangled, relocatable=result.relocatable, launches_note=note,
            )
        else:
            evidence = sass_evidence.gather(texts.sass, task.kernels, demangled=texts.demangled, missing_reason="; ".join(texts.reasons))
        session.write_evidence(f"{folder}{gate}.json", evidence, task)
    return None


def _correctness(session: Session) -> GateResult | None:
    """Every case of shapes x seeds, on the device or on the emulator, beside the baseline's."""
    kind = "emulator" if session.emulated else "device"
    if (missing := session.missing("correctness", kind)) is not None:
        return missing
    task, limits = session.task, session.task.gates["correctness"]
    match = limits.get("match_baseline") and session.baseline and session.builds[session.baseline.name].path(kind)
    more = f" x inputs {', '.join(session.inputs)}" if session.inputs else ", with all edge shapes" if session.thorough else ""
    session.progress.step(f"{task.name}: correctness, {len(session.shapes)} shapes x {len(session.seeds)} seeds{more} on {session.where(task)}", task.time_limit_s)
    try:
        raw = run_correctness(
            session.side(task, kind), session.shapes, session.seeds, work=session.scratch / "correctness",
            limit_s=task.time_limit_s, device=session.cuda,
            baseline=session.side(session.baseline, kind) if match and session.baseline else None,
            extra_seeds=(draw_seed(),), inputs=session.inputs, thorough=session.thorough, hangs=session.hangs, bad_atol=limits.get("bad_atol"),
            end_to_end_bad_atol=limits.get("end_to_end", {}).get("bad_atol"), limits=limits, runner=runner_command(task),
            default_launches=() if session.emulated or task.stream == "default" else cuda_text.launches_without_stream(task),
            limits_at=limit_places(task), timed=task.gates["performance"].get("shape", ""),
        )
    except GatesError as error:
        if error.exit_code != EXIT_HOLD:  # else it is a finding about this machine
            raise
        return not_run("correctness", getattr(error, "reason", "no_device"), ": ".join(filter(None, (error.hint, error.what))))
    session.write_evidence("correctness.json", correctness_evidence.parse(raw), task)
    return None


def _sanitizer(session: Session) -> GateResult | None:
    """The smallest and the odd shapes, and a larger one, under compute-sanitizer, or without that one the emulator under AddressSanitizer."""
    kind = "emulator_asan" if session.emulated else "device"
    for one in ("emulator", kind) if session.emulated else (kind,):  # the first tells what no source defines
        if (missing := session.missing("sanitizer", one)) is not None:
            return missing
    if (missing := session.unusable("sanitizer")) is not None:
        return missing
    if session.results["correctness"].code == "correctness.timeout":
        return not_run("sanitizer", "correctness_failed", "the kernel reached the time limit and would again")
    task, work = session.task, session.scratch / "sanitizer"
    session.progress.step(f"{task.name}: memory checks on {session.where(task)}", task.time_limit_s)
    if session.emulated:
        raw = run_sanitizer_emulator(
            session.side(task, kind), session.shapes, work=work, limit_s=task.time_limit_s, cases=session.cases(task),
            compiler=session.toolchain.need("g++").path,
        )
    else:
        tool = session.toolchain.get("compute-sanitizer")
        raw = run_sanitizer_device(
            session.side(task, kind), session.shapes, work=work, limit_s=task.time_limit_s,
            compute_sanitizer=tool.path if tool else None, device=session.cuda, cases=session.cases(task) if tool else None,
        )
    session.write_evidence("sanitizer.json", sanitizer_evidence.parse(raw), task)
    return None


def _without_device(session: Session, gate: str) -> GateResult:
    """The verdict of a gate that needs a device; it says at once where one would not help."""
    judged = session.task.gates[gate] or gate in session.task.not_applicable
    return not_run(gate, "no_device", NO_DEVICE if judged else f"{NO_DEVICE}, and {_NO_LIMIT.format(gate=gate)}")


def _performance(session: Session) -> GateResult | None:
    """Candidate and baseline, interleaved, on the device."""
    if session.device is None:
        return _without_device(session, "performance")
    if not session.task.gates["performance"]:
        return not_run("performance", "nothing_checked", _NO_LIMIT.format(gate="performance"))
    if (missing := session.missing("performance", "device") or session.after_correctness("performance")) is not None:
        return missing
    task, limits = session.task, session.task.gates["performance"]
    base = session.measured_baseline()
    session.progress.step(f"{task.name}: timing against {base.name if base else 'nothing'}, interleaved", task.time_limit_s)
    raw = run_timing(
        session.side(task, "device"), shape=limits["shape"], work=session.scratch / "timing", limit_s=task.time_limit_s,
        bar_pct=limits["min_speedup_pct"], baseline=session.side(base, "device") if base else None,
        output_limits=task.gates["correctness"], device=session.cuda, cache=limits.get("cache", "cold"), also=limits.get("also", ()),
    )
    session.write_evidence("performance.json", performance_evidence.parse(raw), task)
    return None


def _portable(value: Any, root: Path) -> Any:
    """The same data without this machine's paths in its texts."""
    if isinstance(value, str):
        return portable(value, root)
    if isinstance(value, dict):
        return {key: _portable(item, root) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_portable(item, root) for item in value]
    return value


def _ncu(session: Session) -> GateResult | None:
    """Hardware counters of candidate and baseline, on the device."""
    if session.device is None:
        return _without_device(session, "ncu")
    if (missing := session.missing("ncu", "device") or session.after_correctness("ncu")) is not None:
        return missing
    task, work = session.task, session.scratch / "ncu"
    base = session.measured_baseline()
    session.progress.step(f"{task.name}: hardware counters", task.time_limit_s)
    tool = session.toolchain.get("ncu")
    raw = run_ncu(
        session.side(task, "device"), task.kernels, shape=task.gates["performance"].get("shape", session.shapes[-1]),
        chip=session.device.arch, work=work, limit_s=task.time_limit_s, ncu=tool.path if tool else None, device=session.cuda,
        baseline=session.side(base, "device") if base else None, baseline_kernels=base.kernels if base else (),
    )
    session.write_evidence("ncu.json", ncu_evidence.parse(raw), task)
    for report, name in (("profile", "profile.ncu-rep"), ("baseline", "baseline/profile.ncu-rep")):
        if (work / f"{report}.ncu-rep").is_file():
            shutil.copyfile(work / f"{report}.ncu-rep", session.directory.path / name)
    return None


STEPS: dict[str, Callable[[Session], GateResult | None]] = {
    "ptxas": lambda session: _static(session, "ptxas"),
    "sass": lambda session: _static(session, "sass"),
    "correctness": _correctness,
    "sanitizer": _sanitizer,
    "performance": _performance,
    "ncu": _ncu,
}
