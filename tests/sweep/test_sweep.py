"""A sweep: variants dropped with their reasons, workers that die, resumption, and the ranking with made-up timings."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import command_kit
import jsonschema
import pytest
from click.testing import CliRunner
from conftest import OnceASession
from places import ROOT, TASKS
from sweep_kit import BLOCKS, DEVICE, InTurn, dies_once, job, spans, spans_on_card

from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.core.records import GateResult, Status
from gates.core.schema import FOLDER
from gates.evidence.run_directory import list_runs
from gates.launch.device import candidates_at_a_time, card
from gates.render.console import Silence
from gates.render.search.sweep import compact, draw, frame, sweep_csv, sweep_table
from gates.sweep import cluster as clusters
from gates.sweep import schedule, work
from gates.sweep.cluster import local_cluster
from gates.sweep.kept import held
from gates.sweep.plan import Options
from gates.sweep.record import Found, Resources, Sweep, Timing, read_sweep
from gates.sweep.schedule import run_sweep
from gates.sweep.verify import verify_sweep
from gates.sweep.work import Done, Job, compile_variant
from gates.task.load import load_task

PASSED = Found(Status.PASS, "x.pass", "fine")


class Interrupting(Silence):
    """Ctrl-C once a variant has compiled."""

    def done(self, text: str) -> None:
        if "within budget" in text:
            raise KeyboardInterrupt


class Lines(Silence):
    """What progress said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def done(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def swept(once_a_session: OnceASession, kept: OnceASession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sweep]:
    """A whole sweep on two emulator workers, interrupted once the first variant has compiled, which is not done again; a copy, to go on
    with.
    """

    def sweep(root: Path) -> None:
        builds = kept("sweep_builds", lambda folder: None)
        options = Options(str(BLOCKS), ("BLOCK=128,100,512,64",), profile="cpu", workers=2, results=root / "results", build_dir=builds)
        with pytest.raises(KeyboardInterrupt):
            run_sweep(replace(options, workers=1), Interrupting())
        (first,) = (root / "results").rglob("ptxas.json")
        written = first.stat().st_mtime_ns
        folder, found = run_sweep(options, Silence())
        assert first.stat().st_mtime_ns == written and read_sweep(folder) == found

    copy = shutil.copytree(once_a_session("sweep", sweep), tmp_path_factory.mktemp("sweep") / "copy")
    (record,) = (copy / "results").rglob("sweep.json")
    return record.parent, read_sweep(record.parent)


def test_what_breaks_the_budget_does_not_compile_or_is_wrong_is_dropped_with_the_reason(swept) -> None:
    _, sweep = swept
    reasons = {variant.name: variant.dropped for variant in sweep.variants}
    assert list(reasons) == ["BLOCK=128", "BLOCK=100", "BLOCK=512", "BLOCK=64"] and reasons["BLOCK=128"] == ""
    assert "BLOCK must be whole warps" in reasons["BLOCK=100"] and reasons["BLOCK=100"].startswith("nvcc failed")
    assert reasons["BLOCK=512"] == "smem (saxpy_kernel sm_90): 2048 bytes, limit 1024 bytes"
    assert re.match(r"max_abs_err \(small seed 0\): [\d.]+, limit 1e-05", reasons["BLOCK=64"])
    kept = sweep.variant("BLOCK=128")
    assert kept.ptxas.status is kept.correctness.status is Status.PASS
    assert (kept.resources[0].smem_bytes, kept.resources[0].spill_bytes, kept.resources[0].occupancy_pct) == (512, 0, 100.0)


def test_without_a_device_the_ranking_is_not_run_and_says_why(swept) -> None:
    _, sweep = swept
    assert sweep.ranking == "not run: asked for" and (sweep.winner, sweep.run, sweep.rounds) == (None, None, ()) and sweep.ended
    with pytest.raises(GatesError, match="timed nothing: not run"):
        draw(sweep, Path("never.png"))


def test_the_evidence_of_each_variant_is_kept_and_the_record_keeps_its_schema(swept) -> None:
    folder, sweep = swept
    names = {path.relative_to(folder / "variants").as_posix() for path in (folder / "variants").rglob("*.json")}
    assert names == {
        "BLOCK=128/ptxas.json",
        "BLOCK=128/correctness.json",
        "BLOCK=512/ptxas.json",
        "BLOCK=64/ptxas.json",
        "BLOCK=64/correctness.json",
    }
    schema = json.loads((FOLDER / "sweep.schema.json").read_text())
    jsonschema.validate(json.loads((folder / "sweep.json").read_text()), schema)
    assert verify_sweep(folder) == []
    assert str(Path.home()) not in (folder / "sweep.json").read_text()


def test_the_same_command_and_resume_do_nothing_again(swept, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, sweep = swept
    monkeypatch.setattr(schedule, "workers", workers(InTurn((), {})))  # whatever is asked of it is a KeyError
    results = folder.parents[2]
    again = Options(str(BLOCKS), ("BLOCK=128,100,512,64",), results=results, build_dir=results / "build")
    assert run_sweep(again, Silence()) == (folder, sweep)
    assert run_sweep(replace(again, params=(), resume=folder, results=results / "elsewhere"), Silence()) == (folder, sweep)
    with pytest.raises(GatesError, match="sweeps other parameters"):
        run_sweep(replace(again, params=("BLOCK=32",), resume=folder), Silence())
    with pytest.raises(GatesError, match="no sweep in"):
        run_sweep(replace(again, resume=results), Silence())
    resumed = replace(again, task=None, params=(), resume=folder)
    with pytest.raises(GatesError, match="no task called 'blocks'") as caught:  # no task of `gates list` here
        run_sweep(resumed, Silence())
    assert caught.value.hint == f"name the folder of blocks: gates sweep FOLDER --resume {folder}"
    monkeypatch.chdir(BLOCKS.parents[1])
    assert run_sweep(resumed, Silence()) == (folder, sweep)


def test_a_task_must_be_named_where_nothing_is_resumed() -> None:
    result = CliRunner().invoke(cli, ["sweep", "--param", "BLOCK=64"])
    assert result.exit_code == 2 and "Missing argument 'TASK'" in result.output


def test_table_csv_and_frame(swept) -> None:
    _, sweep = swept
    text = sweep_table(sweep)
    assert "4 variants, 1 left, 3 dropped" in text and "\n  BLOCK=100: nvcc failed" in text and text.endswith("ranking: not run: asked for")
    assert "resources: the worst of all kernels on sm_90\n" in text
    assert list(frame(sweep)["state"]) == ["incumbent", "dropped", "dropped", "dropped"]
    head, first, *_ = sweep_csv(sweep).splitlines()
    figures = "registers,smem_bytes,spill_bytes,occupancy_pct,p50_us,ratio,low,high,limit_pct"
    assert head == f"BLOCK,{figures},ptxas,sass,correctness,rounds,state,dropped"
    assert re.fullmatch(r"128,\d+,512,0,100.0,,,,,,pass,not_applicable,pass,0,incumbent,", first)


def test_of_several_architectures_the_table_says_which_has_the_worst_figure(swept) -> None:
    _, sweep = swept
    two = Resources("k", "sm_89", 30, 512, 0, 50.0), Resources("k", "sm_90", 32, 512, 0, 75.0)
    variants = (replace(sweep.variants[0], resources=two), *sweep.variants[1:])
    several = sweep_table(replace(sweep, archs=("sm_89", "sm_90"), variants=variants))
    assert "resources: the worst of all kernels on sm_89, sm_90\n" in several and "32 (sm_90)" in several and "50 % (sm_89)" in several
    assert "(sm_" not in sweep_table(replace(sweep, archs=("sm_90",), variants=variants)), "one architecture is above the table"


def test_a_reason_of_many_variants_is_told_once_and_kept_for_each(swept) -> None:
    _, sweep = swept
    grid = {"BLOCK": (64, 100, 512), "N": (1, 2)}
    variants = tuple(
        replace(
            sweep.variants[1],
            name=f"BLOCK={block},N={n}",
            toggles={"BLOCK": block, "N": n},
            dropped="too \x1b many" if block != 64 or n == 2 else "",
        )
        for block in grid["BLOCK"]
        for n in grid["N"]
    )
    alike = replace(sweep, params=grid, variants=variants)
    assert "dropped:\n  5 variants: too \\x1b many\n      N=2; BLOCK=100,512 N=1\n\n" in sweep_table(alike)
    assert sweep_csv(alike).count("too \\x1b many") == 5


def test_variants_are_named_by_what_they_have_in_common() -> None:
    grid = {"A": {1, 2}, "B": {1, 2, 3}}
    every = [{"A": a, "B": b} for a in (1, 2) for b in (1, 2, 3)]
    assert compact(grid, every) == "all" and compact(grid, every[:3]) == "A=1" and compact(grid, every[:1]) == "A=1 B=1"
    assert compact(grid, [every[1], every[2], every[4], every[5]]) == "B=2,3"
    assert compact(grid, [every[0], every[4], {"A": 9, "B": 2}]) == "A=1 B=1; A=2,9 B=2"
    assert compact({"A": {1, 2}, "B": {3}}, [{"A": 2, "B": 3}]) == "A=2"


def test_the_machine_code_is_judged_once_it_has_compiled_within_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(BLOCKS.parent, tmp_path / "tasks")
    folder = tmp_path / "tasks" / "blocks"
    text = (folder / "task.yaml").read_text().replace("  sass: the machine code is not what a sweep is about\n", "")
    (folder / "task.yaml").write_text(text.replace("gates:\n", "gates:\n  sass: {require: {shared_load: 1}}\n"))
    source = folder.parent / "blocks.cu"
    source.write_text(source.read_text().replace("a * slot[threadIdx.x]", "a * (BLOCK == 32 ? x[i] : slot[threadIdx.x])"))
    jobs, done = {}, {}
    for block in (32, 128):
        task = load_task(folder, {"BLOCK": str(block)}, environ={})
        jobs[block] = Job("v", str(folder), task.toggles, task.digest(), str(tmp_path / "b"), task.shapes, 0, None, 1)
        done[block] = compile_variant(jobs[block])
    assert done[32].found.status is Status.PASS and done[32].resources[0].smem_bytes is not None
    assert (done[32].sass.status, done[32].sass.code) == (Status.FAIL, "sass.required")
    assert done[32].sass.sentence == "shared_load (saxpy_kernel sm_90): 0 instructions, limit 1 instructions"
    assert done[128].found.status is done[128].sass.status is Status.PASS and set(done[128].files) == {"ptxas.json", "sass.json"}
    tools = work.find_toolchain()
    without = replace(tools, tools={**tools.tools, "cuobjdump": None, "nvdisasm": None}, remedies={"cuobjdump": "get it"})
    monkeypatch.setattr(work, "find_toolchain", lambda: without)
    with pytest.raises(GatesError, match="neither cuobjdump nor nvdisasm was found") as caught:
        compile_variant(jobs[128])
    assert caught.value.exit_code == 3


@contextmanager
def _with(cluster: InTurn):
    yield cluster, "made up"


def workers(cluster: InTurn):
    return lambda *_, **__: _with(cluster)


class Bench:
    """Made-up workers on a made-up card: true times by BLOCK; ``calls`` are the jobs done."""

    def __init__(
        self, true_us: dict[int, float], *, wrong: tuple[int, ...] = (), other_code: tuple[int, ...] = (), stop_after: int | None = None
    ) -> None:
        self.true_us, self.wrong, self.other_code, self.stop_after = true_us, wrong, other_code, stop_after
        self.calls: list[tuple[str, str, float]] = []
        self.cluster = InTurn(
            (DEVICE,),
            {
                "compile_variant": self.compile,
                "check_variant": self.check,
                "time_variant": self.time,
                "judge_variant": self.judge,
            },
        )

    def note(self, what: str, job: Job) -> None:
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((what, job.variant, job.budget_s))

    def compile(self, job: Job) -> Done:
        self.note("compile", job)
        block = job.toggles["BLOCK"]
        sass = Found(Status.FAIL, "sass.required", "0 instructions, limit 1") if block in self.other_code else PASSED
        return Done(job.variant, PASSED, {}, (Resources("saxpy_kernel", "sm_90", block // 4, 4 * block, 0, 400 / 96),), sass=sass)

    def check(self, job: Job) -> Done:
        self.note("check", job)
        bad = job.toggles["BLOCK"] in self.wrong
        return Done(job.variant, Found(Status.FAIL, "correctness.max_abs_err", "wrong") if bad else PASSED, {"correctness.json": b"{}"})

    def time(self, job: Job) -> Done:
        self.note("time", job)
        ours, theirs = self.true_us[job.toggles["BLOCK"]], self.true_us[job.reference[0]["BLOCK"]]
        ratio = theirs / ours
        timing = Timing(job.variant, ratio > 1.01, "", f"{ratio:.3f}x", ratio, ratio * 0.99, ratio * 1.01, ours, theirs, DEVICE.uuid, 1.0)
        return Done(job.variant, None, {"performance.json": b"{}"}, timing=timing)

    def judge(self, job: Job) -> Done:
        self.note("judge", job)
        return Done(job.variant, None, {"run.json": b"{}", "profile.ncu-rep": b"\xff\x00"}, run=("20260101T000000Z-made-up", "hold"))


def ranked(
    monkeypatch: pytest.MonkeyPatch, root: Path, bench: Bench, values: str = "32,64,96,128,160,192,224", progress: Silence | None = None
):
    monkeypatch.setattr(schedule, "workers", workers(bench.cluster))
    return run_sweep(Options(str(BLOCKS), (f"BLOCK={values}",), results=root / "results", build_dir=root / "build"), progress or Silence())


TRUE_US = {32: 14.0, 64: 12.0, 96: 9.0, 128: 10.0, 160: 8.0, 192: 8.5, 224: 11.0}


def test_the_fastest_right_variant_wins_and_gets_a_whole_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(TRUE_US, wrong=(160,))
    folder, sweep = ranked(monkeypatch, tmp_path, bench)
    assert (sweep.winner, sweep.reference, sweep.ranking, sweep.decision) == ("BLOCK=192", "BLOCK=128", "timed", "hold")
    assert [(one.budget_s, len(one.variants), len(one.timings)) for one in sweep.rounds] == [(5.0, 5, 5), (10.0, 3, 3), (60.0, 2, 2)]
    assert bench.calls[-1] == ("judge", "BLOCK=192", 0.0)
    assert [path.name for path in list_runs(tmp_path / "results" / "blocks")] == ["20260101T000000Z-made-up"]
    assert sweep.run == "blocks/20260101T000000Z-made-up"
    assert (folder / "variants" / "BLOCK=192" / "performance.round3.json").is_file()
    draw(sweep, tmp_path / "sweep.svg")
    assert (tmp_path / "sweep.svg").stat().st_size > 5000
    table = frame(sweep).set_index("BLOCK")
    assert table.p50_us[128] == 10.0 and table.p50_us[192] == 8.5 and table.state[192] == "winner" and table.rounds[32] == 1
    assert sweep_table(sweep).index("192 ") < sweep_table(sweep).index("128 ")
    assert "resources: the worst of all kernels on sm_90\n" in sweep_table(sweep) and "against incumbent" in sweep_table(sweep)
    assert "\n128,32,512,0,4.2,10.0,,,,,pass,pass,pass,0,incumbent,\n" in sweep_csv(sweep)


def test_the_baseline_of_the_winner_s_run_is_built_beside_the_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built, taken_apart = list[str](), list[object]()
    monkeypatch.setattr(work, "build", lambda task, *_, want, **__: built.append(f"{task.name}: {', '.join(sorted(want))}") or built)
    monkeypatch.setattr(work.dumps, "collect", lambda result, _: SimpleNamespace(sass=taken_apart.append(result)))
    too_many = Found(Status.FAIL, "ptxas.registers", "too many")
    functions = {"compile_variant": lambda job: Done(job.variant, too_many, {}), "build_baseline": work.build_baseline}
    monkeypatch.setattr(schedule, "workers", workers(InTurn((DEVICE,), functions)))
    _, sweep = run_sweep(
        Options(str(TASKS / "saxpy_fast"), ("USE_COALESCED=0,1",), results=tmp_path / "r", build_dir=tmp_path / "b"), Silence()
    )
    assert built == ["saxpy_slow: cubin, device, emulator"] and taken_apart == [built] and not sweep.left()


@pytest.mark.parametrize(("arch", "jobs"), [("sm_90", None), (None, 1)])
def test_the_check_on_a_card_uses_all_cores_and_one_of_many_on_the_emulator_its_own(
    arch: str | None, jobs: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[int | None]()
    monkeypatch.setattr(work, "own_device", lambda: DEVICE)
    monkeypatch.setattr(work, "_built", lambda *_: None)
    monkeypatch.setattr(
        work, "_judged", lambda session, gate: seen.append(session.jobs) or GateResult(gate, Status.FAIL, "correctness.crash", "made up")
    )
    task = load_task(BLOCKS, environ={})
    asked = replace(
        job("BLOCK=128", tmp_path), folder=str(BLOCKS), toggles=task.toggles, digest=task.digest(), arch=arch, shapes=("small",)
    )
    assert work.check_variant(asked).found.code == "correctness.crash" and seen == [jobs]


def test_the_environment_sets_no_toggle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCK", "junk")
    folder, sweep = ranked(monkeypatch, tmp_path, Bench(TRUE_US))
    assert sweep.incumbent == "BLOCK=128"
    monkeypatch.chdir(BLOCKS.parents[1])
    assert run_sweep(Options(None, resume=folder, build_dir=tmp_path / "build"), Silence()) == (folder, sweep)


def test_what_the_machine_code_gate_rejects_is_neither_checked_nor_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(TRUE_US, other_code=(160,))
    _, sweep = ranked(monkeypatch, tmp_path, bench)
    rejected = sweep.variant("BLOCK=160")
    assert rejected.dropped == rejected.sass.sentence == "0 instructions, limit 1" and sweep.winner == "BLOCK=192"
    assert [what for what, variant, _ in bench.calls if variant == "BLOCK=160"] == ["compile"]
    assert frame(sweep).set_index("BLOCK").sass[160] == "fail"


def test_the_incumbent_keeps_its_place_where_nothing_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sweep = ranked(monkeypatch, tmp_path, Bench({**TRUE_US, 128: 7.95}))
    assert sweep.winner == sweep.incumbent == "BLOCK=128" and sweep.winner_reason.startswith(
        "nothing is faster beyond doubt; next is BLOCK=160"
    )


def test_where_the_incumbent_is_wrong_the_first_that_is_left_is_timed_against(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sweep = ranked(monkeypatch, tmp_path, Bench(TRUE_US, wrong=(128,)))
    assert (sweep.incumbent, sweep.reference, sweep.winner) == ("BLOCK=128", "BLOCK=32", "BLOCK=160")
    assert frame(sweep).set_index("BLOCK").state[32] == "reference" and "against BLOCK=32" in sweep_table(sweep)


@pytest.mark.parametrize("after", [0, 3, 9, 14, 17, 24])
def test_an_interrupted_sweep_goes_on_and_does_nothing_twice(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, lines = Bench(TRUE_US, stop_after=after), Bench(TRUE_US), Lines()
    with pytest.raises(KeyboardInterrupt):
        ranked(monkeypatch, tmp_path, first, progress=lines)
    kept = {what: sum(call[0] == what for call in first.calls) for what in ("compile", "check", "time")}
    timings = f", {kept['time']} timings" if kept["time"] else ""
    (folder,) = (tmp_path / "results").glob("sweeps/blocks/*")
    assert lines.said[-1] == (
        f"kept so far: {kept['compile']} of 7 variants compiled, {kept['check']} checked{timings} in {folder}; the same command continues"
    )
    _, sweep = ranked(monkeypatch, tmp_path, second)
    whole = Bench(TRUE_US)
    ranked(monkeypatch, tmp_path / "whole", whole)
    assert len(first.calls) == after and sorted(first.calls + second.calls) == sorted(whole.calls)
    assert sweep.winner == "BLOCK=160"


def left_of(session: int, mark: str) -> list[int]:
    """Processes of the session, or with ``mark`` in their command lines, that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, its = (path / "stat").read_text().rpartition(")")[2].split()[:4]
            if state != "Z" and (int(its) == session or mark in (path / "cmdline").read_text()):
                found.append(int(path.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("at", "wait_s", "number"),
    [
        ("starting workers", 0.7, signal.SIGINT),
        ("1 of 2 variants compiled", 0.0, signal.SIGINT),
        ("1 of 2 variants compiled", 0.0, signal.SIGHUP),
    ],
)
def test_an_interruption_of_the_whole_process_group_is_told_in_one_line_and_leaves_nothing(
    at: str, wait_s: float, number: int, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "gates", "sweep", str(BLOCKS), "--param", "BLOCK=100", "--profile", "cpu", "--workers", "2"]
    command += ["--results", str(tmp_path / "r"), "--build-dir", str(tmp_path / "b")]
    options = {
        "stderr": subprocess.PIPE,
        "stdout": subprocess.DEVNULL,
        "text": True,
        "cwd": tmp_path,
        "env": {**os.environ, "PYTHONPATH": str(ROOT)},
    }
    with subprocess.Popen(command, start_new_session=True, **options) as child:
        said = next(line for line in child.stderr if at in line)
        time.sleep(wait_s)
        os.killpg(child.pid, number)
        said += child.communicate(timeout=60)[1]
    assert child.returncode == 130 and "error: interrupted" in said and "Traceback" not in said and "Error:" not in said, said
    until = time.monotonic() + 60  # ninja is told nothing, and ends with the step that it is at
    while left := left_of(child.pid, str(tmp_path)):
        assert time.monotonic() < until, left
        time.sleep(0.2)
    if at != "starting workers":
        assert re.search(r"kept so far: [12] of 2 variants compiled, \d checked in ", said)
    if at != "starting workers" and number == signal.SIGINT:
        assert command_kit.gates(*command[3:], "--workers", "1", cwd=tmp_path).returncode == 0


# Interrupts itself at random moments; each time must end in KeyboardInterrupt alone, after which jobs can be given again.
STORM = """
import os, random, signal, threading, time
from gates.sweep.cluster import local_cluster

def same(job):
    return job

def interrupt(ended):
    rng, until = random.Random(1), time.monotonic() + 2
    while time.monotonic() < until:
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(os.getpid(), signal.SIGINT)
    ended.set()

with local_cluster((), 1) as cluster:
    came, ended = 0, threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=interrupt, args=(ended,)).start()
    while not ended.is_set():
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with cluster.jobs() as jobs:
                for number in range(3):
                    jobs.add(same, number)
                for _ in jobs:
                    pass
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            came += 1
    with cluster.jobs() as jobs:
        jobs.add(same, "last")
        print(came > 10, [done for _, done in jobs])
"""


def test_an_interruption_at_any_moment_of_waiting_for_workers_is_one_and_nothing_else() -> None:
    child = subprocess.run(
        [sys.executable, "-c", STORM], capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert child.stdout == "True ['last']\n" and "KeyboardInterrupt" not in child.stderr, child.stderr


def test_a_picture_that_can_t_be_is_refused_before_any_worker_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gates.sweep.workers.local_cluster", None)
    monkeypatch.setattr("gates.sweep.workers.choose_profile", lambda asked, index: ("cpu", "no CUDA device", None))

    def refused(picture: Path, *more: str) -> GatesError:
        result = CliRunner().invoke(
            cli, ["sweep", str(BLOCKS), "--param", "BLOCK=64", "--plot", str(picture), "--build-dir", str(tmp_path / "b"), *more]
        )
        assert isinstance(result.exception, GatesError), result.exception
        return result.exception

    assert "a picture is .png or .svg" in refused(tmp_path / "x.pdf").what
    (tmp_path / "file").write_text("")
    assert f"can't write {tmp_path / 'file' / 'x.png'}" in refused(tmp_path / "file" / "x.png").what
    assert "--profile cpu takes none" in refused(tmp_path / "x.png", "--profile", "cpu").what
    none = refused(tmp_path / "x.png")
    assert (none.what, none.exit_code) == ("--plot draws times, and nothing can be timed here: no CUDA device", 3) and not (
        tmp_path / "x.png"
    ).exists()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert refused(tmp_path / "x.png").what == "matplotlib is not installed"


@pytest.mark.parametrize("place", ["results", "build-dir"])
def test_a_place_that_can_t_be_written_is_refused_before_any_worker_starts(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gates.sweep.workers.local_cluster", None)
    (tmp_path / "file").write_text("")
    for unwritable in (tmp_path / "file" / "x", Path("/proc/x")):
        places = {"results": tmp_path / "r", "build-dir": tmp_path / "b"} | {place: unwritable}
        result = CliRunner().invoke(
            cli, ["sweep", str(BLOCKS), "--param", "BLOCK=64", *(f"--{name}={path}" for name, path in places.items())]
        )
        assert isinstance(result.exception, GatesError) and place in (result.exception.hint or ""), result.exception
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_no_variant_left_is_an_error_with_the_table_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "workers", workers(Bench(TRUE_US, wrong=(64, 128)).cluster))
    arguments = ["sweep", str(BLOCKS), "--param", "BLOCK=64", "--results", str(tmp_path / "r"), "--build-dir", str(tmp_path / "b")]
    result = CliRunner().invoke(cli, arguments)
    assert isinstance(result.exception, GatesError) and result.exception.exit_code == 1
    assert result.exception.what == "no variant is left: all 2 were dropped" and "2 variants: wrong\n      all\n" in result.output


def test_changed_sources_a_second_process_and_other_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, sweep = ranked(monkeypatch, tmp_path, Bench(TRUE_US))
    options = Options(str(BLOCKS), resume=folder, results=tmp_path / "results", build_dir=tmp_path / "build")
    with held(folder), pytest.raises(GatesError, match="another process is using"):
        run_sweep(options, Silence())
    (folder / "sweep.json").write_text((folder / "sweep.json").read_text().replace(sweep.id, "0" * 12))
    with pytest.raises(GatesError, match="changed since"):
        run_sweep(options, Silence())


def test_workers_that_die_lose_nothing_and_a_card_has_one_job_at_a_time(tmp_path: Path) -> None:
    with local_cluster((), 2) as cluster:
        died = {}
        with cluster.jobs() as jobs:
            jobs.add(dies_once, job("a", tmp_path))
            for function, done in jobs:
                died[done.variant] = done
                if done.variant == "a":
                    assert function is dies_once
                    jobs.add(dies_once, job("b", tmp_path))  # while results are taken
        assert set(died) == {"a", "b"} and all(done.files["first"] != done.files["second"] for done in died.values())
        futures = [cluster.client.submit(spans_on_card, job(name, tmp_path), pure=False) for name in "abcd"]
        done = cluster.client.gather(futures)
        spent = sorted(tuple(map(float, one.files["span"].split())) for one in done)
        assert all(end <= begin for (_, end), (begin, _) in zip(spent, spent[1:], strict=False))
        assert {one.files["heavy"] for one in done} == {b"set()"}, "workers import neither torch nor pandas"
        address = cluster.client.scheduler.address
        with clusters.joined_cluster(address) as joined, joined.jobs() as jobs:
            jobs.add(spans, job("z", tmp_path))
            assert joined.devices == () and [one.variant for _, one in jobs] == ["z"]
        with pytest.raises(GatesError, match="has the resource GPU"):
            run_sweep(
                Options(str(BLOCKS), ("BLOCK=64",), scheduler=address, profile="full", results=tmp_path, build_dir=tmp_path), Silence()
            )


def test_workers_can_be_reached_from_this_machine_alone() -> None:
    with local_cluster((), 1) as cluster:
        info = cluster.client.scheduler_info()
        addresses = [info["address"], *info["workers"], *(one["nanny"] for one in info["workers"].values())]
        assert len(addresses) == 3 and all(address.startswith("tcp://127.0.0.1:") for address in addresses)
        ports = cluster.client.run(_listening)
        assert ports and all(hosts and set(hosts) == {"0100007F"} for hosts in ports.values())


def _listening() -> list[str]:
    """Hosts, in hexadecimal, at which this process listens; of IPv6 the whole address."""
    mine = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them is gone
            mine.add(os.readlink(path))
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in mine:
                found.append(words[1].split(":")[0])
    return found


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["variants"][1].update(name="../../../escaped"),
        lambda data: data.update(variants=[]),
        lambda data: data["variants"].append(data["variants"][1]),
        lambda data: data.update(winner="BLOCK=9"),
        lambda data: data.update(incumbent="BLOCK=9"),
        lambda data: data["rounds"][0]["variants"].append("BLOCK=9"),
    ],
)
def test_a_sweep_that_was_edited_is_not_gone_on_with(change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = ranked(monkeypatch, tmp_path, Bench(TRUE_US))
    data = json.loads((folder / "sweep.json").read_text())
    change(data)
    (folder / "sweep.json").write_text(json.dumps(data))
    with pytest.raises(GatesError, match="was edited: its variants are not those of its parameters"):
        ranked(monkeypatch, tmp_path, Bench(TRUE_US))
    assert not list(tmp_path.rglob("escaped*"))


@pytest.mark.parametrize(("device", "free"), [(DEVICE, False), (None, True)])
def test_a_variant_has_its_device_to_itself(device: Any, free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(work, "_task", lambda *_: SimpleNamespace(name="mine"))
    with work._session(job("a", tmp_path), device), ExitStack() as other:
        try:
            other.enter_context(card(DEVICE.uuid, wait=False))
        except BlockingIOError:
            assert not free
        else:
            assert free


def test_the_worker_of_a_device_waits_for_no_compiler(tmp_path: Path) -> None:
    with local_cluster((DEVICE,), 1) as cluster, cluster.jobs() as jobs:
        for name in "abcd":
            jobs.add(spans, job(name, tmp_path))
        assert {one.files["device"] for _, one in jobs} == {b""}


def test_a_card_has_several_workers_if_each_does_all_of_a_candidate(tmp_path: Path) -> None:
    with local_cluster((DEVICE,), 0, 2) as cluster, cluster.jobs() as jobs:
        for name in "ab":
            jobs.add(spans, job(name, tmp_path), device=True)
        done = [one.files for _, one in jobs]
    (began, _), (_, ended) = sorted(tuple(map(float, one["span"].split())) for one in done)
    assert {one["device"] for one in done} == {DEVICE.uuid.encode()} and ended - began < 0.6, "side by side"


@pytest.mark.parametrize(("cores", "gib", "expected"), [(16, (), 8), (16, (141,), 12), (16, (8,), 1), (1, (141,), 1), (64, (24, 24), 6)])
def test_as_many_candidates_at_a_time_as_cores_and_cards_take(cores: int, gib: tuple[int, ...], expected: int) -> None:
    assert candidates_at_a_time([replace(DEVICE, total_memory_bytes=one * 2**30) for one in gib], cores) == expected


def test_a_scheduler_that_is_not_there_and_a_missing_dask_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_CONNECT_S", 0.5)
    with pytest.raises(GatesError, match="can't reach a Dask scheduler at tcp://127.0.0.1:9"), clusters.joined_cluster("tcp://127.0.0.1:9"):
        pass
    with pytest.raises(GatesError, match="is not the address of"), clusters.joined_cluster("here"):
        pass
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(GatesError) as caught, clusters.joined_cluster("tcp://127.0.0.1:9"):
        pass
    assert caught.value.what == "Dask distributed is not installed" and "kernel-gates[sweep]" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("greeting", "why"), [(b"", "no answer within 0.5 s"), (b"SSH-2.0-OpenSSH_9.6\r\n", "what listens there speaks another protocol")]
)
def test_what_listens_and_is_no_scheduler_is_told_in_time(greeting: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        code = f"from gates.sweep import cluster; cluster._CONNECT_S = 0.5; cluster.joined_cluster('{address}').__enter__()"
        options = {"stderr": subprocess.PIPE, "text": True, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
        with subprocess.Popen([sys.executable, "-c", code], **options) as child, server.accept()[0] as talking:
            talking.sendall(greeting)
            try:
                said = child.communicate(timeout=30)[1]
            finally:
                child.kill()
    assert f"GatesError: can't reach a Dask scheduler at {address}: {why}\n" in said


def test_cards_of_two_kinds_are_refused() -> None:
    with pytest.raises(GatesError, match="cards to time on differ: NVIDIA Made-up, NVIDIA Other"):
        clusters.one_kind((DEVICE, replace(DEVICE, name="NVIDIA Other", uuid="GPU-1")))


@pytest.mark.gpu
def test_on_a_device_the_survivors_are_timed_and_the_winner_has_a_run(tmp_path: Path) -> None:
    options = Options(
        str(BLOCKS), ("BLOCK=32,64,128,100",), profile="full", workers=2, results=tmp_path / "results", build_dir=tmp_path / "build"
    )
    _, sweep = run_sweep(options, Silence())
    assert [variant.name for variant in sweep.left()] == ["BLOCK=128", "BLOCK=32"]
    (timing,) = sweep.rounds[-1].timings
    assert timing.variant == "BLOCK=32" and timing.ratio is not None and timing.device_uuid in {device.uuid for device in sweep.devices}
    assert sweep.winner in ("BLOCK=128", "BLOCK=32") and (tmp_path / "results" / (sweep.run or "-") / "verdict.json").is_file()
    draw(sweep, tmp_path / "sweep.png")
