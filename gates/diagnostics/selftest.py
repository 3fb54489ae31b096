"""Plant a fault in every gate, on this machine, and show that each gate refuses; sound evidence must pass.

Every plant goes the whole way from raw text or samples through the gate's own parser and judge. What needs
no tool is made from stored texts and from the simulated device; where a compiler is found, the same
faults are compiled and run here, and on a CUDA device one library is timed against itself.
"""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.build.build import build
from gates.build.dumps import collect, read_logs
from gates.build.result import BuildResult
from gates.build.toolchain import Toolchain, find_toolchain
from gates.core.errors import GatesError
from gates.core.records import GateResult, Status
from gates.gate.correctness import evidence as correctness_evidence
from gates.gate.correctness import judge as correctness
from gates.gate.correctness.collect import run_correctness
from gates.gate.correctness.evidence import Case, CorrectnessEvidence, NullErrors, OutputErrors
from gates.gate.ncu import evidence as ncu_evidence
from gates.gate.ncu import judge as ncu
from gates.gate.performance import evidence as performance_evidence
from gates.gate.performance import judge as performance
from gates.gate.performance.collect import HANDS, run_timing
from gates.gate.performance.evidence import MEASURED, Alone, OutputCheck, PerformanceEvidence
from gates.gate.ptxas import evidence as ptxas_evidence
from gates.gate.ptxas import judge as ptxas
from gates.gate.registry import GATES
from gates.gate.sanitizer import evidence as sanitizer_evidence
from gates.gate.sanitizer import judge as sanitizer
from gates.gate.sass import evidence as sass_evidence
from gates.gate.sass import judge as sass
from gates.hardware import ncu_metrics
from gates.launch.device import DeviceInfo, probe
from gates.stats import outside
from gates.stats.calibration import Calibration
from gates.stats.samples import Series
from gates.stats.sampling import Sampler, measure
from gates.stats.simulated_device import SimulatedDevice
from gates.task.load import Task, load_task

