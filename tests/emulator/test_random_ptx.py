"""Random PTX programs: lanes alone and together, the CPU device against recorded devices, and the study that compares with a card."""

from __future__ import annotations

import random
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import compare_random_ptx
import numpy as np
import opcode_coverage
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from random_ptx import programs, sides

from gates.core import jsonio
from gates.launch import device as devices

# Modules of 50 random programs with one that differs: ptxas 13.0 narrows conversions, takes a negation to be exact, drops a shift by 65, …
OTHERS = (0, 3, 11, 17, 19, 22, 39)
RECORDED = sorted((ROOT / "results" / "recorded").glob("*/random-ptx.json"))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_a_lane_alone_gives_what_it_gives_in_a_full_warp(draw: random.Random) -> None:
    text, names = compare_random_ptx.text_of([programs.Draw(draw, warp=False).program(20)])
    records = programs.inputs(1, programs.THREADS)[None]
    assert (
        programs.comparable(sides.on_cpu(text, names, records)).tolist()
        == programs.comparable(sides.on_cpu(text, names, records, 1)).tolist()
    )


def test_what_is_compared() -> None:
    """Every byte that a program writes, but not what lies behind, and not which NaN it is."""
    records = programs.inputs(3, 2)
    wanted = compare_random_ptx.digest(records)
    for at in range(programs.RECORD_BYTES):
        changed = records.copy()
        changed[1, at] ^= 1
        assert (compare_random_ptx.digest(changed) == wanted) == (at >= programs.PREDICATES_AT + programs.PREDICATES), at
    at = programs.offsets()["f"]
    records[0, at : at + 4] = [1, 0, 0x80, 0x7F]
    other = records.copy()
    other[0, at : at + 4] = [2, 0, 0xC0, 0xFF]
    assert compare_random_ptx.digest(records) == compare_random_ptx.digest(other)


@pytest.mark.parametrize("path", RECORDED, ids=[path.parent.name for path in RECORDED])
def test_the_cpu_device_gives_what_a_device_gave(path: Path) -> None:
    recorded = jsonio.read(path)
    digests = [*recorded["digests"]["alone"], *recorded["digests"]["random"]]
    for part, digest in zip(compare_random_ptx.parts(recorded["programs"]), digests, strict=True):
        if part.module % 4 != 0 if part.alone else part.module % 10 != 1 or part.module in OTHERS:
            continue
        drawn, records = compare_random_ptx.made(recorded["seed"], part)
        text, names = compare_random_ptx.text_of(drawn)
        assert compare_random_ptx.digest(sides.on_cpu(text, names, records)) == digest, part


class Here(Executor):
    """Runs what it is given at once: processes that are forked from one that has the CPU device share its memory."""

    def __init__(self, *_: Any) -> None:
        """Nothing to begin."""

    def submit(self, function: Any, /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*given, **named))
        return done


class PlantedCard:
    """A card that takes ``wrong`` for ``right``, and else is the CPU device."""

    wrong, right = "", ""

    def run(self, text: bytes, names: list[str], records: np.ndarray) -> np.ndarray:
        return sides.on_cpu(text.decode().replace(self.right or "\0", self.wrong), names, records)


def test_without_a_card_the_study_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "probe", lambda: devices.DeviceProbe((), "no CUDA device"))
    done = CliRunner().invoke(compare_random_ptx.main, ["--out", str(tmp_path / "random.json")])
    assert done.exit_code == 3 and "no CUDA device" in done.output


@pytest.mark.parametrize("planted", [("", ""), ("or.b32", "xor.b32")])
@pytest.mark.parametrize("alone", [True, False])
def test_the_study_shows_a_wrong_opcode_alone(
    alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: tuple[str, str]
) -> None:
    card = devices.DeviceInfo(0, "a card", "", "9.0", 1, 1, "1", "1")
    monkeypatch.setattr(devices, "probe", lambda: devices.DeviceProbe((card,)))
    monkeypatch.setattr(PlantedCard, "wrong", planted[0])
    monkeypatch.setattr(PlantedCard, "right", planted[1])
    monkeypatch.setattr(compare_random_ptx, "Card", PlantedCard)
    monkeypatch.setattr(compare_random_ptx, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(compare_random_ptx, "assembled", lambda _, __, text: text.encode())
    index = next(i for i, template in enumerate(programs.TEMPLATES) if template.startswith("xor.b32"))
    monkeypatch.setattr(programs, "TEMPLATES", programs.TEMPLATES[index - 5 : index + 5] if alone else programs.TEMPLATES[:1])
    out = tmp_path / "random.json"
    done = CliRunner().invoke(compare_random_ptx.main, ["--programs", "60", "--out", str(out)])
    assert out.exists(), (done.output, done.exception)
    data: dict[str, Any] = jsonio.read(out)
    assert done.exit_code == int(bool(planted[1])) and data["programs"] == 60
    assert (data["equal"] == 60) == (not planted[1])
    assert data["instructions_equal"] == data["instructions"] - int(alone and bool(planted[1])) and bool(data["differing"]) == bool(
        planted[1]
    )
    assert all(any("xor.b32" in statement for statement in one["statements"]) and len(one["statements"]) < 12 for one in data["differing"])


def test_which_opcodes_are_compared_with_a_device() -> None:
    text = """@%p1 add.rn.f32 %f1, %f2, %f3; { .reg .b32 x; frobnicate.b32 x, %r1; }  // sub.weird
    LABEL: ld.global.nc.u32 %r1, [%rd1]; mul.hi.u64 %rd1, %rd2, %rd3; ret;"""
    covered = opcode_coverage.of_random_programs()
    assert opcode_coverage.uncovered([text], covered) == ["frobnicate.b32"]
    assert opcode_coverage.uncovered([text], covered - {"mul.hi.u64"}) == ["frobnicate.b32", "mul.hi.u64"]
