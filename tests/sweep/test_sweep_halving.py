"""Successive halving as pure functions: the true winner is found from noisy timings, and the incumbent stays where nothing is better."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from performance_gates import evidence
from sweep_kit import BLOCKS

from gates.core.errors import GatesError
from gates.gate.performance.evidence import PerformanceEvidence
from gates.stats.sampling import measure
from gates.stats.simulated_device import SimulatedDevice
from gates.sweep.halving import SLOWER, WHOLE_BUDGET_S, budget_s, halve, ranked, winner
from gates.sweep.record import Round, Timing
from gates.sweep.variants import combinations, parse_params, variant_name
from gates.sweep.work import timing_of
from gates.task.load import load_task


def timing(variant: str, ratio: float | None, *, faster: bool = False, code: str = "") -> Timing:
    spread = (None, None) if ratio is None else (ratio * 0.99, ratio * 1.01)
    return Timing(variant, faster, code, f"{ratio}x", ratio, *spread, 1.0, 1.0, "GPU-0", 1.0)


def noisy(true: dict[str, float], seed: int, *, pct_at_5_s: float = 2.0):
    """A timer whose error shrinks with the root of its budget; it calls faster or slower what is beyond three errors."""
    generator = random.Random(seed)

    def timed(number: int, budget: float, names: Sequence[str]) -> list[Timing]:
        error = pct_at_5_s / 100 * (5.0 / budget) ** 0.5
        found = [(name, true[name] * (1 + generator.gauss(0, error))) for name in names]
        return [timing(name, ratio, faster=ratio > 1 + 3 * error, code=SLOWER if ratio < 1 - 3 * error else "") for name, ratio in found]

    return timed


@pytest.mark.parametrize("seed", range(20))
def test_the_true_winner_is_found(seed: int) -> None:
    true = {f"v{number}": 0.7 + 0.02 * number for number in range(15)} | {"best": 1.2}
    names = list(true)
    random.Random(seed).shuffle(names)
    rounds = halve(names, noisy(true, seed))
    assert winner(rounds, "incumbent")[0] == "best"
    assert len(rounds[0].variants) == 16 and len(rounds[-1].variants) <= 2 < 16 / 2 >= len(rounds[1].variants)


def test_what_is_slower_beyond_doubt_leaves_at_once() -> None:
    def timed(number: int, budget: float, names: Sequence[str]) -> list[Timing]:
        return [timing(name, 1.0 if name == "a" else 0.9, code="" if name in "ab" else SLOWER) for name in names]

    assert [(one.variants, one.budget_s) for one in halve(list("dcbafeg"), timed)] == [
        (tuple("dcbafeg"), 5.0),
        (("a", "b"), WHOLE_BUDGET_S),
    ]
    rounds = halve(list("cdef"), timed)
    assert len(rounds) == 1 and winner(rounds, "a")[1].startswith("nothing is faster beyond doubt; next is c")


@pytest.mark.parametrize("seed", range(20))
def test_the_incumbent_stays_where_nothing_is_better(seed: int) -> None:
    true = {f"v{number}": 0.9 + 0.01 * number for number in range(11)}  # the best is exactly as fast
    best, why = winner(halve(list(true), noisy(true, seed)), "incumbent")
    assert best == "incumbent" and why.startswith("nothing is faster beyond doubt; next is v")


def test_later_rounds_have_more_time_and_the_last_has_all() -> None:
    rounds = halve([f"v{n}" for n in range(9)], lambda number, budget, names: [timing(name, 1.0) for name in names])
    assert [(len(one.variants), one.budget_s) for one in rounds] == [(9, 5.0), (5, 10.0), (3, 20.0), (2, WHOLE_BUDGET_S)]
    assert budget_s(0, 1) == WHOLE_BUDGET_S and budget_s(9, 8) == WHOLE_BUDGET_S


def test_what_has_no_ratio_leaves_and_equals_keep_their_order() -> None:
    found = Round(5.0, ("a", "b", "c", "d"), (timing("d", 1.0), timing("c", 1.1), timing("a", 1.0), timing("b", None)))
    assert ranked(found) == ["c", "a", "d"]


def test_nothing_to_time_and_nothing_that_can_be_timed() -> None:
    assert halve([], lambda *_: []) == []
    assert winner([], "incumbent") == ("incumbent", "there was nothing to time it against")
    rounds = halve(["a", "b", "c"], lambda number, budget, names: [timing(name, None) for name in names])
    assert len(rounds) == 1 and winner(rounds, "incumbent") == ("incumbent", "no variant of the last round could be timed")


@pytest.mark.parametrize(("true_us", "faster"), [(8.0, True), (10.0, False), (12.0, False)])
def test_a_timing_is_what_the_performance_gate_says_at_a_bar_of_nothing(true_us: float, faster: bool) -> None:
    found = timing_of("v", simulated_evidence(true_us), {"shape": "mission"}, "GPU-0", 1.0)
    assert found.faster == faster and found.ratio is not None and abs(found.ratio - 10.0 / true_us) < 0.02
    assert found.low is not None and found.high is not None and found.low < found.ratio < found.high


def test_a_refused_timing_has_no_ratio_and_the_reason() -> None:
    stopped = PerformanceEvidence("blocks", "blocks", "small", "stopped", "performance.launch_failed", "the launcher said no")
    found = timing_of("v", stopped, {"shape": "small"}, "GPU-0", 1.0)
    assert (found.ratio, found.p50_us, found.faster, found.code) == (None, None, False, "performance.launch_failed")
    assert "the launcher said no" in found.sentence


def simulated_evidence(true_us: float) -> PerformanceEvidence:
    device = SimulatedDevice({"candidate": true_us, "baseline": 10.0, "control": 10.0}, seed=3)
    taken = measure(
        device.side("candidate"),
        device.side("baseline"),
        device.side("control"),
        bar_pct=0.0,
        seed=3,
        read_state=device.read_state,
        clock=device.clock,
        budget_s=5.0,
    )
    return evidence(taken.blocks, taken.control, warm_up=taken.warm_up)


def test_parameters_become_every_combination() -> None:
    params = parse_params(["BLOCK=64,128"], load_task(BLOCKS, environ={}))
    assert params == {"BLOCK": (64, 128)}
    assert [variant_name(one) for one in combinations({"A": (1, 2), "B": (3, 4)})] == ["A=1,B=3", "A=1,B=4", "A=2,B=3", "A=2,B=4"]


@pytest.mark.parametrize(
    ("pairs", "what", "hint"),
    [
        ([], "no --param, so there is no variant to try", "BLOCK"),
        (["BLOCK="], "has no values", "e.g. --param"),
        (["BLOCK"], "is not NAME=VALUE,VALUE", "e.g. --param"),
        (["BLOK=64"], "has no such toggle", "did you mean BLOCK?"),
        (["BLOCK=64,x"], "is not a toggle value", "whole number"),
        (["BLOCK=64,64"], "a value appears twice", "once"),
        (["BLOCK=64", "BLOCK=128"], "is given twice", "at once"),
        ([f"BLOCK={','.join(map(str, range(5000)))}"], "5000 variants are more than 4096", "fewer"),
    ],
)
def test_wrong_parameters_are_told(pairs: list[str], what: str, hint: str) -> None:
    with pytest.raises(GatesError) as caught:
        parse_params(pairs, load_task(BLOCKS, environ={}))
    assert what in caught.value.what and hint in (caught.value.hint or "") and caught.value.exit_code == 2
