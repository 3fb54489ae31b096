"""Reason codes that several gates share: why a gate could not be run at all.

The code is ``<gate>.<reason>``, e.g. ``performance.no_device``.
"""

from __future__ import annotations

from gates.core.reason_code import Code, codes_in
from gates.core.records import GateResult, Status

UNSUPPORTED = "unsupported"  # the kind of an emulator's finding that is about the emulator, not about the kernel

BUILD_FAILED = Code(
    "build_failed",
    (
        "the stage did not compile, so there is nothing to judge. The compiler's own message is in the sentence, its whole output in "
        "the run's build.log."
    ),
)
NO_TOOL = Code(
    "no_tool",
    "a tool that the gate needs, or the header of a library that the source includes, was not found.",
    next_step="The sentence names it and how to get it; `gates doctor` says which tools were found.",
)
NOT_EMULATED = Code(
    "not_emulated",
    "the CPU emulator can't run the kernel, and the gate needs it without a CUDA device.",
    causes=(
        "Either its kind takes a device (a torch extension; for memory checks a Python kernel, too), or it uses an "
        "instruction or a function of CUDA that the emulator does not have, which the sentence names."
    ),
    next_step=(
        "Write a C launcher for an extension (docs/start/your-kernel.md), or judge the stage on a device. "
        "docs/internals/emulator.md lists what is supported."
    ),
)
NO_DEVICE = Code(
    "no_device",
    "the gate needs a CUDA device and there is none here.",
    next_step="Run `gates run TASK --profile full` on a machine with one.",
)
CORRECTNESS_FAILED = Code(
    "correctness_failed",
    "a wrong kernel is not timed or profiled: its speed means nothing.",
    next_step="Repair correctness first.",
)
DEBUG_BUILD = Code(
    "debug_build",
    (
        "nvcc -G compiles device code for a debugger, without optimisation: its registers, instructions, time and counters are not "
        "those of the kernel. Correctness and memory checks are judged; for the others run without --debug, and without -G in "
        "nvcc_flags, NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS."
    ),
)
NOT_APPLICABLE = Code(
    "not_applicable",
    "task.yaml declares, with a reason, that this gate can't apply to the task.",
)
PASS = Code(
    "pass",
    "every check of the gate passed.",
)
NOTHING_CHECKED = Code(
    "nothing_checked",
    "no check could be made, so the gate came to no verdict.",
)

REASONS = codes_in(globals())

WORDS = {  # that verdicts use, beside codes
    "pass": PASS.explanation,
    "fail": "at least one check of the gate failed, so the decision is reject. The verdict names the check, what was observed, the "
    "limit and a code.",
    "inconclusive": "the gate ran, and its evidence neither keeps nor breaks a limit for certain, or some of it is missing. It never "
    "counts as a pass: the "
    "decision is hold at best. The gate's code says what to do.",
    "not run": "the gate could not run, for the reason in its sentence (no CUDA device, a missing tool, a wrong kernel). It never "
    "counts as a pass.",
    "n/a": NOT_APPLICABLE.explanation,
    "not applicable": NOT_APPLICABLE.explanation,
    "weak": "a case that proves little: an answer without the kernel's work, such as zeros or the mean of an input, keeps all its "
    "limits too. It is named and "
    "not counted. A weak case of the task's own shapes fails the gate (correctness.too_weak). One of an odd shape, an edge shape or "
    "special inputs does "
    "not: of one element, for example, a mean is that element, whatever the kernel adds up.",
    "threshold": "the speed-up that the task asks for, as a ratio of the p50 times, baseline over candidate: 15 % is a threshold of 1.150.",
    "interval": "the range of the speed-up at the stated confidence, by the differences of interleaved pairs of blocks. The "
    "gate passes if its low end reaches the threshold, and fails if its high end does not.",
    "noise floor": "how far two loads of one binary differ in the same run. A smaller difference does not count.",
    "limit": "in the performance gate, the least time that the card allows one launch: the largest of the operations by unit, the bytes "
    "from memory and an empty launch, each at the card's peak. The sentence names which it is. In every other gate, what task.yaml allows.",
    "cold l2": "each launch is timed after the level 2 cache was overwritten, as if other kernels had run in between. Warm: after a launch "
    "on the same inputs.",
}


def not_run(gate: str, reason: Code, sentence: str) -> GateResult:
    """A gate that was not run, for one of ``REASONS``."""
    return GateResult(gate, Status.NOT_RUN, reason.of(gate), sentence)


def build_failed(gate: str, sentence: str) -> GateResult:
    """A gate that failed because the stage does not compile."""
    return GateResult(gate, Status.FAIL, BUILD_FAILED.of(gate), sentence)
