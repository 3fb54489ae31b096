"""Reason codes of the sanitizer gate: what each means, its usual cause, what to look at next."""

from __future__ import annotations

from gates.core.reason_code import Code, codes_in
from gates.gate.faults import faults_of

PASS = Code(
    "sanitizer.pass",
    "every tool ran the kernel to its end and reported nothing.",
)
NOTHING_CHECKED = Code(
    "sanitizer.nothing_checked",
    "no tool was run.",
)
FINDING = Code(
    "sanitizer.finding",
    "a checker reported a fault that has no code of its own.",
    next_step="Its place and the tool's own words are shown.",
)
LAUNCH_ERROR = Code(
    "sanitizer.launch_error",
    "the launcher returned an error under the checker, so the kernel was not checked to its end.",
)
CRASH = Code(
    "sanitizer.crash",
    "the replay died under the checker without a report.",
    next_step="Run it alone; a write far out of bounds is the usual cause, or another order of ARGUMENTS than the launcher's.",
)
NOT_STARTED = Code(
    "sanitizer.not_started",
    "the checker or its replay ended before the kernel was loaded, so nothing was checked.",
    next_step="The tool's own line is shown.",
)
TIMEOUT = Code(
    "sanitizer.timeout",
    "the replay reached the time limit under the checker.",
    next_step="On the emulator that is a hang; on a device the tool may only be slow: raise time_limit_s.",
)
NOT_AVAILABLE = Code(
    "sanitizer.not_available",
    "the checker is not installed here.",
    next_step="compute-sanitizer comes with the CUDA toolkit or the wheel nvidia-cuda-sanitizer-api.",
)
NOT_SUPPORTED = Code(
    "sanitizer.not_supported",
    "compute-sanitizer does not support this device or driver.",
    next_step="Use a newer one, or run the gate on the emulator (--profile cpu).",
)
NO_SUMMARY = Code(
    "sanitizer.no_summary",
    "the checker wrote no summary line, so it is not known what it saw.",
    next_step="See its log in the run directory.",
)
KERNEL_NOT_SEEN = Code(
    "sanitizer.kernel_not_seen",
    "the checker finished, but the replay did not prove its launches: nothing was checked.",
)
EXIT_CODE = Code(
    "sanitizer.exit_code",
    "the summary counts no error, but the process did not exit with 0.",
    next_step="See its log in the run directory.",
)
TOOL_MISSING = Code(
    "sanitizer.tool_missing",
    "one of the four tools was not run.",
)

FAULTS = faults_of("sanitizer")
CODES: dict[str, Code] = {**codes_in(globals()), **{code: code for code in FAULTS.values()}}
