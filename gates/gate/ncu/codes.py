"""Reason codes of the ncu gate: what each means, its usual cause, what to look at next."""

from __future__ import annotations

from gates.core.reason_code import Code, codes_in

PASS = Code(
    "ncu.pass",
    "Every counter keeps its limit.",
)
NOT_APPLICABLE = Code(
    "ncu.not_applicable",
    "task.yaml declares the gate not applicable; the counters were recorded anyway.",
)
NOT_RISEN = Code(
    "ncu.not_risen",
    "A counter that the stage claims to raise is not above the baseline's.",
)
NOT_STEADY = Code(
    "ncu.not_steady",
    "A counter rose above the baseline's by more than the task allows.",
)
BELOW_MIN = Code(
    "ncu.below_min",
    "A counter is below its minimum.",
)
ABOVE_MAX = Code(
    "ncu.above_max",
    "A counter is above its maximum.",
)
ABSENT = Code(
    "ncu.absent",
    "ncu gave no value for a metric.",
    causes="The chip or this version of ncu does not have it; the report names the source.",
)
OUT_OF_RANGE = Code(
    "ncu.out_of_range",
    (
        "A counter has a value that no card can have: a share above 100 %, a negative count, more bytes than its memory moves in that "
        "time, or a unit that ncu does not use for it. The whole profile is in doubt."
    ),
    next_step="Profile again with the GPU idle.",
)
TIME_DISAGREES = Code(
    "ncu.time_disagrees",
    "Nsight Compute's duration of a launch and the claimed time of the performance gate differ by more than a factor of 2 to 3.",
    causes=(
        "Work may be missing from the timed launches, times may be forged, or a kernel that task.yaml does not name may take most of "
        "the time."
    ),
)
UNKNOWN_METRIC = Code(
    "ncu.unknown_metric",
    "task.yaml names a metric that is not in gates/hardware/ncu_metrics.py.",
)
NO_BASELINE = Code(
    "ncu.no_baseline",
    "rises and steady need the baseline's counters.",
    next_step="A first rung declares not_applicable: {ncu: reason}.",
)
BASELINE_NOT_PROFILED = Code(
    "ncu.baseline_not_profiled",
    "The baseline's kernel could not be profiled, so there is nothing to compare with.",
)
NOTHING_CHECKED = Code(
    "ncu.nothing_checked",
    "task.yaml has no limit for the ncu gate.",
)
NO_DEVICE = Code(
    "ncu.no_device",
    "No CUDA device: there are no counters on the emulator.",
)
CORRECTNESS_FAILED = Code(
    "ncu.correctness_failed",
    "A wrong kernel is not profiled.",
    next_step="Repair correctness first.",
)
NO_TOOL = Code(
    "ncu.no_tool",
    "ncu was not found.",
    next_step="Install Nsight Compute or put it into PATH.",
)
UNKNOWN_CHIP = Code(
    "ncu.unknown_chip",
    "The table of chips has no counters for this chip: its row in gates/hardware/chips.py says why, or is missing.",
)
NO_PERMISSION = Code(
    "ncu.no_permission",
    "The driver keeps the counters from users (ERR_NVGPUCTRPERM).",
    next_step="Run as root, load the driver with NVreg_RestrictProfilingToAdminUsers=0, or start the container with --cap-add=SYS_ADMIN.",
)
COUNTERS_TAKEN = Code(
    "ncu.counters_taken",
    "Another tool holds the counters, usually DCGM: dcgmi profile --pause.",
)
METRICS_INACCESSIBLE = Code(
    "ncu.metrics_inaccessible",
    "ncu can't read these metrics here; on a MIG slice some are not available.",
)
NO_KERNEL = Code(
    "ncu.no_kernel",
    "No kernel of the task's names was profiled.",
    next_step="Compare kernels in task.yaml with the launches in the report.",
)
AMBIGUOUS_KERNEL = Code(
    "ncu.ambiguous_kernel",
    "Several launches match a kernel name.",
    next_step="Give the kernels names of their own in task.yaml.",
)
NOT_LAUNCHED = Code(
    "ncu.not_launched",
    "The profiled program did not prove that it launched the kernel; its last words are in the report.",
)
TIME_LIMIT = Code(
    "ncu.time_limit",
    "ncu ran past the time limit and was killed.",
)
FAILED = Code(
    "ncu.failed",
    "ncu ended without a report; its last words are in the report.",
)
UNREADABLE = Code(
    "ncu.unreadable",
    "The profile can't be read.",
    next_step="pip install ncu-report, or use the ncu that wrote it.",
)

CODES = codes_in(globals())


def explanation(code: str) -> str:
    """What evidence's code means; "" for a code that this version does not know."""
    return CODES[code].explanation if code in CODES else ""
