"""Profiling with a stand-in for ncu: what it may print, leave or withhold."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from ncu_stub import ENTRY, csv, profiling, stub, task

from gates.core.errors import GatesError
from gates.core.records import Status
from gates.gate.ncu import collect as ncu
from gates.gate.ncu import judge
from gates.gate.ncu import report as ncu_report
from gates.gate.ncu.codes import CODES
from gates.gate.ncu.evidence import parse
from gates.worker.turn import Turn

LIMITS = {"rises": ["tensor_pipe"], "steady": {"dram_bytes_pct": 10}}
GOOD = csv({"tensor_pipe": "21.5", "dram_bytes": "1,980,000"})
BASE = csv({"tensor_pipe": "9.5", "dram_bytes": "1,980,000"})


@pytest.fixture(autouse=True)
def no_report_reader(monkeypatch, engine_entry) -> None:
    engine_entry(ENTRY)
    monkeypatch.setattr(ncu.importlib.util, "find_spec", lambda name: None)


def profile(tmp_path: Path, body: str, *, baseline: bool = True, chip: str = "sm_90", limit_s: float = 20.0, kernels=("sdpa_kernel",)):
    tool = stub(tmp_path / "bin", body)
    raw = ncu.run_ncu(
        task(tmp_path / "new"),
        kernels,
        shape="mission",
        chip=chip,
        work=tmp_path / "work",
        limit_s=limit_s,
        ncu=tool,
        baseline=task(tmp_path / "old", "old") if baseline else None,
        baseline_kernels=kernels,
    )
    return parse(raw)


def both(new: str = GOOD, old: str = BASE) -> str:
    return f"launch()\nreport.write_text({new!r} if report.stem == 'profile' else {old!r})\n"


def test_both_sides_are_profiled_and_judged(tmp_path) -> None:
    evidence = profile(tmp_path, both())
    assert evidence.version == "2025.3.1.0"
    result = judge.judge(evidence, LIMITS)
    assert result.status is Status.PASS, result.sentence
    assert (tmp_path / "work" / "profile.ncu-rep").is_file()


def test_profilers_start_while_the_device_is_another_s_and_their_kernels_run_in_turn(tmp_path) -> None:
    tell = "def tell(what):\n    with open('told', 'a') as file: file.write(f'{what} {report.stem}\\n')\n"
    tool = stub(tmp_path / "bin", f"{tell}tell('starts'); launch(); tell('ends')\nreport.write_text({GOOD!r})")
    new, old, told = task(tmp_path / "new"), task(tmp_path / "old", "old"), tmp_path / "work" / "told"
    how = {"shape": "mission", "chip": "sm_90", "work": tmp_path / "work", "limit_s": 20, "ncu": tool}

    def lines() -> list[str]:
        return told.read_text().splitlines() if told.exists() else []

    def come() -> None:
        end = time.monotonic() + 10
        while not (turn.is_awaited and len(lines()) == 2) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
        before.extend(lines())
        turn.come()

    before = list[str]()
    with Turn(tmp_path / "turn") as turn, ThreadPoolExecutor() as aside:
        aside.submit(come)
        raw = ncu.run_ncu(new, ["k"], **how, baseline=old, baseline_kernels=["k"], turn=turn)
    assert sorted(before) == ["starts baseline", "starts profile"]
    assert sorted(lines()[2:4]) == ["device_turn baseline", "device_turn profile"], "a context is made in nobody's profile"
    assert lines()[4:] == ["turn profile", "ends profile", "turn baseline", "ends baseline"]
    assert [raw["sides"][role]["report"] is not None for role in ("candidate", "baseline")] == [True, True]


def test_a_baseline_that_never_has_a_context_holds_nobody_back(tmp_path) -> None:
    body = f"time.sleep(60) if report.stem == 'baseline' else launch()\nreport.write_text({GOOD!r})"
    evidence = profile(tmp_path, body, limit_s=1.0)
    assert evidence.sides["candidate"].code == "" and evidence.sides["baseline"].code == "ncu.time_limit"


@pytest.mark.parametrize(("arguments", "expected"), [(["q", "out"], ["new"]), (["out", "q"], ["new", "old"])], ids=["the same", "other"])
def test_sides_that_are_called_with_the_same_arguments_share_a_case(tmp_path, monkeypatch, arguments, expected) -> None:
    asked: list[str] = []
    monkeypatch.setattr(ncu, "write_cases", lambda side, *_, **__: asked.append(side["name"]) or [{"path": "a.case"}])
    new, old = ({**task(tmp_path / name, name), "arguments": of} for name, of in (("new", ["q", "out"]), ("old", arguments)))
    tool = stub(tmp_path / "bin", both())
    ncu.run_ncu(
        new, ["k"], shape="mission", chip="sm_90", work=tmp_path / "work", limit_s=20, ncu=tool, baseline=old, baseline_kernels=["k"]
    )
    assert asked == expected


def test_arguments_leave_the_clocks_alone_and_name_the_kernel_exactly(tmp_path) -> None:
    given = ncu.arguments("ncu", ["k"], ["a", "b"], tmp_path / "profile", tmp_path / "log")
    assert given[given.index("--clock-control") + 1] == "none"
    assert given[given.index("--kernel-name") + 1] == "k"
    assert given[given.index("--profile-from-start") + 1] == "off"
    two = ncu.arguments("ncu", ["k", "l"], ["a"], tmp_path / "profile", tmp_path / "log")
    assert two[two.index("--kernel-name") + 1] == "regex:^(k|l)$"


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        (
            "launch(); print('==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'); sys.exit(0)",
            "ncu.no_permission",
            Status.NOT_RUN,
        ),
        ("launch(); print('==ERROR== ERR_NVGPUCTRPERM - no'); sys.exit(1)", "ncu.no_permission", Status.NOT_RUN),
        ("launch(); log.write_text('==WARNING== No kernels were profiled.')", "ncu.no_kernel", Status.NOT_RUN),
        ("time.sleep(0.2); print('==ERROR== driver resource was unavailable'); sys.exit(9)", "ncu.counters_taken", Status.NOT_RUN),
        ("time.sleep(60)", "ncu.time_limit", Status.NOT_RUN),
        ("print('==ERROR== something new'); launch(); sys.exit(9)", "ncu.failed", Status.NOT_RUN),
        ("report.write_text('x')", "ncu.not_launched", Status.INCONCLUSIVE),
        ("print('ncu: unrecognised option --cache-control'); print('usage: ncu [options]'); sys.exit(1)", "ncu.failed", Status.NOT_RUN),
        ("import os; os.kill(os.getpid(), 9)", "ncu.failed", Status.NOT_RUN),
        ("launch(); report.write_text('garbage')", "ncu.unreadable", Status.INCONCLUSIVE),
        (profiling(csv({}, kernel="at::fill(int)")), "ncu.no_kernel", Status.NOT_RUN),
        (profiling(csv({}, rows=2)), "ncu.ambiguous_kernel", Status.INCONCLUSIVE),
        (profiling(csv({}, rows=0)), "ncu.no_kernel", Status.NOT_RUN),
    ],
)
def test_what_yields_no_counters_is_no_pass(tmp_path, body, code, status) -> None:
    evidence = profile(tmp_path, body, baseline=False, limit_s=2.0 if "60" in body else 20.0)
    result = judge.judge(evidence, LIMITS)
    assert (result.status, result.code) == (status, code), result.sentence
    assert CODES[code].explanation in result.sentence


def test_no_tool_and_unknown_chip(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    raw = ncu.run_ncu(task(tmp_path / "new"), ["k"], shape="mission", chip="sm_90", work=tmp_path / "w", limit_s=5)
    assert judge.judge(parse(raw), LIMITS).code == "ncu.no_tool"
    result = judge.judge(profile(tmp_path, "pass", chip="gb999"), LIMITS)
    assert (result.status, result.code) == (Status.NOT_RUN, "ncu.unknown_chip")
    assert "gb999" in result.sentence and "sm_90" in result.sentence


def test_a_metric_that_ncu_does_not_know_leaves_the_others_judged(tmp_path) -> None:
    body = (
        "if any('gmma' in name for name in metrics):\n"
        "    print('==ERROR== Failed to find metric sm__inst_executed_pipe_tensor_op_gmma.sum'); sys.exit(1)\n" + both()
    )
    evidence = profile(tmp_path, body)
    assert judge.judge(evidence, LIMITS).status is Status.PASS
    result = judge.judge(evidence, {**LIMITS, "min": {"tensor_gmma": 1}})
    absent = next(check for check in result.checks if check.name == "tensor_gmma")
    assert (absent.status, absent.code) == (Status.NOT_RUN, "ncu.absent")
    assert result.status is not Status.FAIL


def test_a_stage_with_an_absent_counter_alone_is_not_run(tmp_path) -> None:
    result = judge.judge(profile(tmp_path, both(csv({"tensor_pipe": "n/a"}))), {"rises": ["tensor_pipe"]})
    assert (result.status, result.code) == (Status.NOT_RUN, "ncu.absent")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1,980,000", 1980000.0), ("1e+06", 1e6), ("21.5", 21.5), ("-3", -3.0), ("n/a", None), ("", None), ("nan", None), ("1e999", None)],
)
def test_numbers_as_ncu_writes_them(text, expected) -> None:
    assert ncu_report.number(text) == expected


@pytest.mark.parametrize("text", ["5.713.107", "1,5", "1.420,5", "12,34,567", "--1", "1 000", "0x10", "٣"])
def test_numbers_of_another_locale_are_refused(text) -> None:
    with pytest.raises(GatesError, match="not a number"):
        ncu_report.number(text)
    assert ncu_report.cell(text, "byte").value is None


def test_the_units_row_is_no_kernel_and_scales() -> None:
    text = '==PROF== x\n"ID","Kernel Name","a","b"\n"","","%","Kbyte"\n"0","k","1.5","2"\n==PROF== y\n'
    (row,) = ncu_report.read_csv(text, ["a", "b", "c"])
    assert (row.cells["a"].value, row.cells["a"].unit) == (1.5, "%")
    assert (row.cells["b"].value, row.cells["b"].unit) == (2000.0, "byte")
    assert row.cells["c"].reason == "not in the report"


def test_the_wanted_launch_is_selected_and_never_silently_the_first() -> None:
    names = ["void k<64>(float *)", "void k<(int)128>(float *)"] * 3
    rows = [ncu_report.Row(name, number + 1, {}) for number, name in enumerate(names)]
    assert ncu_report.select(rows, "k<128>", 2).number == 4
    for kernel, launch in (("k", None), ("k<128>", None), ("k<32>", None), ("k<128>", 4), ("k<128>", 0)):
        with pytest.raises(GatesError):
            ncu_report.select(rows, kernel, launch)
    with pytest.raises(GatesError, match="was not profiled"):
        ncu_report.select([], "k")


@pytest.mark.parametrize(
    ("full", "base"),
    [("k", "k"), ("void ns::k<a::b<int>, 3>(c<int>, float *)", "k"), ("(anonymous namespace)::k(int)", "k"), ("", "")],
)
def test_base_names(full, base) -> None:
    assert ncu_report.base_name(full) == base


class _Report:
    """The shape of the ncu_report module, holding one action."""

    def __init__(self, values) -> None:
        metrics = {name: SimpleNamespace(value=lambda v=v: v, unit=lambda u=u: u) for name, (v, u) in values.items()}
        action = SimpleNamespace(NameBase_DEMANGLED=1, name=lambda base: "void k<2>(int)", metric_by_name=metrics.get)
        profiled = SimpleNamespace(num_actions=lambda: 1, action_by_idx=lambda index: action)
        self._context = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda index: profiled)

    def load_report(self, path):
        return self._context


def test_reports_are_read_through_the_reader() -> None:
    library = _Report({"a": (21.5, "%"), "b": (float("nan"), "byte"), "c": ("x", ""), "d": (True, "")})
    (row,) = ncu_report.read_report(Path("x.ncu-rep"), ["a", "b", "c", "d", "e"], library)
    assert ncu_report.base_name(row.kernel) == "k"
    assert row.cells["a"].value == 21.5
    assert [row.cells[name].value for name in "bcde"] == [None] * 4 and all(row.cells[name].reason for name in "bcde")


def test_a_damaged_report_is_a_clear_error(tmp_path) -> None:
    pytest.importorskip("ncu_report")
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"\0garbage")
    with pytest.raises(GatesError, match="can't read"):
        ncu_report.read_report(path, ["a"])