SOUND = "sound evidence"
_DATA = Path(__file__).parent / "selftest_data"
_KERNEL = "selftest_kernel"
_LAUNCH = {"kernel": _KERNEL, "block": [128, 1, 1], "dynamic_smem_bytes": 0, "static_smem_bytes": 0, "opt_in_smem_bytes": 0}
_PTXAS_LIMITS = {"max_registers": 64, "max_smem_bytes": 1024, "max_spill_bytes": 0}
_CLOSE = {"max_abs_err": 1e-5, "mean_abs_err": 1e-6, "bad_pct": 0.0, "bad_atol": 1e-5}
_NCU_LIMITS = {"rises": ["tensor_pipe"], "steady": {"dram_bytes_pct": 10}}
_RULES = {"clean": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"}
_INVALID_WRITE = """========= Invalid __global__ write of size 4 bytes
=========     at selftest_kernel(const float *, const float *, float *, long, float)+0x160 in selftest.cu:34
=========     by thread (0,0,0) in block (3,0,0)
========= ERROR SUMMARY: 1 error
"""


@dataclass(frozen=True)
class Outcome:
    """What a gate said to one plant; ``fault`` is ``SOUND`` for a control, which must pass."""

    gate: str
    fault: str
    result: GateResult

    @property
    def sound(self) -> bool:
        """Whether nothing was planted."""
        return self.fault.startswith(SOUND)

    @property
    def refused(self) -> bool:
        """Whether the gate did not let it through."""
        return self.result.status not in (Status.PASS, Status.NOT_APPLICABLE)

    @property
    def good(self) -> bool:
        """Whether the gate did what it must: refuse a fault, pass sound evidence."""
        return self.refused != self.sound


def selftest(left_out: list[str]) -> Iterator[Outcome]:
    """Plant after plant; what this machine can't do is appended to ``left_out`` with the reason."""
    for stored in (_ptxas, _sass, _correctness, _sanitizer, _performance, _ncu):
        yield from stored()
    found = probe()
    device = found.devices[0] if found.devices else None
    with tempfile.TemporaryDirectory(prefix="gates-selftest-") as scratch:
        try:
            yield from _compiled(Path(scratch), device, left_out)
        except GatesError as error:
            left_out.append(f"faults compiled on this machine: {error.what}")
    if device is None:
        left_out.append(f"one library timed against itself on a device: {found.reason or 'no CUDA device'}")


def whole(outcomes: list[Outcome]) -> bool:
    """Whether every outcome is good and each gate had a fault to refuse and sound evidence to pass."""
    seen = {(outcome.gate, outcome.sound) for outcome in outcomes}
    return all(outcome.good for outcome in outcomes) and seen == {(gate, sound) for gate in GATES for sound in (True, False)}


def _text(name: str) -> str:
    return (_DATA / name).read_text(encoding="utf-8")


def _judged_log(log: str, arch: str = "sm_89") -> GateResult:
    return ptxas.judge(ptxas_evidence.gather({arch: log}, [_LAUNCH], [_KERNEL], {}), _PTXAS_LIMITS)


def _ptxas() -> Iterator[Outcome]:
    yield Outcome("ptxas", SOUND, _judged_log(_text("ptxas.log")))
    yield Outcome("ptxas", "log without the kernel", _judged_log(_text("ptxas.log").splitlines()[0] + "\n"))
    yield Outcome("ptxas", "log cut short", _judged_log("".join(_text("ptxas.log").splitlines(keepends=True)[:3])))
    yield Outcome("ptxas", "spilled registers", _judged_log(_text("ptxas_spills.log")))


def _judged_sass(text: str | None, required: str, arch: str = "sm_89") -> GateResult:
    return sass.judge(sass_evidence.gather({arch: text}, [_KERNEL]), {"require": {required: 1}, "forbid": ["local_memory"]})


def _sass() -> Iterator[Outcome]:
    yield Outcome("sass", SOUND, _judged_sass(_text("tensor.sass"), "tensor"))
    yield Outcome("sass", "scalar code where tensor cores are required", _judged_sass(_text("scalar.sass"), "tensor"))
    yield Outcome("sass", "no disassembly", _judged_sass(None, "tensor"))


def _case(seed: int, output: OutputErrors) -> Case:
    return Case(
        "small", seed, "headline", "ok", "", inputs_sha256=f"in{seed}", reference_sha256=f"out{seed}", launch_count=2, outputs=(output,)
    )


def _judged_cases(output: OutputErrors) -> GateResult:
    evidence = CorrectnessEvidence(
        correctness_evidence.SCHEMA_VERSION,
        "emulator",
        "selftest",
        2,
        (),
        1e-5,
        None,
        (_case(0, output), _case(1, output)),
        None,
        (),
        (),
        (),
    )
    return correctness.judge(evidence, _CLOSE)


def _correctness() -> Iterator[Outcome]:
    zeros = NullErrors("zeros", 9.5, 2.1, 100.0)
    right = OutputErrors("out", "float32", 1000, 0, 2.4e-7, 3.0e-8, 0.0, (7,), 1.0, 1.0, 9.5, 2.1, 6e-8, (zeros,))
    yield Outcome("correctness", SOUND, _judged_cases(right))
    bad = dataclasses.replace(right, nonfinite=1, worst_got="nan")
    yield Outcome("correctness", "one NaN in the output", _judged_cases(bad))
    all_nan = dataclasses.replace(bad, nonfinite=1000, max_abs_err=None, mean_abs_err=None, bad_pct=None)
    yield Outcome("correctness", "nothing but NaN", _judged_cases(all_nan))
    nothing = dataclasses.replace(right, max_abs_err=9.5, mean_abs_err=2.1, bad_pct=100.0, worst_got=0.0)
    yield Outcome("correctness", "zeros", _judged_cases(nothing))


def _judged_reports(memcheck: str, returncode: int = 0) -> GateResult:
    """compute-sanitizer's four tools, with ``memcheck`` for what the first one wrote."""
    proof = [
        '{"nonce": "n", "type": "case", "launches": 2, "error": "", "findings": []}',
        '{"nonce": "n", "type": "done"}',
    ]
    runs = []
    for tool in sanitizer.DEVICE_TOOLS:
        log = memcheck if tool == "memcheck" else f"========= {_RULES.get(tool, _RULES['clean'])}\n"
        attempt = {
            "nonce": "n",
            "lines": proof,
            "returncode": returncode if tool == "memcheck" else 0,
            "timed_out": False,
            "cause": f"exit {returncode}",
            "output_tail": "",
        }
        runs.append(
            {
                "tool": tool,
                "shapes": ["small"],
                "order": "",
                "expected_launches": 2,
                "attempt": attempt,
                "log": f"========= COMPUTE-SANITIZER\n{log}",
            }
        )
    raw = {"mode": "device", "target": "selftest", "tool_version": "", "neutralised": [], "unavailable": "", "remedy": "", "runs": runs}
    return sanitizer.judge(sanitizer_evidence.parse(raw))


def _sanitizer() -> Iterator[Outcome]:
    yield Outcome("sanitizer", SOUND, _judged_reports(f"========= {_RULES['clean']}\n"))
    yield Outcome("sanitizer", "log without a summary", _judged_reports(""))
    yield Outcome("sanitizer", "an invalid write", _judged_reports(_INVALID_WRITE, returncode=1))


def _judged_times(truth: float, bar_pct: float, claimed: float = 1.0, slowed: float = 1.0) -> GateResult:
    """Judge simulated times: the baseline takes ``truth`` times as long as the candidate, which claims ``claimed`` times its own times.

    Without the candidate, the baseline takes 1 / ``slowed`` of that.
    """
    device = SimulatedDevice({"candidate": 10.0, "baseline": 10.0 * truth, "control": 10.0 * truth}, seed=11)
    timers = {side: device.side(side) for side in ("candidate", "baseline", "control")}
    timers["candidate"] = lambda samples: [claimed * us for us in device.side("candidate")(samples)]
    taken = measure(
        timers["candidate"],
        timers["baseline"],
        timers["control"],
        bar_pct=bar_pct,
        seed=11,
        read_state=device.read_state,
        clock=device.clock,
    )
    launches = {"candidate": 50, "baseline": 50}
    long = outside.measure(
        {side: timers[side] for side in launches},
        launches,
        dict.fromkeys(launches, 500.0),
        random.Random(11),
        device.clock,
    )
    apart = SimulatedDevice({"baseline": 10.0 * truth / slowed}, seed=12)
    sampler = Sampler({"baseline": apart.side("baseline")}, read_state=apart.read_state, clock=apart.clock)
    sampler.warm_up("baseline")
    alone = Series("cold", {"baseline": 50}, tuple(sampler.block("baseline", number) for number in range(3)), "pairs")
    right = tuple(
        OutputCheck(when, side, "reference", 1.0, 8, 0, 0, 0.0, 0.0, 0.0)
        for when in ("before", "after")
        for side in ("candidate", "baseline")
    )
    evidence = PerformanceEvidence(
        task="selftest",
        baseline="selftest",
        shape="large",
        status=MEASURED,
        bar_pct=bar_pct,
        seed=11,
        calibration=Calibration(0.032, 1.5, 0.5),
        warm_up=taken.warm_up,
        outputs=right,
        output_limits=_CLOSE,
        clock_source="nvml",
        series=(Series("cold", launches, taken.blocks, taken.stopped),),
        outside=tuple(long),
        alone=Alone(alone, ""),
        control=Series("control", {"baseline": 50, "control": 50}, taken.control, taken.stopped),
    )
    return performance.judge(evidence, {"shape": "large", "min_speedup_pct": bar_pct})


def _performance() -> Iterator[Outcome]:
    yield Outcome("performance", f"{SOUND}, 1.20x against 15 %", _judged_times(1.20, 15.0))
    yield Outcome("performance", "the same kernel twice, simulated device, bar 0 %", _judged_times(1.0, 0.0))
    yield Outcome("performance", "that candidate slowed by 5 %: 1.143x against 15 %", _judged_times(1.20 / 1.05, 15.0))
    yield Outcome("performance", "the same kernel twice, the candidate's times divided by four", _judged_times(1.0, 15.0, claimed=0.25))
    yield Outcome(
        "performance", "the same kernel twice, the baseline made slower beside the candidate", _judged_times(1.3, 15.0, slowed=1.3)
    )
    yield Outcome("performance", "candidate slower than its baseline by 5 %, bar 0 %", _judged_times(1.0 / 1.05, 0.0))


def _profile(values: Mapping[str, str] | None, log: str = "", report: str | None = "stored") -> dict[str, Any]:
    """One side as the profiler left it; ``values``: metric -> text, everything else 1. None: an empty table."""
    sources = ncu_metrics.sources("sm_90", (2025, 3))
    header, units = ["ID", "Kernel Name", *sources.values()], ["", "", *(ncu_metrics.METRICS[name].unit for name in sources)]
    rows = [] if values is None else [["0", _KERNEL, *(values.get(name, "5000" if name == "duration_ns" else "1") for name in sources)]]
    text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in (header, units, *rows)) + "\n"
    proof = '{"nonce": "n", "type": "case", "launches": 1, "error": ""}'
    return {
        "name": "selftest",
        "kernels": [_KERNEL],
        "sources": sources,
        "unknown": [],
        "report": report,
        "csv": text if report else None,
        "log": log,
        "attempt": {"nonce": "n", "lines": [proof], "returncode": 0, "timed_out": False, "cause": "exit 0"},
    }


