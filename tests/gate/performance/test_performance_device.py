"""The timing gate on a CUDA device, on kernels whose ratio is known by construction."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest
from places import ROOT, TESTS

from gates.core.records import Status, told
from gates.gate.performance import judge as performance
from gates.gate.performance.collect import run_timing, run_timings
from gates.gate.performance.evidence import parse
from gates.gate.performance.reading import read

pytestmark = pytest.mark.gpu
DATA = TESTS / "data" / "timing"
LIMITS = {"shape": "wide", "min_speedup_pct": 15, "metrics": ["p50", "p90", "mean"], "max_std_us": 10}
BACKENDS = "\nSHAPES['longer'] = {'count': 512 * 128}\n\n\ndef backends(inputs, shape):\n    return {'torch copy': inputs['x'].clone}\n"
OUTPUTS = {"max_abs_err": 1e-6, "mean_abs_err": 1e-6, "bad_pct": 0.0, "bad_atol": 1e-6}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    folder = tmp_path_factory.mktemp("chain")
    root = ROOT
    problem = (root / "studies" / "timing" / "chaining.py").read_text(encoding="utf-8")
    (folder / "chaining.py").write_text(problem + BACKENDS, encoding="utf-8")
    made: dict[tuple[int, int], dict] = {}

    def side(steps: int, fault: int = 0) -> dict:
        if (steps, fault) not in made:
            library = folder / f"chain{steps}_{fault}.so"
            subprocess.run(
                [
                    nvcc,
                    "-shared",
                    "-Xcompiler",
                    "-fPIC",
                    "-O3",
                    "-arch=native",
                    f"-DSTEPS={steps}",
                    f"-DFAULT={fault}",
                    str(DATA / "chain.cu"),
                    "-o",
                    str(library),
                ],
                check=True,
            )
            made[steps, fault] = {
                "name": f"chain{steps}",
                "library": str(library),
                "entry": "launch_chain",
                "folder": str(folder),
                "problem": "chaining",
                "emulated": False,
            }
        return made[steps, fault]

    return side


def gate(tmp_path, candidate, baseline, bar=15.0, **options):
    raw = run_timing(candidate, baseline=baseline, shape="wide", work=tmp_path, limit_s=200, bar_pct=bar, output_limits=OUTPUTS, **options)
    evidence = parse(raw)
    result = performance.judge(evidence, {**LIMITS, "min_speedup_pct": bar})
    print(result.status.value, result.code, result.sentence, f"{evidence.process_s} s", raw["output_tail"][-500:])
    for block in evidence.outside or ():
        print(
            f"outside {block.side} {block.replays} x {block.launches}: {block.claimed_us:.0f} us claimed, {block.wall_us:.0f} us "
            f"passed, excess {block.excess_pct:.2f} %"
        )
    print("contradictions", [told(check) for check in result.checks if check.code in ("performance.inconsistent", "performance.host_busy")])
    return evidence, result


@pytest.mark.parametrize("steps", [2000, 40000])
@pytest.mark.parametrize(("factor", "status"), [(1.0, Status.FAIL), (1.30, Status.PASS)])
def test_a_known_ratio(built, tmp_path, steps, factor, status) -> None:
    evidence, result = gate(tmp_path, built(steps), built(int(steps * factor)))
    assert result.status is status, result
    assert evidence.clock_source == "nvml" or evidence.clock_source.startswith("unknown")
    assert evidence.backends["torch copy"].p50_us
    assert evidence.outside and all(
        any(block.agrees for block in evidence.outside if block.side == side) for side in ("candidate", "baseline")
    )
    ratio = read(evidence, "cold", float(LIMITS["min_speedup_pct"])).ruling.interval.ratio
    assert 1 + 0.7 * (factor - 1) - 0.01 <= ratio <= factor + 0.01  # the launch itself takes its share of a short kernel


def test_shapes_that_share_a_process_take_what_each_takes_in_its_own(built, tmp_path) -> None:
    """Also once another shape was timed in between; what the first one had on the card is given back."""
    options = {"baseline": built(3000), "limit_s": 200, "output_limits": OUTPUTS}
    together = [parse(raw) for raw in run_timings(built(2000), shapes={"wide": 15.0, "longer": 15.0}, work=tmp_path / "all", **options)]
    for one in together:
        alone = parse(run_timing(built(2000), shape=one.shape, bar_pct=15.0, work=tmp_path / one.shape, **options))
        ours, theirs = (found.figures["cold"]["candidate"].p50_us for found in (one, alone))
        print(one.shape, ours, theirs, one.process_s, alone.process_s, one.span, alone.span)
        result = performance.judge(one, {**LIMITS, "shape": one.shape})
        assert result.status is Status.PASS, result
        assert ours == pytest.approx(theirs, rel=0.05) and one.backends["torch copy"].p50_us and one.alone.series.samples("baseline")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (1, "performance.wrong_output"),
        (2, "performance.not_captured"),
        (3, "performance.launch_failed"),
        (6, "performance.wrong_output"),
        (10, "performance.wrong_output"),
    ],
)
def test_a_faulty_candidate_fails(built, tmp_path, fault, code) -> None:
    _, result = gate(tmp_path, built(2000, fault), built(4000))
    assert (result.status, result.code) == (Status.FAIL, code), result


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (7, Status.FAIL, "performance.tampered"),
        (8, Status.FAIL, "performance.tampered"),
        (9, Status.INCONCLUSIVE, "performance.inconsistent"),
    ],
    ids=["timer replaced", "code replaced", "times divided, nothing replaced"],
)
def test_a_library_that_changes_the_clock_is_refused(built, tmp_path, fault, status, code) -> None:
    """Two kernels of the same speed; the candidate's library rewrites the process that times it."""
    _, result = gate(tmp_path, built(4000, fault), built(4000))
    assert (result.status, result.code) == (status, code), result


