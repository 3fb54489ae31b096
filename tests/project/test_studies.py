"""Each program in studies/ runs from its command line to its file, on simulated or tiny data; on a device those that need one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cpu_device_defects
import cpu_device_speed
import cpu_kit
import kill_matrix
import numpy as np
import pytest
import record_conformance
import search_kills
import search_speed
import try_exploits
from click.testing import CliRunner
from conformance import items, library, stage_runs
from defects import matrix
from evolution_kit import BLOCKS, Bench, made_up, searched

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.evaluation.evolution.proposers import ByToggles
from gates.evaluation.overlay import Candidate

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
ATTACK = "replays_by_samples"
HEAD = {"started": "2026-01-01T00:00:00+00:00", "device": {"compute_capability": "9.0"}, "nvcc_version": "13.0", "monotonic_s": 0.0}


def run(program: Any, *arguments: str | Path, monkeypatch: pytest.MonkeyPatch) -> int | None:
    monkeypatch.setattr(sys, "argv", [program.__file__, *map(str, arguments)])
    return program.main()


def test_the_kill_matrix_by_simulated_gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def judge(trial: matrix.Trial, gate: str) -> None:
        status = "fail" if trial.defect and gate in trial.defect.cpu else "pass"
        trial.row["gates"][gate] = {"status": status, "code": f"{gate}.{status}", "codes": [f"{gate}.{status}"], "sentence": ""}

    monkeypatch.setattr(matrix.Trial, "judge", judge)
    monkeypatch.setattr(matrix.Trial, "prepare", lambda trial: setattr(trial, "session", "built"))
    out = tmp_path / "new" / "matrix.json"
    assert run(kill_matrix, "run", "--profile", "cpu", "--only", "all_zeros", "mix", "--out", out, monkeypatch=monkeypatch) == 0
    assert {row["name"] for row in jsonio.read(out)["rows"]} == {"all_zeros", "mix"} and "let through" in capsys.readouterr().out
    assert run(kill_matrix, "run", "--profile", "cpu", "--only", "no_such", "--out", out, monkeypatch=monkeypatch) == 2


def test_an_attack_in_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "new" / "exploits.json"
    assert run(try_exploits, "--profile", "cpu", "--jobs", "1", "--only", ATTACK, "--out", out, monkeypatch=monkeypatch) == 0
    (row,) = jsonio.read(out)["rows"]
    assert row["name"] == ATTACK and row["ok"] and row["status"] != "pass"


@needs_nvcc
def test_a_defect_on_the_cpu_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "defects.json"
    assert run(cpu_device_defects, "--only", "all_zeros", "mix", "--jobs", "1", "--out", out, monkeypatch=monkeypatch) == 0
    rows = jsonio.read(out)
    assert rows["all_zeros"]["seen"].startswith("numbers") and rows["mix"]["seen"] == ""


def test_the_speed_of_the_cpu_device(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("CTAS", "WARPS", "TURNS", "REPEATS"):
        monkeypatch.setattr(cpu_device_speed, name, 2)
    cpu_kit.device()  # the process has one, and an earlier test's kernel may have left it with an error
    assert run(cpu_device_speed, monkeypatch=monkeypatch) is None
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(cpu_device_speed.CLASSES) and all(float(line.split()[-1]) > 0 for line in lines[1:])


def test_a_recording_without_a_device_names_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> Path:
        raise GatesError("not here")

    monkeypatch.setattr(record_conformance, "_head", lambda: dict(HEAD))
    monkeypatch.setattr(library, "build_for_device", lambda *_: "no card")
    monkeypatch.setattr(library, "build_for_emulator", none)
    done = CliRunner().invoke(record_conformance.main, ["record", "--out", str(tmp_path / "conformance.json")])
    data = jsonio.read(tmp_path / "conformance.json")
    assert done.exit_code == 1 and data["failed"] == dict.fromkeys(items.ITEMS, "nvcc: no card"), done.output
    assert data["sources"].keys() == set(items.SOURCES) and data["elapsed_s"] > 0 and "not here" in done.output


class Built:
    """A build of which the sides are names."""

    def side(self, task: Any, kind: str) -> dict[str, Any]:
        return {"name": task.name, "kind": kind}


def ran(side: dict[str, Any], shape: str, seed: int, *_: Any) -> stage_runs.Ran:
    """A stage whose outputs are ones, exact; on the device the last one of stage4_mma is off."""
    values = np.ones(1000, np.float16)
    values[-1] += 0.5 if side["kind"] == "device" and side["name"] == "stage4_mma" else 0.0
    return stage_runs.Ran(values.view(np.uint16), np.ones(1000), f"{shape}{seed}")


def test_stages_that_agree_and_one_that_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_conformance, "_head", lambda: dict(HEAD))
    monkeypatch.setattr(record_conformance, "build", lambda *_, **__: Built())
    monkeypatch.setattr(stage_runs, "emulate", ran)
    monkeypatch.setattr(stage_runs, "on_device", ran)
    done = CliRunner().invoke(record_conformance.main, ["stages", "--shapes", "small", "--out", str(tmp_path)])
    cases = jsonio.read(tmp_path / "stages.json")["cases"]
    assert done.exit_code == 1 and "0 failed" in done.output and len(cases) == 5 * 3, done.output
    assert {name.split()[0] for name, case in cases.items() if not case["agrees"]} == {"stage4_mma"}


def test_the_speed_of_a_search_with_made_up_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is real but for its evaluations; `gates run` fails, which is told and stops nothing."""
    answer = made_up("blocks", Candidate({}), 1.0, stage="numbers", score=None)
    memory = replace(answer.gates[0], gate="sanitizer", seconds=0.25)

    def gates(study: search_speed.Study, *command: str, codes: Any) -> tuple[float, str]:
        if command[0] == "evolve":
            bench = Bench(lambda _, toggles: toggles["BLOCK"] / 128)
            searched(monkeypatch, study.work, bench, ByToggles({"BLOCK": (64, 256)}), evaluations=3)
        if command[0] == "run":
            raise RuntimeError("no card")
        return 2.0, json.dumps({"feedback": "", "seconds": {"compile": 1.0}, "gates": [vars(memory)]}) if command[
            0
        ] == "evaluate" else "sound"

    class Answers:
        def __init__(self, *_: Any) -> None:
            pass

        def __enter__(self) -> Answers:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def map(self, candidates: Any) -> list[Any]:
            return [replace(answer, gates=(memory,)) for one in candidates if "// candidate" in one["files"]["blocks.cu"]]

    monkeypatch.setattr(search_speed.Study, "_gates", gates)
    monkeypatch.setattr(search_speed, "Evaluator", Answers)
    done = CliRunner().invoke(search_speed.main, ["--out", str(tmp_path / "new"), "--task", str(BLOCKS), "--profile", "cpu"])
    data = jsonio.read(tmp_path / "new" / "figures.json")
    rows = {row["measure"]: row["value"] for row in data["rows"]}
    assert done.exit_code == 0 and data["left_out"] == ["whole_run: no card"] and data["verified"] == ["sound"], done.output
    assert rows["a candidate judged whole, one process"] == 2.0 and rows["the same without memory checks"] == 1.75
    assert data["champion"] == {"toggles": {"BLOCK": 256}, "decision": "hold"} and len(data["packed_bytes"]) == 1


