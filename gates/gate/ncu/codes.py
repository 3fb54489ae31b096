"""Reason codes of the ncu gate: what each means, its usual cause, what to look at next."""

CODES = {
    "ncu.pass": "Every counter keeps its limit.",
    "ncu.not_applicable": "task.yaml declares the gate not applicable; the counters were recorded anyway.",
    "ncu.not_risen": "A counter that the stage claims to raise is not above the baseline's.",
    "ncu.not_steady": "A counter rose above the baseline's by more than the task allows.",
    "ncu.below_min": "A counter is below its minimum.",
    "ncu.above_max": "A counter is above its maximum.",
    "ncu.absent": "ncu gave no value for a metric. The chip or this version of ncu does not have it; the report names the source.",
    "ncu.out_of_range": "A counter has a value that no card can have: a share above 100 %, a negative count, more bytes than its memory moves in that time, or a "
    "unit that ncu does not use for it. The whole profile is in doubt. Profile again with the GPU idle.",
    "ncu.time_disagrees": "Nsight Compute's duration of a launch and the claimed time of the performance gate differ by more than a factor of 2 to 3. "
    "Work may be missing from the timed launches, times may be forged, or a kernel that task.yaml does not name may take most of the time.",
    "ncu.unknown_metric": "task.yaml names a metric that is not in gates/hardware/ncu_metrics.py.",
    "ncu.no_baseline": "rises and steady need the baseline's counters. A first rung declares not_applicable: {ncu: reason}.",
    "ncu.baseline_not_profiled": "The baseline's kernel could not be profiled, so there is nothing to compare with.",
    "ncu.nothing_checked": "task.yaml has no limit for the ncu gate.",
    "ncu.no_device": "No CUDA device: there are no counters on the emulator.",
    "ncu.correctness_failed": "A wrong kernel is not profiled. Repair correctness first.",
    "ncu.no_tool": "ncu was not found. Install Nsight Compute or put it into PATH.",
    "ncu.unknown_chip": "The table of chips has no counters for this chip: its row in gates/hardware/chips.py says why, or is missing.",
    "ncu.no_permission": "The driver keeps the counters from users (ERR_NVGPUCTRPERM). Run as root, load the driver with "
    "NVreg_RestrictProfilingToAdminUsers=0, or start the container with --cap-add=SYS_ADMIN.",
    "ncu.counters_taken": "Another tool holds the counters, usually DCGM: dcgmi profile --pause.",
    "ncu.metrics_inaccessible": "ncu can't read these metrics here; on a MIG slice some are not available.",
    "ncu.no_kernel": "No kernel of the task's names was profiled. Compare kernels in task.yaml with the launches in the report.",
    "ncu.ambiguous_kernel": "Several launches match a kernel name. Give the kernels names of their own in task.yaml.",
    "ncu.not_launched": "The profiled program did not prove that it launched the kernel; its last words are in the report.",
    "ncu.time_limit": "ncu ran past the time limit and was killed.",
    "ncu.failed": "ncu ended without a report; its last words are in the report.",
    "ncu.unreadable": "The profile can't be read. pip install ncu-report, or use the ncu that wrote it.",
}
