"""Reason codes of the performance gate: what each means, its usual cause, what to look at next."""

from __future__ import annotations

from gates.core.reason_code import Code, codes_in

WRONG_OUTPUT = Code(
    "performance.wrong_output",
    "The candidate's output is wrong in the timed set-up: launched in a CUDA graph, on other inputs, or after many launches.",
    next_step="Look for state kept between launches and for cached answers.",
)
WRONG_BASELINE_OUTPUT = Code(
    "performance.wrong_baseline_output",
    "The baseline's output is wrong in the timed set-up, so nothing can be compared with it.",
)
OUTPUTS_UNCHECKED = Code(
    "performance.outputs_unchecked",
    "Outputs were not checked before and after timing, so nothing shows that the timed launches did the work.",
)
OTHER_MODE = Code(
    "performance.other_mode",
    (
        "The limits ask for another cache mode than the one the run gated. That mode was timed for context only: without a control and "
        "without output checks of its own."
    ),
)
IMPOSSIBLE = Code(
    "performance.impossible",
    "The time is shorter than the card can move the bytes, do the operations or even launch a kernel in.",
    causes="Work is skipped, or it is not inside the timed window.",
)
CONTROL_OFF = Code(
    "performance.control_off",
    "Two loads of the same binary differ by up to more than 2 %: the machine is not fit to tell kernels apart.",
    next_step="Stop other load on the machine and let the card cool; look for power capping.",
)
TOO_FEW_PAIRS = Code(
    "performance.too_few_pairs",
    "Fewer than 12 valid pairs were measured: the time budget ran out or the card was disturbed.",
)
CLOCK_LOST = Code(
    "performance.clock_lost",
    "The driver reported the clock for only some blocks, so it is not known whether both sides ran at one clock.",
    next_step="The card or its driver had a fault during timing: run again, and look for Xid errors in the kernel log.",
)
THROTTLED = Code(
    "performance.throttled",
    "More than 20 % of the blocks were taken while the clock was throttled.",
    next_step="Let the card cool, or stop what heats it.",
)
REFUSED_SAMPLES = Code(
    "performance.refused_samples",
    "More than a few samples were zero, negative or not finite.",
)
TIMER_TOO_COARSE = Code(
    "performance.timer_too_coarse",
    "A sample is too short against the timer's step or the cost of an event pair.",
)
OTHER_PROCESS = Code(
    "performance.other_process",
    "Another process was on the GPU.",
    next_step="Wait for it, or choose another card.",
)
NO_SAMPLES = Code(
    "performance.no_samples",
    "There is not one usable sample.",
)
INCONSISTENT = Code(
    "performance.inconsistent",
    "The claimed times contradict each other, or the clock of the process that asked for them.",
    causes="A timer may have been changed, samples may be forged, or the card was shared. Nothing is decided.",
)
NOT_ALONE = Code(
    "performance.not_alone",
    (
        "After the measurement the baseline could not be timed in a process without the candidate, so it is unknown whether the "
        "candidate slowed it."
    ),
    next_step="The report has the reason; run again.",
)
HOST_BUSY = Code(
    "performance.host_busy",
    "The host was too busy for the outside clock: every long block was late, each by another delay.",
    next_step="Stop other load on the host, or give the run more cores.",
)
IMPLAUSIBLE = Code(
    "performance.implausible",
    "The baseline takes more than a hundred times as long as the candidate, and more than ten times what the threshold asks for.",
    causes="A wrong unit is more likely than such a gain.",
    next_step="Check what the baseline computes and how it is built. If you expect such a gain, raise min_speedup_pct.",
)
PASS = Code(
    "performance.pass",
    "The interval's low end reaches the threshold, and every other check passed.",
)
NOT_APPLICABLE = Code(
    "performance.not_applicable",
    "task.yaml declares the threshold not applicable; the stage was measured and recorded anyway.",
)
TOO_SLOW = Code(
    "performance.too_slow",
    "The interval's high end is below the threshold: the speed-up asked for is not there.",
)
BAR_WITHIN_INTERVAL = Code(
    "performance.bar_within_interval",
    "After the last look the threshold is inside the interval.",
    next_step="The true speed-up is within a few tenths of a percent of the threshold: make the kernel faster; a new run won't settle it.",
)
WITHIN_NOISE = Code(
    "performance.within_noise",
    (
        "The whole gain, or of several timed shapes a loss, is no larger than what two loads of the same binary may show: the noise "
        "floor and the share of a sample that its event pair takes."
    ),
)
ESTIMATES_DISAGREE = Code(
    "performance.estimates_disagree",
    "The exact interval and the bootstrap fall on different sides of the threshold.",
)
CLOCK_DIFFERED = Code(
    "performance.clock_differed",
    "In clock cycles the verdict is another than in time: the two sides ran at different clocks.",
    next_step="Cool the card or leave it idle for a while, and run again.",
)
SLOWER_P90 = Code(
    "performance.slower_p90",
    "The slow launches (p90 of single launches) are slower than the baseline's.",
)
SLOWER_MEAN = Code(
    "performance.slower_mean",
    "The mean of single launches is slower than the baseline's, while the median is not: rare slow launches.",
)
TAIL_UNCLEAR = Code(
    "performance.tail_unclear",
    "p90 or mean of single launches can't be told apart from a slow-down; see the single samples.",
)
UNSTEADY = Code(
    "performance.unsteady",
    "Single launches scatter more than max_std_us allows.",
)
CLOCK_UNSTEADY = Code(
    "performance.clock_unsteady",
    "Single launches scatter more than max_std_us allows while the card's clock changed by more than 5 %: the machine may be the cause.",
    next_step="Let the card cool, or wait until nothing else uses its power.",
)
NO_P90 = Code(
    "performance.no_p90",
    "A block of single launches has fewer than ten samples, which is too few for a p90.",
)
NO_SINGLES = Code(
    "performance.no_singles",
    "No single-launch samples, so p90, mean and std can't be judged.",
)
NO_BASELINE = Code(
    "performance.no_baseline",
    "Nothing to compare with.",
    next_step="A first rung declares not_applicable: {performance: reason} in task.yaml.",
)
OTHER_SHAPE = Code(
    "performance.other_shape",
    "The evidence was measured on another shape than the limits name.",
)
FAR_FROM_LIMIT = Code(
    "performance.far_from_limit",
    "The kernel reaches a smaller share of the card's limit than min_limit_pct asks for.",
    next_step="See what bounds it: the check names the unit, and ncu's counters show what the kernel waits for.",
)
NO_LIMIT = Code(
    "performance.no_limit",
    "min_limit_pct asks for a share of the card's limit, and none is known: work() names no unit, or the chip is in no table.",
    next_step="Name operations by unit in the problem's work(), for example tensor.fp16.",
)
NO_DEVICE = Code(
    "performance.no_device",
    "No CUDA device: speed is not judged on the emulator.",
    next_step="Run on a machine with a GPU.",
)
CORRECTNESS_FAILED = Code(
    "performance.correctness_failed",
    "A wrong kernel is not timed.",
    next_step="Repair correctness first.",
)
LAUNCH_FAILED = Code(
    "performance.launch_failed",
    "The candidate's launcher returned an error; its message is in the report.",
)
BASELINE_FAILED = Code(
    "performance.baseline_failed",
    "The baseline could not be launched or captured, so there is nothing to compare with.",
)
CAPTURE_FAILED = Code(
    "performance.capture_failed",
    "The launches can't be captured in a CUDA graph: the launcher synchronises, allocates, or uses the default stream.",
    next_step="Use only the stream that it is given.",
)
NOT_CAPTURED = Code(
    "performance.not_captured",
    "Replaying the captured launches writes no output: the kernel runs on a stream of its own, which is not timed.",
    next_step="Launch on the stream argument.",
)
TAMPERED = Code(
    "performance.tampered",
    "Functions of torch, of a clock or of this package are not what they were before the kernels were loaded.",
    next_step="A kernel must leave the process that times it alone.",
)
DEVICE_ERROR = Code(
    "performance.device_error",
    "The CUDA device reported an error during timing (illegal access, lost device).",
    next_step="Run the sanitizer gate.",
)
NO_MEMORY = Code(
    "performance.no_memory",
    "Not enough device memory for the input sets.",
    next_step="Free the card or choose a smaller shape.",
)
RUNNER_DIED = Code(
    "performance.runner_died",
    "The timing process ended without a result; its last words are in the report.",
)
TIME_LIMIT = Code(
    "performance.time_limit",
    "The timing process ran past the task's time limit and was killed.",
)

CODES = codes_in(globals())