def _judged_counters(candidate: dict[str, Any]) -> GateResult:
    raw = {
        "task": "selftest",
        "baseline": "selftest",
        "shape": "small",
        "chip": "sm_90",
        "version": "2025.3",
        "code": "",
        "message": "",
        "sides": {"candidate": candidate, "baseline": _profile({"tensor_pipe": "9"})},
    }
    return ncu.judge(ncu_evidence.parse(raw), _NCU_LIMITS)


def _ncu() -> Iterator[Outcome]:
    yield Outcome("ncu", SOUND, _judged_counters(_profile({"tensor_pipe": "21"})))
    yield Outcome("ncu", "empty counter report", _judged_counters(_profile(None)))
    yield Outcome("ncu", "a counter that is NaN", _judged_counters(_profile({"tensor_pipe": "nan"})))
    denied = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    yield Outcome("ncu", "no permission to read counters", _judged_counters(_profile(None, denied, report=None)))
    yield Outcome("ncu", "a throughput of 108.9 %", _judged_counters(_profile({"tensor_pipe": "21", "sm_throughput": "108.9"})))
    yield Outcome("ncu", "a counter that should rise and falls", _judged_counters(_profile({"tensor_pipe": "8"})))


def _compiled(scratch: Path, device: DeviceInfo | None, left_out: list[str]) -> Iterator[Outcome]:
    """The stage in selftest_data built with this machine's tools, sound and with its faults, side by side."""
    folder = scratch / "selftest"
    shutil.copytree(_DATA, folder)
    toolchain = find_toolchain()

    def built(fault: int, *want: str) -> tuple[Task, BuildResult]:
        task = load_task(folder, {"FAULT": str(fault)}, environ={})
        return task, build(task, toolchain, scratch / "build", device_arch=device.arch if device else None, want=set(want))

    def run(fault: int) -> GateResult | str:
        task, result = built(fault, "emulator")
        failure = result.failure("emulator")
        return failure.sentence if failure else _run_here(task, result, scratch / f"run{fault}")

    with ThreadPoolExecutor() as pool:  # each is mostly a wait for one compiler or one start of torch
        runs = [(name, pool.submit(run, fault)) for fault, name in enumerate(("", "one NaN in the output", "zeros"))]
        spilling = pool.submit(built, 3, "cubin")
        sound, result = built(0, "cubin", *(["device"] if device else []))
        yield from _compiled_static(result, spilling.result()[1], sound, toolchain, left_out)
        for name, future in runs:
            seen = future.result()
            if isinstance(seen, str):
                left_out.append(f"faulty kernels run on the emulator: {seen}")
                break
            yield Outcome("correctness", f"{name or SOUND}, run on the emulator", seen)
        else:
            _plant(built(0, "emulator")[1], built(2, "emulator")[1], folder)
            seen = run(2)
            if isinstance(seen, GateResult):
                yield Outcome("correctness", "zeros, under the sound library of another build", seen)
    if device is None:
        return
    if failure := result.failure("device"):
        left_out.append(f"one library timed against itself: {failure.sentence}")
    else:
        yield Outcome("performance", f"one library twice on {device.name}, bar 0 %", _time_here(sound, result, device, scratch))
        yield Outcome(
            "performance",
            f"one library twice on {device.name}, the candidate's times divided by four",
            _time_here(sound, result, device, scratch, forged=True),
        )


