"""Strict JSON: what other tools would not read is refused, and a file is whole or absent."""

from __future__ import annotations

import errno
import gzip
import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gates.core import jsonio
from gates.core.errors import GatesError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_round_trip(value: object) -> None:
    assert jsonio.loads(jsonio.dumps(value), "x") == value


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_one_clear_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("json") / "file.json"
    path.write_bytes(data)
    try:
        jsonio.read(path)
    except GatesError as error:
        assert "file.json" in error.what


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": NaN}', "NaN is not JSON"),
        ("[Infinity]", "Infinity is not JSON"),
        ("[-1e999]", "out of range"),
        ('{"p50_us": 1000, "p50_us": 10}', "'p50_us' appears twice"),
        ('{"a": 1', "line 1, column 8"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 10_000, "is out of range"),
        ('["\\ud800"]', "not Unicode"),
    ],
)
def test_refused(text: str, expected: str) -> None:
    with pytest.raises(GatesError, match=expected):
        jsonio.loads(text, "evidence.json")


@pytest.mark.parametrize("literal", ["NaN", "-Infinity", "1e999", "9" * 400])
def test_a_number_that_is_none_is_told_with_its_place(literal: str) -> None:
    with pytest.raises(GatesError, match="at line 3, column 8"):
        jsonio.loads('{"NaN 1e999": "NaN \\" -Infinity",\n "a": [\n  1.5, ' + literal + "]}", "evidence.json")


@pytest.mark.parametrize("text", ["%s", "[%s]", "[-%s]", "[1,%s]", "[1,\n%s]", '{"a":%s}', '{"a": %s}', '{"a":\t%s}'])
@pytest.mark.parametrize("literal", ["9" * 21, "9" * 400 + ".5", "1e999", "1E+0400", "0.1" + "0" * 30 + "e+999", "1e" + "9" * 30])
def test_a_number_out_of_range_is_found_wherever_it_stands(text: str, literal: str) -> None:
    with pytest.raises(GatesError, match="out of range"):
        jsonio.loads(text % literal, "evidence.json")


def test_a_long_fraction_a_small_number_and_a_digest_are_no_numbers_out_of_range() -> None:
    text = f'{{"a": [0.{"1" * 40}, 1.{"1" * 40}e-9, 1e-999, 12e+99, "{"9" * 30}", "f{"9" * 30}", "2e999"], "b{"9" * 30}": -{"9" * 19}}}'
    assert jsonio.loads(text, "evidence.json") == json.loads(text)


def test_nan_is_never_written() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        jsonio.dumps({"a": float("nan")})


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(jsonio.MAX_BYTES + 1)
    with pytest.raises(GatesError, match="larger than"):
        jsonio.read(path)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    jsonio.write(path, {"old": 1})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(GatesError, match="No space left"):
        jsonio.write(path, {"new": 1})
    assert jsonio.read(path) == {"old": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_lines_hold_a_member_or_an_item_of_a_list_each() -> None:
    data = {"task": "é\n", "cases": [{"a": 1, "b": [1.5, None]}, {"a": 2}], "none": [], "limits": {"x": {"y": 1e-3}}}
    text = jsonio.dumps_lines(data)
    assert jsonio.loads(text, "f") == data and list(jsonio.loads(text, "f")) == list(data)
    assert text.splitlines() == [
        "{",
        ' "task": "é\\n",',
        ' "cases": [',
        '  {"a":1,"b":[1.5,null]},',
        '  {"a":2}',
        " ],",
        ' "none": [],',
        ' "limits": {"x":{"y":0.001}}',
        "}",
    ]
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsonio.dumps_lines({"a": [float("nan")]})


def test_what_fits_has_one_line() -> None:
    data = {
        "task": "é",
        "checks": [{"name": "a", "observed": 1.5}, {"name": "b" * 40, "notes": ["c", None]}],
        "none": [],
        "deep": {"x": {}},
    }
    text = jsonio.dumps_wide(data, width=40)
    assert jsonio.loads(text, "f") == data
    assert text.splitlines() == [
        "{",
        ' "task": "é",',
        ' "checks": [',
        '  {"name": "a", "observed": 1.5},',
        "  {",
        f'   "name": "{"b" * 40}",',
        '   "notes": ["c", null]',
        "  }",
        " ],",
        ' "none": [],',
        ' "deep": {"x": {}}',
        "}",
    ]
    with pytest.raises(ValueError, match="not JSON compliant"):
        jsonio.dumps_wide({"a": [float("nan")]})


def test_a_gzipped_file_is_read_within_the_same_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.json.gz"
    path.write_bytes(gzip.compress(b'{"rows": [1, 2]}', mtime=0))
    assert jsonio.read(path) == {"rows": [1, 2]}
    monkeypatch.setattr(jsonio, "MAX_BYTES", 100)
    path.write_bytes(gzip.compress(b" " * 1000))
    with pytest.raises(GatesError, match="larger than"):
        jsonio.read(path)
    for broken in (b"{}", gzip.compress(b"{}" + os.urandom(50))[:40], b""):
        path.write_bytes(broken)
        with pytest.raises(GatesError, match="study.json.gz: "):
            jsonio.read(path)


def test_a_hostile_text_is_refused_in_time() -> None:
    began = time.process_time()
    with pytest.raises(GatesError, match="out of range, at line 1, column 2"):
        jsonio.loads(f"[{'9' * 2**22}]", "text")
    with pytest.raises(GatesError, match="key 'k7' appears twice"):
        jsonio.loads("{" + ", ".join(f'"k{number}": 0' for number in [*range(60_000), 7]) + "}", "text")
    assert time.process_time() - began < 3