class MadeUpServer(ThreadingHTTPServer):
    """A server of candidates that keeps a folder per answer; ``fault``: it does so for the first one twice, or calls all of them right."""

    daemon_threads = True

    def __init__(self, results: Path, fault: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["files"]["kernel.py"]
                wrong, name = "+ 1" in text and fault != "all right", hashlib.sha256(text.encode()).hexdigest()[:24]
                for copy in range(1 + (fault == "twice" and text.endswith(" 0\n"))):
                    (results / "evaluations" / "gelu_eager" / f"{name}{'b' * copy}").mkdir(parents=True, exist_ok=True)
                data = json.dumps({"result": {"id": name, "status": "fail" if wrong else "pass"}}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.address, self.kills = f"http://127.0.0.1:{self.server_address[1]}", 0
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def begin(self) -> None:
        """It goes on."""

    def kill(self) -> None:
        """It does not die, but counts."""
        self.kills += 1


@pytest.mark.parametrize(
    ("fault", "found"), [("", {}), ("twice", {"counted_twice": 1}), ("all right", {"misjudged": [0, 10]}), ("unsound", {"unsound": 12})]
)
def test_a_search_whose_server_is_killed(fault: str, found: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts, with a server that only counts its deaths."""

    @contextlib.contextmanager
    def no_cluster(*_: Any) -> Any:
        yield SimpleNamespace(client=SimpleNamespace(scheduler=SimpleNamespace(address="")))

    monkeypatch.setattr(search_kills, "local_cluster", no_cluster)
    monkeypatch.setattr(search_kills, "Server", lambda results, _: MadeUpServer(results, fault))
    monkeypatch.setattr(search_kills, "verify_evaluation", lambda path: ["broken"] if fault == "unsound" else [])
    out = tmp_path / "new" / "kills.json"
    done = CliRunner().invoke(search_kills.main, ["--out", str(out), "--candidates", "12", "--kills", "1"])
    data = jsonio.read(out)
    assert done.exit_code == bool(fault) and data["killed"] == {"server": 1, "worker": 0} and data["lost"] == 0, done.output
    assert {**data, "unsound": len(data["unsound"])} == {**data, "unsound": 0, "counted_twice": 0, "misjudged": [], **found}


@pytest.mark.gpu
def test_the_kill_matrix_on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "matrix.json"
    assert run(kill_matrix, "run", "--profile", "full", "--only", "all_zeros", "--out", out, monkeypatch=monkeypatch) == 0
    assert jsonio.read(out)["rows"][0]["gates"]["correctness"]["status"] == "fail"


@pytest.mark.gpu
def test_an_attack_on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "exploits.json"
    assert run(try_exploits, "--profile", "full", "--jobs", "1", "--only", ATTACK, "--out", out, monkeypatch=monkeypatch) == 0


@pytest.mark.gpu
def test_the_items_of_one_source_are_recorded_on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = items.SOURCES[0]
    kept = {name: item for name, item in items.ITEMS.items() if item.source == source}
    monkeypatch.setattr(record_conformance, "SOURCES", (source,))
    monkeypatch.setattr(record_conformance, "ITEMS", kept)
    done = CliRunner().invoke(record_conformance.main, ["record", "--out", str(tmp_path / "conformance.json")])
    assert done.exit_code == 0 and jsonio.read(tmp_path / "conformance.json")["items"].keys() == kept.keys(), done.output
