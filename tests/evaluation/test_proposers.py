"""What makes candidates: patches, folders and programs, with what each refuses."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gates.core.errors import GatesError
from gates.evaluation.evolution.patches import patched
from gates.evaluation.evolution.proposers import Asked, ByCommand, ByPatches, ByToggles, FromFolder, Parent, Proposer
from gates.evaluation.evolution.record import Member, Refused
from gates.evaluation.overlay import Candidate

SOURCE = "".join(f"line {number}\n" for number in range(1, 21))
DIFF = """--- a/kernels/it.cu
+++ b/kernels/it.cu
@@ -2,3 +2,3 @@
 line 2
-line 3
+line three
 line 4
"""
LATER = """--- a/kernels/it.cu
+++ b/kernels/it.cu
@@ -14,3 +14,4 @@ somewhere
 line 14
-line 15
+line 15a
+line 15b
 line 16
"""


def asked(seen: Any = lambda _: False, tried: tuple[Member, ...] = (), remaining_s: float = 5.0) -> Asked:
    parent = Parent("p0", Candidate({}, {"TILE": 64}, "first"), 1.5, "no check failed")
    sources = {"kernels/it.cu": SOURCE, "common/other.cuh": "x\n"}
    known = {"p0": parent}.get
    return Asked(5, 1, sources, {"TILE": 32, "WARPS": 2}, parent, (parent,), tried, (), seen, random.Random(0), remaining_s, dict, known)


def given(proposer: Proposer, question: Asked | None = None) -> tuple[list[Candidate], list[str]]:
    found = list(proposer.propose(question or asked()))
    return [one for one in found if isinstance(one, Candidate)], [one.why for one in found if isinstance(one, Refused)]


# diffs


def test_a_diff_changes_what_it_says_and_no_more() -> None:
    texts = {"kernels/it.cu": SOURCE, "other.cuh": "x\n"}
    assert patched(texts, DIFF) == {"kernels/it.cu": SOURCE.replace("line 3\n", "line three\n", 1)}
    both = patched(texts, DIFF + LATER)["kernels/it.cu"]
    assert "line three\n" in both and "line 15a\nline 15b\nline 16\n" in both
    shifted = {"kernels/it.cu": "new\nnew\n" + SOURCE}
    assert patched(shifted, LATER)["kernels/it.cu"].count("line 15a") == 1, "found where it is now"
    assert patched({"it.cu": SOURCE}, DIFF).keys() == {"it.cu"}, "a name with more folders than the project has"


@pytest.mark.parametrize(
    ("diff", "says"),
    [
        ("", "changes nothing"),
        ("not a diff", "changes nothing"),
        (DIFF.replace("line 4", "line four"), "does not fit kernels/it.cu at line 2"),
        (DIFF.replace("kernels/it.cu", "kernels/no.cu"), "is not one source"),
        (DIFF.replace("+++ b/kernels/it.cu", "+++ /dev/null"), "removes a file"),
        (DIFF.partition(" line 4")[0], "ends within a hunk"),
        ("@@ -1 +1 @@\n-line 1\n+x\n", "before any file name"),
        (DIFF.replace("b/kernels/it.cu", "../../etc/passwd"), "is not one source"),
    ],
)
def test_a_diff_that_does_not_fit_is_one_error(diff: str, says: str) -> None:
    with pytest.raises(GatesError) as error:
        patched({"kernels/it.cu": SOURCE}, diff)
    assert says in error.value.what


# proposers


def test_toggles_change_one_at_a_time_first() -> None:
    found, _ = given(ByToggles({"TILE": (32, 64, 128), "WARPS": (1, 2)}))
    assert sorted(one.note for one in found[:3]) == ["TILE 64 -> 128", "TILE 64 -> 32", "WARPS 2 -> 1"]
    assert found[0].parent == "p0" and len({one.name for one in found}) == 6


def test_patches_come_alone_and_then_in_pairs_the_right_ones_first(tmp_path: Path) -> None:
    for name, text in {"a.patch": DIFF, "b.diff": LATER, "c.patch": DIFF.replace("three", "3"), "d.patch": "garbage"}.items():
        (tmp_path / name).write_text(text)
    found, refused = given(ByPatches(tmp_path))
    assert [one.name for one in found] == ["a", "b", "c"] and refused == ["the diff changes nothing"]
    tried = tuple(
        Member(
            f"m{one.name}", 1, "patch", one.name, "", "p0", {}, {}, "pass", valid=one.name != "a", score=1.0 if one.name != "a" else None
        )
        for one in found
    )
    question = replace(asked(tried=tried), refused=(Refused("patch", "d", "x"),))
    pairs, clash = given(ByPatches(tmp_path), question)
    assert [one.name for one in pairs] == ["b+c", "a+b"] and clash == ["the diff does not fit kernels/it.cu at line 2"]
    assert pairs[0].parent == "mb" and "line 15a" in pairs[0].files["kernels/it.cu"]


def test_each_new_folder_is_a_candidate_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two", "three", ".being-written"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "it.cu").write_text("text")
    (tmp_path / "one" / "candidate.json").write_text('{"toggles": {"TILE": 32}, "note": "why", "parent": "p0"}')
    (tmp_path / "two" / "candidate.json").write_text("{")
    (tmp_path / "three" / "it.cu").write_bytes(b"\xff")
    found, refused = given(FromFolder(tmp_path))
    assert [(one.name, dict(one.files), dict(one.toggles), one.note) for one in found] == [("one", {"it.cu": "text"}, {"TILE": 32}, "why")]
    (tmp_path / "one" / "candidate.json").write_text('{"toggles": {"TILE": 32}, "name": "small/tile"}')
    (named,), _ = given(FromFolder(tmp_path))
    assert named.name == "one/small/tile"
    known = Member("m", 1, "from", named.name, "", "p0", {}, {})
    assert given(FromFolder(tmp_path), asked(tried=(known,)))[0] == [], "a named folder is taken once"
    assert refused[0] == "it.cu is not UTF-8 text" and refused[1].startswith("candidate.json is not JSON")
    assert given(FromFolder(tmp_path / "one", poll_s=0.01), replace(asked(remaining_s=0.05), wait=True)) == ([], []), (
        "waits no longer than the search lasts"
    )


def program(tmp_path: Path, text: str) -> ByCommand:
    path = tmp_path / "propose.py"
    path.write_text("import json, sys, time\nasked = json.load(sys.stdin)\n" + text)
    return ByCommand(f"{sys.executable} {path}", limit_s=20.0)


def test_a_program_reads_parents_and_writes_a_line_per_candidate(tmp_path: Path) -> None:
    lines = "\n".join(
        [
            "parent = asked['parents'][0]",
            "print(json.dumps({'toggles': {'TILE': parent['toggles']['TILE'] * 2}, 'name': 'twice', 'note': parent['feedback']}))",
            f"print(json.dumps({{'diff': {DIFF!r}, 'parent': 'p0'}}))",
            "print('garbage'); print([1]); print(json.dumps({'toggles': 3})); print(json.dumps({'parent': 'nobody'}))",
            "print(json.dumps({'score': 9.0})); print(json.dumps({'files': {'it.cu': 1}}))",
        ]
    )
    found, refused = given(program(tmp_path, lines))
    assert (found[0].toggles["TILE"], found[0].name, found[0].note) == (128, "twice", "no check failed")
    assert "line three" in found[1].files["kernels/it.cu"] and found[1].toggles["TILE"] == 64
    says = [
        "is not JSON",
        "is not an object",
        "toggles is not an object",
        "'nobody' is not a candidate",
        "'score' is not a field",
        "hold texts",
    ]
    assert len(refused) == len(says) and all(part in why for part, why in zip(says, refused, strict=True)), refused


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sys.exit(3)", "exit 3"),
        ("time.sleep(60)", "time limit"),
        ("print('x' * (17 * 2**20))", "wrote more than 16 MiB"),
    ],
)
def test_a_program_that_fails_is_one_refusal(text: str, says: str, tmp_path: Path) -> None:
    found, refused = given(program(tmp_path, text), asked(remaining_s=1.5 if "sleep" in text else 20.0))
    assert found == [] and len(refused) == 1 and says in refused[0]


@pytest.mark.parametrize("command", ["", "  ", "python 'x"])
def test_a_command_that_is_none_is_an_error(command: str) -> None:
    with pytest.raises(GatesError, match="--propose"):
        ByCommand(command)


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(GatesError, match="can't start /nowhere/program"):
        given(ByCommand("/nowhere/program"))


def test_what_a_program_is_told_is_json(tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    given(program(tmp_path, f"open({str(seen)!r}, 'w').write(json.dumps(asked))"))
    told = json.loads(seen.read_text())
    assert told["n"] == 5 and told["parents"][0]["score"] == 1.5 and told["parents"][0]["name"] == "first"
