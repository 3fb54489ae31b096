"""The size gate: what is counted, the defects that must turn it red, honest kernels beside them, and a run that has it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import command_kit
import pytest
from conftest import OnceASession
from places import TASKS
from runs_kit import sign
from static_kit import make_task

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core.errors import GatesError
from gates.core.records import Status, from_json, to_json
from gates.evidence.run_directory import RunInfo, read_record
from gates.gate.policy import Terms, looser
from gates.gate.size.evidence import Binary, SizeEvidence, gather, loaded_bytes
from gates.gate.size.judge import judge
from gates.gate.size.planted import cubin
from gates.gate.size.soundness import contradictions
from gates.gate.size.step import measured
from gates.task.load import load_task
from gates.verify.run import verify_run

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
SUM = """extern "C" __global__ void k(float* x, int n) {
    float s = 0;
#pragma unroll %s
    for (int i = 0; i < 64; ++i) s += x[i * n + threadIdx.x] * x[i];
    x[threadIdx.x] = s;
}
"""


def of(*sizes: int, archs: tuple[str, ...] = ("sm_89", "sm_90")) -> SizeEvidence:
    return SizeEvidence(archs, tuple(Binary(f"{arch}/k.cubin", arch, size, "0" * 64) for arch, size in zip(archs, sizes, strict=False)))


def test_what_a_device_loads_is_counted() -> None:
    assert loaded_bytes(cubin(640)) == loaded_bytes(cubin(640, debug=10**5)) == 640


@pytest.mark.parametrize("data", [b"", b"\x7fELF", cubin(640)[:-1], cubin(640)[:700], b"\x7fELF\x01" + cubin(64)[5:], b"x" * 4096])
def test_what_is_no_cubin_is_no_size(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(GatesError, match=r"ELF"):
        loaded_bytes(data)
    (tmp_path / "k.cubin").write_bytes(data)
    result = judge(gather(("sm_90",), {"sm_90": [("k.cubin", tmp_path / "k.cubin", "")]}), {"max_bytes": 10**6})
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "size.unreadable")


@pytest.mark.parametrize(
    ("seen", "before", "limits", "status", "code"),
    [
        ((4096, 4000), None, {"max_bytes": 4096}, Status.PASS, "size.pass"),
        ((4096, 4097), None, {"max_bytes": 4096}, Status.FAIL, "size.too_large"),
        ((2200, 1000), (2000, 1000), {"max_growth_pct": 10}, Status.PASS, "size.pass"),
        ((2200, 1101), (2000, 1000), {"max_growth_pct": 10}, Status.FAIL, "size.grew"),
        ((1001, 1000), (1000, 1000), {"max_growth_pct": 0}, Status.FAIL, "size.grew"),
        ((1000, 900), (1000, 1000), {"max_growth_pct": 0}, Status.PASS, "size.pass"),
        ((4097, 1000), (1000, 1000), {"max_bytes": 4096, "max_growth_pct": 10}, Status.FAIL, "size.too_large"),
        ((1000, 1000), None, {"max_growth_pct": 10}, Status.INCONCLUSIVE, "size.no_baseline"),
        ((1000, 1000), (1000,), {"max_growth_pct": 10}, Status.INCONCLUSIVE, "size.no_baseline"),
        ((1000,), (1000, 1000), {"max_growth_pct": 10}, Status.NOT_RUN, "size.no_binary"),
        ((1000, 1000), (1000, 1000), {}, Status.INCONCLUSIVE, "size.no_limits"),
    ],
)
def test_limits(seen, before, limits, status: Status, code: str) -> None:
    result = judge(of(*seen), limits, of(*before) if before else None)
    assert (result.status, result.code) == (status, code), result


def test_a_cubin_that_is_gone_is_said(tmp_path: Path) -> None:
    assert gather(("sm_90",), {"sm_90": [("k.cubin", tmp_path / "none", "")]}).problems == ("k.cubin: No such file or directory",)


def test_figures_and_words_of_a_verdict() -> None:
    result = judge(of(2200, 1101), {"max_bytes": 2200, "max_growth_pct": 10}, of(2000, 1000))
    told = [(check.name, check.observed, check.limit, check.unit, check.where, check.hint[:20]) for check in result.checks]
    assert told == [
        ("bytes", 2200, 2200, "bytes", "sm_89", ""),
        ("growth", 10.0, 10, "%", "sm_89", "2,000 -> 2,200 bytes"),
        ("bytes", 1101, 2200, "bytes", "sm_90", ""),
        ("growth", pytest.approx(10.1), 10, "%", "sm_90", "1,000 -> 1,101 bytes"),
    ]
    assert judge(of(2200, 1101), {"max_bytes": 2200}).sentence.endswith("limits: 2,200 bytes on sm_89, 1,101 bytes on sm_90")
    assert of(1).schema_version == 1 and of(7).of("sm_89") == 7 and of(7).of("sm_90") is None


def test_the_last_loaded_section_must_be_whole() -> None:
    whole = bytearray(cubin(640))
    start, size, count = (int.from_bytes(whole[at : at + width], "little") for at, width in ((40, 8), (58, 2), (60, 2)))
    for number in range(count):
        header = start + size * number
        kind, flags = (int.from_bytes(whole[at : at + width], "little") for at, width in ((header + 4, 4), (header + 8, 8)))
        length = int.from_bytes(whole[header + 32 : header + 40], "little")
        if flags & 2 and kind != 8 and length:
            whole[header + 24 : header + 32] = (len(whole) - length).to_bytes(8, "little")  # up to the very end
            assert loaded_bytes(bytes(whole)) == 640
            whole[header + 24 : header + 32] = (len(whole) - length + 1).to_bytes(8, "little")
            with pytest.raises(GatesError, match="cut short"):
                loaded_bytes(bytes(whole))
            return
    raise AssertionError("no section that is loaded")


def test_the_cubins_of_an_architecture_count_together() -> None:
    two = SizeEvidence(("sm_90",), (Binary("a", "sm_90", 600, ""), Binary("b", "sm_90", 500, "")))
    assert judge(two, {"max_bytes": 1100}).status is Status.PASS and judge(two, {"max_bytes": 1099}).status is Status.FAIL
    assert from_json(SizeEvidence, json.loads(json.dumps(to_json(two))), "size.json") == two


def test_a_looser_limit_is_a_looser_term() -> None:
    def terms(limits: dict) -> Terms:
        return Terms({"size": limits} if limits else {}, {}, (), (), ())

    strict = terms({"max_bytes": 4096, "max_growth_pct": 10})
    assert looser(strict, strict) == () and looser(terms({"max_bytes": 4000, "max_growth_pct": 10}), strict) == ()
    assert looser(terms({"max_bytes": 5000, "max_growth_pct": 10}), strict) == ("size.max_bytes: 4096 -> 5000",)
    assert looser(terms({}), strict) == ("size.max_bytes: 4096 dropped", "size.max_growth_pct: 10 dropped")


def test_contradictions() -> None:
    assert list(contradictions(of(1, 2))) == []
    twice = SizeEvidence(("sm_90",), (Binary("a", "sm_90", 1, ""), Binary("a", "sm_80", 1, "")))
    assert list(contradictions(twice)) == ["a binary appears twice", "it has binaries of sm_80, which were not asked for"]


@pytest.fixture(scope="module")
def built(kept: OnceASession) -> dict[str, SizeEvidence]:
    """A kernel whose loop is rolled, unrolled, and rolled in a folder with a long name."""
    root, found = kept("size", lambda folder: None), {}
    for name, factor in (("rolled", "1"), ("unrolled", "64"), ("rolled_" + "in_a_folder_with_a_long_name_" * 4, "1")):
        folder = root / name
        folder.mkdir(exist_ok=True)
        task = make_task(folder, SUM % factor, arch=("sm_90",), nvcc_flags=())
        found[name[:9]] = measured(build(task, find_toolchain(), folder / "build", want={"cubin"}))
    return found


@needs_nvcc
def test_a_loop_unrolled_too_far_is_refused_and_its_neighbour_passes(built) -> None:
    limits = {"max_growth_pct": 10}
    grown = judge(built["unrolled"], limits, built["rolled"])
    assert (grown.status, grown.code) == (Status.FAIL, "size.grew") and "unrolled too far" in grown.checks[-1].hint
    assert judge(built["rolled_in"], {"max_growth_pct": 0}, built["rolled"]).status is Status.PASS  # line tables are longer, code is not
    assert judge(built["rolled"], limits, built["unrolled"]).status is Status.PASS


@needs_nvcc
def test_a_run_has_the_gate_that_its_task_names(tmp_path: Path) -> None:
    shutil.copytree(TASKS, tmp_path / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "tasks" / "saxpy_fast" / "task.yaml"
    text = path.read_text().replace("[sm_89, sm_90]", "[sm_90]").replace("[small, mission]", "[small]").replace("[0, 1, 2]", "[0]")
    path.write_text(text.replace("shape: mission", "shape: small").replace("  ptxas:", "  size: {max_bytes: 65536}\n  ptxas:"))
    assert "size" in load_task(path.parent).gates and "size" not in load_task(tmp_path / "tasks" / "saxpy_slow").gates
    done = command_kit.gates("run", "tasks/saxpy_fast", "--profile", "cpu", cwd=tmp_path)
    (run,) = (tmp_path / "results" / "saxpy_fast").glob("*")
    info: RunInfo = read_record(RunInfo, run, "run.json")
    assert done.returncode == 0 and info.asked_gates == ("ptxas", "sass", "size", "correctness", "sanitizer"), done.stderr
    assert "size         pass          compiled code within its limits" in done.stdout
    assert verify_run(run) == [] and (run / "baseline" / "size.json").is_file()
    evidence = json.loads((run / "size.json").read_text())
    evidence["binaries"][0]["sha256"] = "0" * 64
    (run / "size.json").write_text(json.dumps(evidence))
    sign(run)
    assert [text for text in verify_run(run) if "is not the product that run.json names" in text]
