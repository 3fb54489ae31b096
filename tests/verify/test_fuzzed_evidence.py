"""Evidence with anything in it: the readers answer with problems, never with an exception of another kind.

The runs are signed anew after each change, so that what reads them gets past the digests. What once fell
out stands as an example of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fuzz_kit import DATA, NAMES, PLACES, RUN, VALUES, put
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import RECORDED
from runs_kit import sign

from gates.core.errors import GatesError
from gates.evidence.run_directory import list_runs
from gates.render.report import html
from gates.review.compare import compare_runs
from gates.review.decide import decide_run
from gates.review.rejudge import judge_again
from gates.review.report.run_view import Page, view
from gates.verify.run import verify_run

OTHER = list_runs(RECORDED / "h100" / "stage1_wmma_qk")[-1]
EXAMPLES = int(os.environ.get("GATES_FUZZ_EXAMPLES", "8"))
EVERY = bool(os.environ.get("GATES_FUZZ_ALL"))
SAMPLED = 2  # leaves of a file
LEAF_VALUES = (None, "", "x", -1, 1e308, 10**30, True, [], {})


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "run"
    shutil.copytree(RUN, folder)
    return folder


def read_all_ways(run: Path) -> bool:
    """Whatever reads a run either works or raises one GatesError with a text; only a sound run is decided or compared.

    Return whether it is sound.
    """
    problems = verify_run(run)
    if EVERY:  # it draws for seconds
        with contextlib.suppress(GatesError):
            html(Page("0", "now", (view(run),), 0, (), ()))
    assert all(isinstance(problem, str) and problem for problem in problems)
    for reader in (judge_again, *(() if problems else (decide_run, lambda path: compare_runs(OTHER, path)))):
        try:
            reader(run)
        except GatesError as error:
            assert error.what
    return not problems


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place without entries of its own; of an array by its first entry, unless ``GATES_FUZZ_ALL`` asks for each."""
    if isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from leaves(entry, (*path, key))
    elif isinstance(value, list) and value:
        for index in range(len(value) if EVERY else 1):
            yield from leaves(value[index], (*path, index))
    elif path:
        yield path


def test_a_counter_of_another_name_is_told(target: Path) -> None:
    path = ("sides", "candidate", "kernels", 0, "counters", 0, "metric")
    try:
        (target / "ncu.json").write_text(json.dumps(put(DATA["ncu.json"], path, "x", "replace")), encoding="utf-8")
        sign(target, rendered=False)
        read_all_ways(target)
        assert dict(verdict_of(target))["ncu"] == "ncu.out_of_range"
    finally:
        shutil.copyfile(RUN / "ncu.json", target / "ncu.json")


def verdict_of(run: Path) -> Iterator[tuple[str, str]]:
    for _, now in judge_again(run).gates:
        yield now.gate, now.code


@pytest.mark.parametrize("name", NAMES)
def test_each_leaf_replaced(target: Path, name: str) -> None:
    """With each of the values in turn over the leaves, or with ``GATES_FUZZ_ALL`` every value at every leaf; then ``-rP`` shows what
    `gates verify` called sound.
    """
    places_here, wrong, sound = list(leaves(DATA[name])), [], set()
    shift = NAMES.index(name)
    step = 1 if EVERY else max(1, len(places_here) // SAMPLED)
    try:
        for number, path in enumerate(places_here[shift % step :: step]):
            for value in LEAF_VALUES if EVERY else [LEAF_VALUES[(number + shift) % len(LEAF_VALUES)]]:
                (target / name).write_text(json.dumps(put(DATA[name], path, value, "replace")), encoding="utf-8")
                sign(target, rendered=False)
                try:
                    if read_all_ways(target):
                        sound.add(".".join("[]" if isinstance(part, int) else part for part in path))
                except Exception as error:
                    wrong.append(f"{name} {path} = {value!r}: {type(error).__name__}: {error}")
    finally:
        shutil.copyfile(RUN / name, target / name)
    print(f"{name}: called sound after an edit of", *sorted(sound))
    assert not wrong, "\n".join(wrong)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 8)
@given(st.data())
def test_any_value_at_any_place(target: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(NAMES))
    path, value = data.draw(st.sampled_from(PLACES[name])), data.draw(VALUES)
    how = data.draw(st.sampled_from(["replace", "replace", "remove", "double", "rename"]))
    try:
        (target / name).write_text(json.dumps(put(DATA[name], path, value, how)), encoding="utf-8")
        sign(target)
        read_all_ways(target)
    finally:
        shutil.copyfile(RUN / name, target / name)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 8)
@given(st.sampled_from([*NAMES, "manifest.json"]), st.integers(0, 10**6), st.binary(max_size=4))
def test_any_bytes_at_any_place(target: Path, name: str, place: int, data: bytes) -> None:
    text = (RUN / name).read_bytes()
    cut = place % (len(text) + 1)
    try:
        (target / name).write_bytes(text[:cut] + data + (text[cut + len(data) :] if data else b""))
        if name != "manifest.json":
            sign(target)
        read_all_ways(target)
    finally:
        shutil.copyfile(RUN / name, target / name)
        sign(target)
