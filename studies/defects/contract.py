"""Breaches of the contract, as launchers of toolbox/mix.cu: outputs, buffers, streams, errors, the process, cheating."""

from __future__ import annotations

from defects.record import Defect

CORRECTNESS = ("correctness",)
SANITIZER = ("sanitizer",)
PERFORMANCE = ("performance",)


def _launcher(
    name: str,
    what: str,
    *kernels: str,
    kind: str = "contract",
    cpu: tuple[str, ...] = CORRECTNESS,
    device: tuple[str, ...] = CORRECTNESS,
    **more: object,
) -> Defect:
    return Defect(name, kind, what, cpu, device, entry=name, kernels=kernels or ("mix_kernel",), **more)  # type: ignore[arg-type]


OUTPUTS = (
    _launcher("nan_output", "one element is NaN", "spoilt_kernel"),
    _launcher("inf_output", "one element is infinite", "spoilt_kernel"),
    _launcher("all_zeros", "zeros for every input", "constant_kernel"),
    _launcher("constant_output", "0.25 for every input", "constant_kernel"),
    _launcher("mean_of_v", "the mean of v instead of the weighted mean", "mean_kernel"),
    _launcher("never_written", "the kernel runs and writes nothing", "idle_kernel"),
    _launcher("nothing_launched", "the launcher returns 0 and launches nothing"),
    _launcher("written_again", "another stream spoils the right answer after the call", "mix_kernel", "late_kernel", only="stream"),
    _launcher("input_mutated", "one element of each row of the scores is set to 0", "mutating_kernel"),
    _launcher("reads_its_output", "blends the answer with what the output held", "blending_kernel"),
    _launcher("keeps_state", "adds a drift that grows by 1e-6 a launch", "drifting_kernel"),
    _launcher("atomic_order", "sums by atomicAdd in the order in which blocks finish", "zero_kernel", "atomic_kernel"),
    _launcher("unwritten_scratch", "adds 0 times scratch memory that nobody wrote", "scratch_kernel", device=SANITIZER),
    _launcher("divergent_barrier", "half of a warp passes by the barrier in which the others wait", "divergent_kernel", device=SANITIZER),
)
PROCESS = (
    _launcher("default_stream", "launches on the default stream", only="stream", cpu=()),
    _launcher("returns_early", "a thread of its own launches half a second after the return", process=True),
    _launcher("swallowed_error", "asks for 2048 threads a block and hides the refusal"),
    _launcher("fake_verdict", "zeros, and PASS with result lines on stdout", "constant_kernel"),
    _launcher("forged_result", "zeros, and result lines in the runner's own result file", "constant_kernel"),
    _launcher("hangs", "the kernel never ends", "endless_kernel", process=True, time_limit_s=20),
    _launcher("crashes", "writes to address 64", "wild_kernel", process=True),
    _launcher("aborts", "the launcher calls abort()", process=True),
    _launcher("exits_with_0", "the launcher ends the process with exit code 0", process=True),
    _launcher("takes_all_memory", "allocates until there is no memory left", alone=True),
)
CHEATS = (
    _launcher("cached_by_samples", "gives a kept answer where four samples of the inputs are the same"),
    _launcher("cached_by_address", "does nothing where the buffers are those of an earlier call"),
    _launcher("detects_poison", "works only where the output holds NaN", "suspicious_kernel"),
    _launcher("detects_timing_loop", "stops working after 500 launches", "counting_kernel", cpu=(), device=PERFORMANCE, only="speed"),
    _launcher(
        "detects_capture", "works only outside stream capture", "mix_kernel", "idle_kernel", cpu=(), device=PERFORMANCE, only="speed"
    ),
    _launcher(
        "slower", "takes a multiple of the baseline's time", "slower_kernel", kind="resources", cpu=(), device=PERFORMANCE, only="speed"
    ),
    _launcher("falls_back", "launches another kernel than task.yaml names", kind="resources", cpu=("ptxas",), device=("ptxas",)),
    _launcher(
        "local_table",
        "a table in local memory, indexed at run time",
        "local_table_kernel",
        kind="resources",
        cpu=("sass",),
        device=("sass",),
        source="local_table.cu",
    ),
)

LAUNCHERS = (*OUTPUTS, *PROCESS, *CHEATS)
