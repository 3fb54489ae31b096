"""A sweep: variants dropped with their reasons, workers that die, resumption, and the ranking with made-up timings."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from sweep_kit import BLOCKS, DEVICE, InTurn, dies_once, job, spans

from gates.api import Silence
from gates.cli import cli
from gates.errors import GatesError
from gates.evidence import list_runs
from gates.records import Status
from gates.render.sweep import draw, frame, sweep_csv, sweep_table
from gates.sweep import cluster as clusters
from gates.sweep import schedule
from gates.sweep.cluster import local_cluster, locked
from gates.sweep.kept import held
from gates.sweep.plan import Options
from gates.sweep.record import Found, Resources, Sweep, Timing, read_sweep
from gates.sweep.schedule import run_sweep
from gates.sweep.work import Done, Job

PASSED = Found(Status.PASS, "x.pass", "fine")


class Interrupting(Silence):
    """Ctrl-C once a variant has compiled."""

    def done(self, text: str) -> None:
        if "within budget" in text:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sweep]:
    """A whole sweep on two emulator workers, interrupted once the first variant has compiled, which is not done again."""
    root = tmp_path_factory.mktemp("sweep")
    options = Options(str(BLOCKS), ("BLOCK=128,100,512,64",), profile="cpu", workers=2, results=root / "results", build_dir=root / "build")
    with pytest.raises(KeyboardInterrupt):
        run_sweep(options, Interrupting())
    (first,) = (root / "results").rglob("ptxas.json")
    written = first.stat().st_mtime_ns
    found = run_sweep(options, Silence())
    assert first.stat().st_mtime_ns == written
    return found


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
    assert names == {"BLOCK=128/ptxas.json", "BLOCK=128/correctness.json", "BLOCK=512/ptxas.json", "BLOCK=64/ptxas.json", "BLOCK=64/correctness.json"}
    schema = json.loads((Path(schedule.__file__).parents[1] / "schemas" / "sweep.schema.json").read_text())
    jsonschema.validate(json.loads((folder / "sweep.json").read_text()), schema)
    assert read_sweep(folder) == sweep and str(Path.home()) not in (folder / "sweep.json").read_text()


def test_the_same_command_and_resume_do_nothing_again(swept, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, sweep = swept
    monkeypatch.setattr(schedule, "_workers", workers(InTurn((), {})))  # whatever is asked of it is a KeyError
    results = folder.parents[2]
    again = Options(str(BLOCKS), ("BLOCK=128,100,512,64",), results=results, build_dir=results / "build")
    assert run_sweep(again, Silence()) == (folder, sweep)
    assert run_sweep(replace(again, params=(), resume=folder, results=results / "elsewhere"), Silence()) == (folder, sweep)
    with pytest.raises(GatesError, match="sweeps other parameters"):
        run_sweep(replace(again, params=("BLOCK=32",), resume=folder), Silence())
    with pytest.raises(GatesError, match="no sweep in"):
        run_sweep(replace(again, resume=results), Silence())


def test_table_csv_and_frame(swept) -> None:
    _, sweep = swept
    text = sweep_table(sweep)
    assert "4 variants, 1 left, 3 dropped" in text and "BLOCK=100: nvcc failed" in text and text.endswith("ranking: not run: asked for")
    assert list(frame(sweep)["state"]) == ["reference", "dropped", "dropped", "dropped"]
    assert sweep_csv(sweep).splitlines()[0].startswith("BLOCK,registers,smem_bytes,spill_bytes,occupancy_pct,p50_us")


@contextmanager
def _with(cluster: InTurn):
    yield cluster, "made up"


def workers(cluster: InTurn):
    return lambda options, progress: _with(cluster)


class Bench:
    """Made-up workers on a made-up card: true times by BLOCK; ``calls`` are the jobs done."""

    def __init__(self, true_us: dict[int, float], *, wrong: tuple[int, ...] = (), stop_after: int | None = None) -> None:
        self.true_us, self.wrong, self.stop_after = true_us, wrong, stop_after
        self.calls: list[tuple[str, str, float]] = []
        self.cluster = InTurn((DEVICE,), {
            "compile_variant": self.compile, "check_variant": self.check, "time_variant": self.time, "judge_variant": self.judge,
        })

    def note(self, what: str, job: Job) -> None:
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append((what, job.variant, job.budget_s))

    def compile(self, job: Job) -> Done:
        self.note("compile", job)
        block = job.toggles["BLOCK"]
        return Done(job.variant, PASSED, {}, (Resources("saxpy_kernel", "sm_90", block // 4, 4 * block, 0, 100.0),))

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


def ranked(monkeypatch: pytest.MonkeyPatch, root: Path, bench: Bench, values: str = "32,64,96,128,160,192,224"):
    monkeypatch.setattr(schedule, "_workers", workers(bench.cluster))
    return run_sweep(Options(str(BLOCKS), (f"BLOCK={values}",), results=root / "results", build_dir=root / "build"), Silence())


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


def test_the_incumbent_keeps_its_place_where_nothing_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sweep = ranked(monkeypatch, tmp_path, Bench({**TRUE_US, 128: 7.95}))
    assert sweep.winner == sweep.incumbent == "BLOCK=128" and sweep.winner_reason.startswith("nothing is faster beyond doubt; next is BLOCK=160")


def test_where_the_incumbent_is_wrong_the_first_that_is_left_is_timed_against(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sweep = ranked(monkeypatch, tmp_path, Bench(TRUE_US, wrong=(128,)))
    assert (sweep.incumbent, sweep.reference, sweep.winner) == ("BLOCK=128", "BLOCK=32", "BLOCK=160")


@pytest.mark.parametrize("after", [0, 3, 9, 14, 17, 24])
def test_an_interrupted_sweep_goes_on_and_does_nothing_twice(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Bench(TRUE_US, stop_after=after), Bench(TRUE_US)
    with pytest.raises(KeyboardInterrupt):
        ranked(monkeypatch, tmp_path, first)
    _, sweep = ranked(monkeypatch, tmp_path, second)
    whole = Bench(TRUE_US)
    ranked(monkeypatch, tmp_path / "whole", whole)
    assert len(first.calls) == after and sorted(first.calls + second.calls) == sorted(whole.calls)
    assert sweep.winner == "BLOCK=160"


def test_no_variant_left_is_an_error_with_the_table_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_workers", workers(Bench(TRUE_US, wrong=(64, 128)).cluster))
    arguments = ["sweep", str(BLOCKS), "--param", "BLOCK=64", "--results", str(tmp_path / "r"), "--build-dir", str(tmp_path / "b")]
    result = CliRunner().invoke(cli, arguments)
    assert isinstance(result.exception, GatesError) and result.exception.exit_code == 1
    assert result.exception.what == "no variant is left: all 2 were dropped" and "BLOCK=64: wrong" in result.output


def test_changed_sources_a_second_process_and_other_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, sweep = ranked(monkeypatch, tmp_path, Bench(TRUE_US))
    options = Options(str(BLOCKS), resume=folder, results=tmp_path / "results", build_dir=tmp_path / "build")
    with held(folder), pytest.raises(GatesError, match="another process is at the sweep"):
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
        futures = [cluster.client.submit(locked, "GPU-0", spans, job(name, tmp_path), pure=False) for name in "abcd"]
        done = cluster.client.gather(futures)
        spent = sorted(tuple(map(float, one.files["span"].split())) for one in done)
        assert all(end <= begin for (_, end), (begin, _) in zip(spent, spent[1:], strict=False))
        assert {one.files["heavy"] for one in done} == {b"set()"}, "workers import neither torch nor pandas"
        address = cluster.client.scheduler.address
        with clusters.joined_cluster(address) as joined, joined.jobs() as jobs:
            jobs.add(spans, job("z", tmp_path))
            assert joined.devices == () and [one.variant for _, one in jobs] == ["z"]
        with pytest.raises(GatesError, match="has the resource GPU"):
            run_sweep(Options(str(BLOCKS), ("BLOCK=64",), scheduler=address, profile="full", results=tmp_path, build_dir=tmp_path), Silence())


def test_the_worker_of_a_device_waits_for_no_compiler(tmp_path: Path) -> None:
    with local_cluster((DEVICE,), 1) as cluster, cluster.jobs() as jobs:
        for name in "abcd":
            jobs.add(spans, job(name, tmp_path))
        assert {one.files["device"] for _, one in jobs} == {b""}


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


def test_cards_of_two_kinds_are_refused() -> None:
    with pytest.raises(GatesError, match="cards to time on differ: NVIDIA Made-up, NVIDIA Other"):
        clusters.one_kind((DEVICE, replace(DEVICE, name="NVIDIA Other", uuid="GPU-1")))


@pytest.mark.gpu
def test_on_a_device_the_survivors_are_timed_and_the_winner_has_a_run(tmp_path: Path) -> None:
    options = Options(str(BLOCKS), ("BLOCK=32,64,128,100",), profile="full", workers=2, results=tmp_path / "results", build_dir=tmp_path / "build")
    _, sweep = run_sweep(options, Silence())
    assert [variant.name for variant in sweep.left()] == ["BLOCK=128", "BLOCK=32"]
    (timing,) = sweep.rounds[-1].timings
    assert timing.variant == "BLOCK=32" and timing.ratio is not None and timing.device_uuid in {device.uuid for device in sweep.devices}
    assert sweep.winner in ("BLOCK=128", "BLOCK=32") and (tmp_path / "results" / (sweep.run or "-") / "verdict.json").is_file()
    draw(sweep, tmp_path / "sweep.png")
