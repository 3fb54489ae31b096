"""The lines of source around a place that a checker names, and which check carries them."""

from __future__ import annotations

from pathlib import Path

from gates.core.places import is_source, place_of, with_excerpts
from gates.core.records import Check, Status
from gates.task.sources.excerpt import excerpts


def test_a_place_has_its_lines_and_the_line_is_marked(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("one\n\ttwo\nthree\nfour", encoding="utf-8")
    found = excerpts([tmp_path / "k.cu"], ["k.cu:2", "./some/k.cu:2", "k.cu:1", "k.cu:4"])
    assert found == {
        "k.cu:2": ("     1 | one", ">    2 |     two", "     3 | three"),
        "k.cu:1": (">    1 | one", "     2 |     two"),
        "k.cu:4": ("     3 | three", ">    4 | four"),
    }
    assert all(is_source(line) for lines in found.values() for line in lines) and not is_source("where: 3 | 4")


def test_what_is_not_known_for_certain_is_left_out(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.cuh").write_text("x\n", encoding="utf-8")
    (tmp_path / "k.cu").write_bytes(b"\xff" + b"x" * 500 + b"\n")
    files = [tmp_path / "a" / "same.cuh", tmp_path / "b" / "same.cuh", tmp_path / "k.cu", tmp_path / "gone.cu"]
    assert excerpts(files, ["same.cuh:1", "k.cu:0", "k.cu:2", "gone.cu:1", "other.cu:1", "", "k.cu:x", "k.cu"]) == {}
    (line,) = excerpts(files, ["k.cu:1"])["k.cu:1"]
    assert len(line) < 160


def test_the_first_failed_check_of_a_place_carries_the_lines() -> None:
    def check(status: Status, hint: str) -> Check:
        return Check("f", status, 1, 0, "", "", "sanitizer.finding", hint, notes=("own",))

    told = [check(Status.PASS, "a at k.cu:2. x"), check(Status.FAIL, "a at k.cu:2 in k. x"), check(Status.FAIL, "b at k.cu:2")]
    shown = with_excerpts(told, {"k.cu:2": (">    2 | two",)})
    assert [one.notes for one in shown] == [("own",), (">    2 | two", "own"), ("own",)]
    assert place_of(told[1]) == "k.cu:2" and place_of(check(Status.FAIL, "none. k.cu:2")) == ""