def test_a_process_that_divides_one_side_s_times_is_refused(built, tmp_path, monkeypatch) -> None:
    """Claims of the candidate's pairs alone are divided, in the process that holds the kernels."""
    (tmp_path / "planted_hands.py").write_text(
        "from gates.gate.performance.runner import hands as timing_hands\n"
        "class Forging(timing_hands.Hands):\n"
        "    def do_block(self, **how):\n"
        "        times = super().do_block(**how)\n"
        "        return [time / 1.3 for time in times] if how['side'] == 'candidate' and how['mode'] == 'cold' else times\n"
        "def serve():\n"
        "    timing_hands.serve(Forging)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path) + os.pathsep + os.environ.get("PYTHONPATH", ""))
    _, result = gate(tmp_path / "work", built(4000), built(4000), hands="planted_hands")
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.inconsistent"), result


def test_a_launcher_that_waits_can_not_be_captured(built, tmp_path) -> None:
    _, result = gate(tmp_path, built(2000, 4), built(4000))
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.capture_failed"), result


def test_work_that_is_not_done_when_the_launch_is_over_is_no_pass(built, tmp_path) -> None:
    """Half of the work runs beside the capture, so it is missing from replays; a driver may also refuse the capture."""
    _, result = gate(tmp_path, built(2000, 5), built(4000))
    assert result.code in ("performance.wrong_output", "performance.not_captured", "performance.capture_failed"), result
    assert result.status in (Status.FAIL, Status.INCONCLUSIVE)


def test_the_same_kernel_twice_beside_a_loaded_card_is_no_gain(built, tmp_path) -> None:
    code = (
        "import torch; x = torch.randn(4096, 4096, device='cuda'); x @ x; torch.cuda.synchronize(); print('up', flush=True)\n"
        "while True:\n    for _ in range(50): x @ x\n    torch.cuda.synchronize()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline().strip() == "up"
        evidence, result = gate(tmp_path, built(2000), built(2000), bar=0.0)
        assert result.status in (Status.INCONCLUSIVE, Status.FAIL), result
        if evidence.other_processes:
            assert "performance.other_process" in {check.code for check in result.checks}
    finally:
        other.kill()
        other.wait()


def test_another_process_on_the_card_is_told(built, tmp_path) -> None:
    code = "import torch, time; x = torch.ones(1, device='cuda'); torch.cuda.synchronize(); print('up', flush=True); time.sleep(120)"
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline().strip() == "up"
        evidence, result = gate(tmp_path, built(2000), built(4000))
        if not evidence.other_processes:
            pytest.skip("the driver does not list other processes here")
        assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.other_process"), result
    finally:
        other.kill()
        other.wait()


def test_one_verdict_takes_seconds(built, tmp_path) -> None:
    started = time.monotonic()
    gate(tmp_path, built(2000), built(4000))
    assert time.monotonic() - started < 30


def test_the_baseline_alone_takes_what_it_takes_beside_the_candidate(built, tmp_path) -> None:
    evidence, result = gate(tmp_path, built(2000), built(4000))
    check = next(check for check in result.checks if check.name == "baseline_beside_over_alone")
    assert check.status is Status.PASS and 0.92 < check.observed < 1.08, result
    assert evidence.alone.series.samples("baseline"), evidence.alone


def test_a_candidate_that_slows_the_baseline_is_refused(built, tmp_path, monkeypatch) -> None:
    """Where the candidate is loaded too, the baseline's and the control's launches are made twice."""
    (tmp_path / "slowing_hands.py").write_text(
        "from gates.gate.performance.runner import hands as timing_hands\n"
        "class Slowing(timing_hands.Hands):\n"
        "    def do_open(self, **how):\n"
        "        found = super().do_open(**how)\n"
        "        for name in ('baseline', 'control') if 'candidate' in self._sides else ():\n"
        "            usual = self._sides[name].kernel\n"
        "            self._sides[name].kernel = lambda *given, usual=usual, **named: [usual(*given, **named) for _ in range(2)][-1]\n"
        "        return found\n"
        "def serve():\n"
        "    timing_hands.serve(Slowing)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path) + os.pathsep + os.environ.get("PYTHONPATH", ""))
    _, result = gate(tmp_path / "work", built(4000), built(4000), hands="slowing_hands")
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.inconsistent"), result
    assert "us alone" in result.sentence, result
