"""Each program in studies/ runs from its command line to its file, on simulated or tiny data; on a device those that need one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attention_speed
import cpu_device_defects
import cpu_device_speed
import cpu_kit
import kill_matrix
import numpy as np
import pytest
import record_conformance
import search_kills
import search_speed
import torch
import try_exploits
import two_cards
from click.testing import CliRunner
from conformance import items, library, stage_runs
from defects import matrix
from evolution_kit import BLOCKS, Bench, made_up, searched
from places import ROOT
from sweep_kit import DEVICE

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.evaluation.evolution.proposers import ByToggles
from gates.evaluation.overlay import Candidate
from gates.evidence.packed_runs import opened

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


def test_the_speed_of_the_cpu_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("CTAS", "WARPS", "TURNS", "REPEATS"):
        monkeypatch.setattr(cpu_device_speed, name, 2)
    cpu_kit.device()  # the process has one, and an earlier test's kernel may have left it with an error
    out = tmp_path / "speed.json"
    assert run(cpu_device_speed, "--out", out, monkeypatch=monkeypatch) is None
    lines, classes = capsys.readouterr().out.splitlines(), [name for group in cpu_device_speed.CLASSES.values() for name in group]
    assert [name for rates in jsonio.read(out)["million_a_second"].values() for name in rates] == classes
    assert len(lines) == 1 + len(classes) and all(float(line.split()[-1]) > 0 for line in lines[1:])


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
    stages = {path.parent.name for path in ROOT.glob("tasks/stage*/task.yaml")}
    assert done.exit_code == 1 and "0 failed" in done.output and len(cases) == len(stages) * 3, done.output
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
    assert rows["a candidate judged whole, one process"] == 2.0 and rows["the same without the wait for memory checks"] == 1.75
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


class TwoCards:
    """Made-up workers of two cards, in a process that judges at once; ``fault``: what goes wrong."""

    def __init__(self, fault: str) -> None:
        self.fault, self.killed, self.number = fault, list[int](), 0
        self.sweep = jsonio.read(opened(two_cards.RECORDED) / "sweep.json")
        self.client = SimpleNamespace(scheduler=SimpleNamespace(address=""), processing=lambda: {"a": ("job",)}, run=self.run)

    def run(self, function: Any) -> dict[str, Any]:
        return {"a": (4711, CARDS[1].uuid)}

    @contextlib.contextmanager
    def cluster(self, *_: Any) -> Any:
        yield self

    def swept(self, command: Any, env: Any, **_: Any) -> Any:
        """A recorded sweep in the place that the command names, and one timing of it."""
        assert "shape: mission" in (Path(command[4]) / "task.yaml").read_text(encoding="utf-8")
        place = Path(command[command.index("--results") + 1]) / "sweeps" / "fp16_v8_tiles" / "sweep"
        place.mkdir(parents=True)
        data = dict(self.sweep)
        if self.fault == "winner" and "," in env["CUDA_VISIBLE_DEVICES"]:
            data["winner"] = data["variants"][1]["name"]
        (place / "sweep.json").write_text(json.dumps({**data, "variants": data["variants"][:2], "run": None}))
        self.timed(place / "variants" / "a" / "performance.round1.json")
        return SimpleNamespace(returncode=0)

    def timed(self, path: Path) -> None:
        """A timing of ten seconds, eleven after the one before, or nine."""
        self.number += 1
        apart = 9 if self.fault == "overlaps" else 11
        began = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=apart * self.number)
        span = {"began": began.isoformat(), "ended": (began + timedelta(seconds=10)).isoformat()}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"status": "measured", "device": {"uuid": CARDS[0].uuid}, "span": span}))

    def evaluator(self, task: str, terms: Any, *_: Any) -> Any:
        @contextlib.contextmanager
        def entered() -> Any:
            yield SimpleNamespace(submit=lambda candidate: self.judged(candidate, terms.results / "evaluations" / "fp16_v8_tiles"))

        return entered()

    def judged(self, candidate: Candidate, kept: Path) -> Future[Any]:
        number, future = int(candidate.name.rpartition(" ")[2]), Future[Any]()
        code = two_cards.KINDS[number % len(two_cards.KINDS)]
        right = code.endswith(".pass")
        answer = made_up("fp16_v8_tiles", candidate, 1.0 if right or self.fault == "misjudged" else None, stage="speed", score=None)
        name = f"{number if self.fault != 'judged_twice' or number else 1:024}"
        for one in [name, *(["extra"] if self.fault == "unasked" else [])]:
            (kept / one).mkdir(parents=True, exist_ok=True)
            (kept / one / "evaluation.json").write_text("{}")
        if right:
            self.timed(kept / name / "performance.json")
        if self.fault == "lost" and not number:
            future.set_exception(GatesError("workers died"))
        else:
            future.set_result(replace(answer, id=name, **({} if right or self.fault == "misjudged" else {"code": code})))
        return future


CARDS = tuple(replace(DEVICE, index=number, uuid=f"GPU-{number}") for number in range(2))


@pytest.mark.parametrize("fault", ["", "slow", "winner", "lost", "judged_twice", "unasked", "misjudged", "unsound", "overlaps"])
def test_two_cards_that_are_made_up(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = TwoCards(fault)
    monkeypatch.setattr(two_cards, "probe", lambda: SimpleNamespace(devices=CARDS))
    monkeypatch.setattr(two_cards, "local_cluster", made.cluster)
    monkeypatch.setattr(two_cards, "Evaluator", made.evaluator)
    monkeypatch.setattr(two_cards.subprocess, "run", made.swept)
    monkeypatch.setattr(two_cards.os, "kill", lambda pid, _: made.killed.append(pid))
    monkeypatch.setattr(two_cards, "verify_evaluation", lambda path: ["broken"] if fault == "unsound" else [])
    monkeypatch.setattr(two_cards, "GOAL", 1e9 if fault == "slow" else 0.0)
    done = CliRunner().invoke(two_cards.main, ["--out", str(tmp_path / "new"), "--candidates", "14", "--killed", "7"])
    data, told = jsonio.read(tmp_path / "new" / "figures.json"), "times as fast" if fault == "slow" else fault
    assert done.exit_code == bool(fault) and made.killed == [4711], done.output
    assert not fault or any(told in line for line in done.output.splitlines() if "not as it should be" in line), done.output
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"figures.json", "one-sweep.zip", "two-sweep.zip"}
    assert data["evaluations"]["two"]["candidates"] == 14 and data["evaluations"]["two"]["timings"] == 2, data


def test_one_card_is_too_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_cards, "probe", lambda: SimpleNamespace(devices=CARDS[:1]))
    done = CliRunner().invoke(two_cards.main, ["--out", str(tmp_path)])
    assert done.exit_code == 1 and "two cards are needed, there are 1" in done.output


def attends(stage: attention_speed.Stage, inputs: attention_speed.Inputs, _: bool) -> Any:
    """A stage by its name: "right", "wrong", "writes nothing", "raises", "crashes" or "hangs", all but the first on causal shapes alone."""

    def call(number: int) -> torch.Tensor:
        out = attention_speed._backend("flash", inputs, True)(number)
        if not inputs.causal or stage.name == "right":
            return out
        if stage.name == "wrong":
            return out + 0.1
        if stage.name == "writes nothing":
            return inputs.out[number]
        if stage.name == "crashes":
            os._exit(9)
        if stage.name == "hangs":
            time.sleep(60)
        raise RuntimeError("not today")

    return call


def test_attention_of_stages_that_fail_each_in_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("hangs", "right", "crashes", "wrong", "raises", "writes nothing")
    monkeypatch.setattr(attention_speed, "built", lambda stages, *_: [attention_speed.Stage(name, tmp_path) for name in stages])
    monkeypatch.setattr(attention_speed, "_ours", attends)
    monkeypatch.setattr(attention_speed, "BEGINS_S", 1.5)
    out = tmp_path / "new" / "attention.json"
    shapes = ("1,2,9,17,64,0", "1,2,9,17,64,1", "small")
    asked = [word for name in names for word in ("--stage", name)] + [word for shape in shapes for word in ("--shape", shape)]
    done = CliRunner().invoke(attention_speed.main, ["--out", str(out), "--cpu", "--other", "flash", *asked])
    assert out.is_file(), (done.output, done.exception)
    data = jsonio.read(out)
    assert done.exit_code == 1 and [row["name"] for row in data["rows"]] == list(shapes) and data["left_out"] == [], done.output
    plain, causal, small = ({who: one.get("failed", one.get("error")) for who, one in row["contenders"].items()} for row in data["rows"])
    assert all(error < 1e-3 for row in (plain, small) for error in row.values()) and set(plain) == {*names, "flash"}
    assert causal["right"] < 1e-3 and causal["flash"] < 1e-3 and causal["wrong"] > 0.02
    assert causal["writes nothing"] == "ArithmeticError: its output is not finite, or not written"
    assert causal["raises"] == "RuntimeError: not today" and causal["crashes"] == "its process ended" and "no answer" in causal["hangs"]
    assert "wrong not timed, WRONG by 0.0" in done.output


def test_attention_in_each_form_beside_the_stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each form with its own tensors; one that forgets that heads share keys is wrong, and one that can't be is named."""

    class Exact:
        def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, return_lse: bool) -> Any:
            seen.append((q.dtype, q.is_contiguous(), q.shape[1] // k.shape[1], return_lse))
            group = q.shape[1] // k.shape[1]
            k, v = (tensor.repeat(1, group, 1, 1) if forgets else tensor.repeat_interleave(group, 1) for tensor in (k, v))
            out = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal).to(q.dtype)
            return (out, out[..., 0]) if return_lse else out

    monkeypatch.setattr(attention_speed, "built", lambda stages, *_: [])
    monkeypatch.setattr(attention_speed, "of_kernels", lambda *_: Exact())
    monkeypatch.setattr(attention_speed, "measured", in_this_process)
    for forgets in (False, True):
        seen: list[tuple[Any, ...]] = []
        out = tmp_path / "attention.json"
        shapes = ("--shape", "1,8,9,17,64,0", "--shape", "1,2,40,40,64,0")
        done = CliRunner().invoke(attention_speed.main, ["--out", str(out), "--cpu", "--attention", "--other", "flash", *shapes])
        assert done.exit_code == int(forgets), done.output
        first, second = jsonio.read(out)["rows"]
        assert set(first["contenders"]) == {"flash", *attention_speed.FORMS} and first["picked"] == "fp16_v9_pipeline"
        assert (first["contenders"]["attention grouped"]["error"] > 0.1) == forgets
        assert second["contenders"]["attention grouped"]["failed"] == "ValueError: 2 heads are not groups of 4"
        assert seen[:5] == [
            (torch.float16, True, 1, False),
            (torch.bfloat16, True, 1, False),
            (torch.float16, False, 1, False),
            (torch.float16, True, 4, False),
            (torch.float16, True, 1, True),
        ]
        assert "picks fp16_v9_pipeline" in done.output and ("attention grouped not timed, WRONG" in done.output) == forgets


def in_this_process(asked: Any, shapes: Any, until: float, keep: Any) -> list[str]:
    measuring = attention_speed.Measuring(asked, lambda _: None)
    for name, shape in shapes.items():
        keep(measuring.row(name, shape, {}))
    return []


def test_attention_on_a_shape_that_is_none(tmp_path: Path) -> None:
    done = CliRunner().invoke(attention_speed.main, ["--out", str(tmp_path / "f.json"), "--cpu", "--shape", "1,2,3"])
    assert done.exit_code == 1 and "--shape 1,2,3: no such shape" in done.output


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
