"""Reason codes of the ptxas gate: what each means, its usual cause, what to look at next."""

from __future__ import annotations

from gates.core.reason_code import Code, codes_in

PASS = Code(
    "ptxas.pass",
    "Every kernel keeps within its budget on every architecture.",
)
NO_LOG = Code(
    "ptxas.no_log",
    "There is no compiler log for an architecture: the compiler is missing or the build failed.",
    next_step="`gates doctor` says which tool is missing; the build log says what failed.",
)
LOG_INCOMPLETE = Code(
    "ptxas.log_incomplete",
    "The compiler's log is cut short or lacks a figure of a kernel, so its resources are not known.",
    next_step="Delete the build folder and build again; a full disk or a killed compiler leaves such a log.",
)
KERNEL_MISSING = Code(
    "ptxas.kernel_missing",
    "task.yaml names a kernel that the compiled code does not hold.",
    causes="It was renamed, compiled out by a toggle, or never instantiated (a template that nothing launches).",
)
UNLISTED_KERNEL = Code(
    "ptxas.unlisted_kernel",
    "The launcher launches a kernel that task.yaml does not name, so no gate judges it as the stage's: a fallback, or a helper.",
    next_step="Name every kernel of the stage in `kernels:`, and let the launcher return an error where it can't do the work.",
)
KERNEL_VANISHED = Code(
    "ptxas.kernel_vanished",
    "A kernel of the baseline is not in this build, and task.yaml does not declare that.",
    next_step="If that is intended, take it out of `kernels:`.",
)
REGISTERS = Code(
    "ptxas.registers",
    "More registers per thread than the budget: fewer warps fit on an SM.",
    next_step="Shorten live ranges, make tiles smaller, unroll less, or set __launch_bounds__.",
)
SPILLS = Code(
    "ptxas.spills",
    "Registers were spilled to local memory, which costs bandwidth and latency in the inner loop.",
    causes=(
        "Usual causes: a register cap (-maxrregcount, __launch_bounds__) that is too low, a large array indexed at run time, too much "
        "unrolling."
    ),
)
SMEM = Code(
    "ptxas.smem",
    "More shared memory per CTA (static and dynamic) than the budget.",
    next_step="Make tiles or stages smaller, or reuse a buffer between phases.",
)
SMEM_UNKNOWN = Code(
    "ptxas.smem_unknown",
    "How much dynamic shared memory the kernel is launched with is not known: no launch of it was recorded.",
    next_step="The emulator records launches, so its build must succeed and the shapes must reach the kernel.",
)
SMEM_OPT_IN = Code(
    "ptxas.smem_opt_in",
    (
        "A launch with more than 48 KiB of shared memory in all fails unless the launcher first calls cudaFuncSetAttribute(kernel, "
        "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) with at least the dynamic size."
    ),
)
SMEM_CHIP = Code(
    "ptxas.smem_chip",
    "The CTA needs more shared memory than this chip gives to one: every launch fails.",
)
THREADS = Code(
    "ptxas.threads",
    "More threads per CTA than the chip allows (1,024): every launch fails with 'invalid configuration'.",
    next_step="Launch fewer threads per CTA.",
)
REGISTERS_PER_CTA = Code(
    "ptxas.registers_per_cta",
    (
        "Registers of all threads of a CTA, as they are allocated (by warp in steps of 256), exceed the 65,536 of a CTA: every launch "
        "fails with 'too many resources requested'."
    ),
    next_step="Use fewer threads or set __launch_bounds__.",
)
UNKNOWN_CHIP = Code(
    "ptxas.unknown_chip",
    "The table of chips does not know this architecture, so its limits can't be judged.",
    next_step="gates/hardware/chips.py has the table.",
)
RELOCATABLE = Code(
    "ptxas.relocatable",
    "Relocatable device code: ptxas saw one file's share, and the linker's figures are missing.",
    next_step="Link with -Xnvlink -v, or build without -rdc=true.",
)
CUBIN_DIFFERS = Code(
    "ptxas.cubin_differs",
    "The log and the machine code disagree: they are not of the same compilation.",
    next_step="Delete the build folder.",
)
NOTHING_CHECKED = Code(
    "ptxas.nothing_checked",
    "No architecture was asked for, so nothing was judged.",
)

CODES = codes_in(globals())