def _plant(sound: BuildResult, faulty: BuildResult, sources: Path) -> None:
    """Replace the faulty library with the sound one, newer than all other files, like a stale or copied build product."""
    target = faulty.path("emulator")
    shutil.copyfile(sound.path("emulator") or "", target or "")
    os.utime(target or "", (2**32, 2**32))
    for path in sources.iterdir():
        os.utime(path, (10**9, 10**9))


def _compiled_static(sound: BuildResult, spilling: BuildResult, task: Task, toolchain: Toolchain, left_out: list[str]) -> Iterator[Outcome]:
    if failure := sound.failure("cubin") or spilling.failure("cubin"):
        left_out.append(f"faults compiled by this machine's nvcc: {failure.sentence}")
        return
    texts, arch = collect(sound, toolchain), task.arch[0]
    yield Outcome("ptxas", f"{SOUND}, compiled here", _judged_log(texts.logs[arch] or "", arch))
    yield Outcome("ptxas", "spilled registers, compiled here", _judged_log(read_logs(spilling)[arch] or "", arch))
    if texts.sass[arch] is None:
        left_out.append(f"scalar code compiled here: {'; '.join(texts.reasons)}")
        return
    yield Outcome("sass", f"{SOUND}, compiled here", _judged_sass(texts.sass[arch], "fma", arch))
    yield Outcome("sass", "scalar code where tensor cores are required, compiled here", _judged_sass(texts.sass[arch], "tensor", arch))


def _side(task: Task, result: BuildResult, kind: str) -> dict[str, Any]:
    return result.side(task, kind)


def _run_here(task: Task, result: BuildResult, work: Path) -> GateResult:
    raw = run_correctness(
        _side(task, result, "emulator"),
        task.shapes,
        task.seeds,
        work=work,
        limit_s=task.time_limit_s,
        bad_atol=_CLOSE["bad_atol"],
    )
    return correctness.judge(correctness_evidence.parse(raw), _CLOSE)


def _time_here(task: Task, result: BuildResult, device: DeviceInfo, scratch: Path, *, forged: bool = False) -> GateResult:
    """Time one library against itself; ``forged``: the process claims a quarter of the candidate's times."""
    side = _side(task, result, "device")
    raw = run_timing(
        side,
        shape="large",
        work=scratch / f"timing{forged:d}",
        limit_s=task.time_limit_s,
        bar_pct=0.0,
        baseline=side,
        output_limits=_CLOSE,
        device=f"cuda:{device.index}",
        budget_s=15.0,
        hands="gates.diagnostics.selftest_data.hands" if forged else HANDS,
    )
    return performance.judge(performance_evidence.parse(raw), {"shape": "large", "min_speedup_pct": 0.0})
