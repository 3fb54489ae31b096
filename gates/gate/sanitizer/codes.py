"""Reason codes of the sanitizer gate: what each means, its usual cause, what to look at next."""

CODES = {
    "sanitizer.pass": "every tool ran the kernel to its end and reported nothing.",
    "sanitizer.nothing_checked": "no tool was run.",
    "sanitizer.finding": "a checker reported a fault. Its place is named: look at the bounds of the last tile, the barrier between a write and a read of shared memory, and values used before they are set; for a SEGV at an argument, check the order of ARGUMENTS against the launcher's.",
    "sanitizer.launch_error": "the launcher returned an error under the checker, so the kernel was not checked to its end.",
    "sanitizer.crash": "the replay died under the checker without a report. Run it alone; a write far out of bounds is the usual cause, or another order of ARGUMENTS than the launcher's.",
    "sanitizer.not_started": "the checker or its replay ended before the kernel was loaded, so nothing was checked. The tool's own line is shown. If that is about AddressSanitizer's memory, lift a limit on virtual memory (ulimit -v unlimited, RLIMIT_AS of a batch system): AddressSanitizer reserves 16 TiB of addresses.",
    "sanitizer.timeout": "the replay reached the time limit under the checker. On the emulator that is a hang; on a device the tool may only be slow: raise time_limit_s.",
    "sanitizer.not_available": "the checker is not installed here. compute-sanitizer comes with the CUDA toolkit or the wheel nvidia-cuda-sanitizer-api; libasan with g++.",
    "sanitizer.not_supported": "compute-sanitizer does not support this device or driver. Use a newer one, or run the gate on the emulator (--profile cpu).",
    "sanitizer.no_summary": "the checker wrote no summary line, so it is not known what it saw. See its log in the run directory.",
    "sanitizer.kernel_not_seen": "the checker finished, but the replay did not prove its launches: nothing was checked.",
    "sanitizer.exit_code": "the summary counts no error, but the process did not exit with 0. See its log in the run directory.",
    "sanitizer.tool_missing": "one of the four tools was not run.",
}
