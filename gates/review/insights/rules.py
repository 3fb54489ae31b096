"""What to try next: one row a rule, a condition on measured facts and the step that it speaks for.

A rule is judged only where all the facts that it ``needs`` have a value, and those facts are its evidence. ``ceiling``
is the least p50 in us that the step alone could reach. MEASURED: this card has shown that time, in this run. BOUND: the
time if it shrank in proportion to what is idle or too much, which it need not do. A row is all there is to a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gates.review.insights.facts import Fact, Facts

FIRST, MEASURED, BOUND, UNKNOWN = "first", "measured", "bound", "unknown"  # also the order of the steps
MOST = 3
_DENSE = 30.0  # operations for a byte: below it no card's tensor cores matter more than its memory

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """``when`` and ``ceiling`` take the values of ``needs``; ``basis`` says what the ceiling rests on."""

    key: str
    needs: tuple[str, ...]
    when: Callable[[Values], bool]
    step: str
    kind: str = UNKNOWN
    ceiling: Callable[[Values], float] | None = None
    basis: str = "no ceiling follows from this evidence"


@dataclass(frozen=True)
class Step:
    """A rule that fired, with its evidence. ``gain_pct`` is (p50 / ceiling - 1) * 100; both None where unknown."""

    rule: str
    step: str
    evidence: tuple[Fact, ...]
    kind: str
    ceiling_us: float | None
    gain_pct: float | None
    basis: str


RULES = (
    Rule(
        "mend",
        ("failed", "failed_gate"),
        lambda v: v["failed_gate"] != "performance",
        "Mend what the gate refuses before anything else: COMPARE.md names the place and the usual cause.",
        FIRST,
        basis="a rejected stage can't be merged at any speed",
    ),
    Rule(
        "measure",
        ("untimed",),
        lambda v: True,
        "Run the stage on a machine with a CUDA device (gates run TASK --profile full): nothing here says where the time goes.",
        FIRST,
        basis="nothing was timed",
    ),
    Rule(
        "memory_wait",
        ("memory_wait_pct", "p50_us", "other_p50_us", "sass async_copy"),
        lambda v: v["memory_wait_pct"] >= 10 and v["sass async_copy"] == 0 and v["other_p50_us"] < v["p50_us"],
        "Ask for the next data before it is needed: asynchronous copies (cp.async, TMA) or loads into registers one step ahead.",
        MEASURED,
        lambda v: v["other_p50_us"],
        "the time with the data in the L2 cache, where hardly any wait for device memory is left",
    ),
    Rule(
        "deeper_pipeline",
        ("memory_wait_pct", "p50_us", "other_p50_us", "sass async_copy"),
        lambda v: v["memory_wait_pct"] >= 10 and v["sass async_copy"] > 0 and v["other_p50_us"] < v["p50_us"],
        "Keep more asynchronous copies in flight: one more pipeline stage, or the first copies before any other work.",
        MEASURED,
        lambda v: v["other_p50_us"],
        "the time with the data in the L2 cache, where hardly any wait for device memory is left",
    ),
    Rule(
        "launch_bound",
        ("p50_us", "launch_floor_us"),
        lambda v: v["p50_us"] <= 2 * v["launch_floor_us"],
        "Do more in one launch: fuse with the work before or after, or batch problems.",
        MEASURED,
        lambda v: v["launch_floor_us"],
        "the time of a launch that does nothing",
    ),
    Rule(
        "at_memory_floor",
        ("p50_us", "memory_floor_us", "launch_floor_us"),
        lambda v: v["memory_floor_us"] >= 0.7 * v["p50_us"] and v["memory_floor_us"] > v["launch_floor_us"],
        "Only fewer bytes make it faster: a narrower format, or fusion with the neighbour that reads or writes the same data.",
        BOUND,
        lambda v: v["memory_floor_us"],
        "the least reads at the card's peak",
    ),
    Rule(
        "reads_again",
        ("reads_over_least", "dram_throughput", "p50_us"),
        lambda v: v["reads_over_least"] >= 1.25 and v["dram_throughput"] >= 30,
        "Read each byte once: keep what is used again in shared memory or registers, and let CTAs that share data run side by side.",
        BOUND,
        lambda v: v["p50_us"] / v["reads_over_least"],
        "the time in proportion to the reads",
    ),
    Rule(
        "more_ctas",
        ("occupancy", "theoretical_occupancy", "p50_us"),
        lambda v: v["occupancy"] <= 0.5 * v["theoretical_occupancy"],
        "Give the device more CTAs at once: smaller tiles, or the long loop split over several CTAs whose parts are joined afterwards.",
        BOUND,
        lambda v: v["p50_us"] * v["occupancy"] / v["theoretical_occupancy"],
        "the time in proportion to the warps that would fit",
    ),
    Rule(
        "occupancy",
        ("occupancy", "theoretical_occupancy", "occupancy_limiter", "sm_throughput", "p50_us"),
        lambda v: (
            v["theoretical_occupancy"] < 50
            and v["occupancy"] > 0.5 * v["theoretical_occupancy"]
            and v["sm_throughput"] < 60
            and v["occupancy_limiter"] in ("registers", "shared memory")
        ),
        "Let more warps fit: use less of what limits the occupancy, or give each thread more independent work.",
        BOUND,
        lambda v: v["p50_us"] * v["theoretical_occupancy"] / 100,
        "the time in proportion to the warps that the SM holds",
    ),
    Rule(
        "tensor_cores",
        ("sass tensor", "sass fma", "intensity", "floor_us"),
        lambda v: v["sass tensor"] == 0 and v["sass fma"] > 0 and v["intensity"] >= _DENSE,
        "Do the products on tensor cores (wmma, mma.sync, wgmma), one of them first.",
        BOUND,
        lambda v: v["floor_us"],
        "the floor of launch, memory and arithmetic",
    ),
    Rule(
        "tensor_idle",
        ("tensor_pipe", "sass tensor", "intensity", "p50_us"),
        lambda v: v["sass tensor"] > 0 and v["tensor_pipe"] < 50 and v["intensity"] >= _DENSE,
        "Keep the tensor pipes fed: let other work of one tile run beside the products of the next, and use larger tiles a warp.",
        BOUND,
        lambda v: v["p50_us"] * v["tensor_pipe"] / 100,
        "the time in which the tensor pipes were busy",
    ),
    Rule(
        "warpgroup",
        ("tensor_pipe", "tensor_gmma", "sass tensor"),
        lambda v: v["sass tensor"] > 0 and v["tensor_gmma"] == 0 and v["tensor_pipe"] >= 50,
        "Use warpgroup products (wgmma): they take operands from shared memory and leave the registers to the sums.",
    ),
    Rule(
        "bank_conflicts",
        ("bank_conflicts", "p50_us"),
        lambda v: v["bank_conflicts"] >= 1.05,
        "Remove shared-memory bank conflicts: pad the rows or swizzle the columns.",
        BOUND,
        lambda v: v["p50_us"] / v["bank_conflicts"],
        "the time in proportion to the wavefronts",
    ),
    Rule(
        "spills",
        ("spill_bytes", "registers"),
        lambda v: v["spill_bytes"] > 0,
        "Remove the spills: fewer values alive at once, smaller tiles a thread, or a launch bound that allows more registers.",
    ),
    Rule(
        "local_arrays",
        ("sass local_memory", "spill_bytes"),
        lambda v: v["sass local_memory"] > 0 and v["spill_bytes"] == 0,
        "Keep arrays in registers: index them by constants only, with every loop over them unrolled.",
    ),
    Rule(
        "barriers",
        ("barrier_stall_pct", "stall_barrier"),
        lambda v: v["barrier_stall_pct"] >= 25,
        "Wait less at barriers: fewer of them (double buffers), or barriers of the warps that share data only.",
    ),
    Rule(
        "conversions",
        ("sass conversion pct", "sass tensor"),
        lambda v: v["sass conversion pct"] >= 8 and v["sass tensor"] > 0,
        "Convert less: once for each tile instead of once for each use, or operands that the tensor cores take as they are.",
    ),
)


def steps_of(facts: Facts, most: int = MOST) -> tuple[Step, ...]:
    """The steps whose condition is met: what must come first, then measured ceilings, then bounds, each by gain."""
    found = [step for rule in RULES if (step := _judge(rule, facts)) is not None]
    order = (FIRST, MEASURED, BOUND, UNKNOWN)
    return tuple(sorted(found, key=lambda step: (order.index(step.kind), -(step.gain_pct or 0.0)))[:most])


def unjudged(facts: Facts) -> dict[str, tuple[str, ...]]:
    """Why there is no evidence -> the rules that could not be judged for it."""
    found: dict[str, list[str]] = {}
    for rule in RULES:
        if rule.kind != FIRST:
            for reason in dict.fromkeys(facts[key].missing if key in facts else "not recorded" for key in _absent(rule, facts)):
                found.setdefault(reason, []).append(rule.key)
    return {reason: tuple(rules) for reason, rules in found.items()}


def _absent(rule: Rule, facts: Facts) -> list[str]:
    return [key for key in rule.needs if key not in facts or facts[key].value is None]


def _judge(rule: Rule, facts: Facts) -> Step | None:
    if _absent(rule, facts):
        return None
    values = {key: facts[key].value for key in rule.needs}
    if not rule.when(values):
        return None
    ceiling, gain = None, None
    if rule.ceiling is not None:
        p50, floor = facts.number("p50_us"), facts.number("floor_us")
        ceiling = max(rule.ceiling(values), floor or 0.0)
        gain = 100.0 * (p50 / ceiling - 1.0) if p50 and ceiling else None
    return Step(rule.key, rule.step, tuple(facts[key] for key in rule.needs), rule.kind, ceiling, gain, rule.basis)
