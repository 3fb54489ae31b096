"""Reason codes of the correctness gate: what each means, its usual cause, what to look at next."""

from __future__ import annotations

from gates.core.reason_code import Code, codes_in
from gates.gate.faults import faults_of

PASS = Code(
    "correctness.pass",
    "every case kept every limit.",
)
NOTHING_CHECKED = Code(
    "correctness.nothing_checked",
    "no case was asked for.",
    next_step="Name shapes and seeds in task.yaml.",
)
CRASH = Code(
    "correctness.crash",
    "the runner process died in this case.",
    next_step=(
        "Run it alone with runner.py; an illegal access is the usual cause, see the sanitizer gate, and another order of ARGUMENTS than "
        "the launcher's is one, too."
    ),
)
TIMEOUT = Code(
    "correctness.timeout",
    "the case reached the time limit and its process group was killed: a hang, or time_limit_s is too short for this device.",
)
MISSING_CASES = Code(
    "correctness.missing_cases",
    "a case that was asked for has no result; exit 0 alone proves nothing.",
    next_step="See the runner's output in the run's log.",
)
CASES = Code(
    "correctness.cases",
    "fewer headline cases passed than were asked for; the other checks say which and why.",
)
FORGED = Code(
    "correctness.forged",
    "the result file holds lines that this run's runner did not write.",
    next_step="Nothing in the kernel or the problem may write there.",
)
LAUNCH_ERROR = Code(
    "correctness.launch_error",
    "the launcher returned an error, so the kernel did not run.",
    next_step="The message names the argument or the CUDA error.",
)
OTHER_STREAM = Code(
    "correctness.other_stream",
    (
        "the kernel launches on the default stream instead of the current one: its outputs are wrong on the current stream and right on "
        "the default stream."
    ),
    next_step=(
        "Give the stream as the fourth parameter of <<<grid, block, bytes, stream>>>: at::cuda::getCurrentCUDAStream() in an extension, "
        "the argument `stream` in a C launcher. If the kernel's own harness uses the default stream, write `stream: default` into "
        "task.yaml."
    ),
)
CHECK = Code(
    "correctness.check",
    "the problem's own check(outputs, expected) refuses the outputs; the message has its text.",
)
NO_LAUNCH = Code(
    "correctness.no_launch",
    "the launcher returned 0, but no kernel was launched.",
)
PROBLEM_ERROR = Code(
    "correctness.problem_error",
    "the problem module raised an error or gave something that can't be judged.",
    next_step="Fix the problem module; the kernel is not to blame.",
)
BAD_OUTPUT = Code(
    "correctness.bad_output",
    "the kernel gave outputs that can't be compared: no tensors, or others than the reference's in number, name, shape or dtype.",
    next_step=(
        "A function returns one tensor, several in the order of make_outputs (else of the reference), or a mapping by name, or writes "
        "into outputs that its arguments name."
    ),
)
NO_MEMORY = Code(
    "correctness.no_memory",
    "not enough memory for the inputs, the buffers or the float64 reference.",
    next_step="Use a smaller shape or compute the reference in slices.",
)
TOO_LARGE = Code(
    "correctness.too_large",
    "the case was not tried: by estimate its reference takes more memory than is free, or more time than the task allows.",
    next_step="Run it on a machine with more memory, or set time_limit_s. The other shapes are judged here.",
)
NON_FINITE = Code(
    "correctness.non_finite",
    "the output holds NaN or infinity.",
    causes=(
        "Usual causes: shared memory read before it was written (a missing __syncthreads; on the emulator such memory holds NaN in the "
        "first call), an uninitialised accumulator, a read past a buffer (the sanitizer gate names its line), 0/0, overflow of fp16."
    ),
)
UNWRITTEN = Code(
    "correctness.unwritten",
    "elements still hold the poison of every call: nobody wrote them.",
    causes="Usual causes: the tail of a tile, a grid too small, a kernel on another stream than the one given.",
)
GUARD = Code(
    "correctness.guard",
    "bytes next to a buffer changed: a write out of bounds.",
    causes="Usual cause: the last tile is stored without checking its bounds.",
)
INPUT_MUTATED = Code(
    "correctness.input_mutated",
    "an input changed.",
    next_step="Inputs are const: write to outputs only.",
)
NOT_REPEATABLE = Code(
    "correctness.not_repeatable",
    (
        "two calls on equal inputs gave different bits: a race, an order of threads that matters, shared memory read before it was "
        "written (on the emulator it holds something else in each call), a read past a buffer (the sanitizer gate names its line), "
        "state kept between calls, or floating-point atomics, whose order of sums differs: results must be the same bits each time."
    ),
)
STALE_ANSWER = Code(
    "correctness.stale_answer",
    (
        "a launch on inputs of which a few elements were exchanged gave an answer that is not theirs: an answer kept from an earlier "
        "launch, or elements that are not read."
    ),
)
EMULATOR_FINDING = Code(
    "correctness.emulator_finding",
    "the emulator saw a fault that has no code of its own.",
    next_step="The message names the place.",
)
MAX_ABS_ERR = Code(
    "correctness.max_abs_err",
    "the largest error breaks the limit.",
    next_step="Look at the worst element's index: a tail, a tile edge and a whole row have different causes.",
)
MEAN_ABS_ERR = Code(
    "correctness.mean_abs_err",
    "the mean error breaks the limit: wrong everywhere by a little.",
    causes="Usual causes: a scale, a missing division, a biased rounding.",
)
BAD_PCT = Code(
    "correctness.bad_pct",
    "too many elements are off by more than bad_atol.",
)
MAX_ERR_OVER_BOUND = Code(
    "correctness.max_err_over_bound",
    "an error is larger than rounding in the kernel's formats explains, at that element.",
    causes=(
        "Usual causes: a lower-precision intermediate than the problem's error_bound allows for, a lost or doubled term, a wrong scale "
        "where outputs are small."
    ),
)
NO_BOUND = Code(
    "correctness.no_bound",
    "max_err_over_bound is asked for, and the evidence has no error bound: the problem has no error_bound, or the run is older than it.",
    next_step="Give the problem one, or leave the limit out.",
)
END_TO_END = Code(
    "correctness.end_to_end",
    (
        "the error against the result without the kernel's input format breaks its limit: the format or its scales, rather than the "
        "kernel, if the other errors are small."
    ),
)
WORSE_THAN_BASELINE = Code(
    "correctness.worse_than_baseline",
    "the error grew against the baseline by more than one rounding of the output's format.",
    causes="Usual causes: a lower-precision intermediate, a changed scale.",
)
NO_BASELINE = Code(
    "correctness.no_baseline",
    "match_baseline is asked for, and the baseline has no figures for this case.",
    next_step="Name a baseline, or set match_baseline: false for a first rung.",
)
OTHER_INPUTS = Code(
    "correctness.other_inputs",
    "candidate and baseline did not see the same inputs, so their errors can't be compared.",
    next_step="make_inputs must depend on shape and seed alone.",
)
SAME_INPUTS = Code(
    "correctness.same_inputs",
    "two seeds gave equal inputs: the generator ignores its seed, so the seeds prove nothing.",
)
TOO_WEAK = Code(
    "correctness.too_weak",
    (
        "the check proves little: a trivial output, which leaves out the kernel's work (zeros, the mean, shifted rows, one of the "
        "problem's own), keeps the limits, the reference does not change with the inputs, or it ignores one of them."
    ),
    next_step=(
        "Draw inputs that matter and tighten the limits. An odd or edge shape or special inputs where this can't be helped is a weak "
        "case: named, not counted, and no failure."
    ),
)
LIMIT_TOO_TIGHT = Code(
    "correctness.limit_too_tight",
    (
        "the limit is smaller than one rounding to the output's format, so no kernel can keep it. The kernel's error is nearly as small "
        "as the format allows."
    ),
    next_step="Widen the limit in task.yaml.",
)
ROUGH_REFERENCE = Code(
    "correctness.rough_reference",
    "the reference is given or computed in half precision, so its rounding counts as the kernel's error.",
    next_step="Compute it in float64 from the given inputs, without autocast.",
)
NO_ELEMENTS = Code(
    "correctness.no_elements",
    "the outputs of these cases have no elements, so nothing was compared.",
    next_step="Name a shape with elements.",
)
NO_LIMIT = Code(
    "correctness.no_limit",
    "task.yaml gives no limit for the errors.",
    next_step="Set max_abs_err and mean_abs_err.",
)

FAULTS = faults_of("correctness")  # seen by the emulator
CODES: dict[str, Code] = {**codes_in(globals()), **{code: code for code in FAULTS.values()}}


def of(reason: str) -> Code:
    """The code of a case's status or of a figure with a limit, which has its name."""
    return CODES[f"correctness.{reason}"]
