"""Reason codes of the sass gate: what each means, its usual cause, what to look at next."""

from __future__ import annotations

from gates.core.reason_code import Code, codes_in

PASS = Code(
    "sass.pass",
    "Every kernel holds the instructions that its task asks for, and none that it forbids.",
)
NO_DUMP = Code(
    "sass.no_dump",
    "There is no disassembly: cuobjdump and nvdisasm are missing, or the build failed.",
    next_step="Install them with `pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`, or see the build log.",
)
KERNEL_MISSING = Code(
    "sass.kernel_missing",
    "task.yaml names a kernel that the machine code does not hold.",
    causes="It was renamed, compiled out by a toggle, or never instantiated.",
)
REQUIRED = Code(
    "sass.required",
    "A kernel holds fewer instructions of a class than its task asks for: the compiled code is not what the stage claims.",
    causes="Usual causes: a toggle that does not reach the code, the scalar branch taken, types that have no tensor-core form.",
)
FORBIDDEN = Code(
    "sass.forbidden",
    "A kernel holds instructions of a forbidden class.",
    causes="Local memory (LDL, STL) comes from spills, arrays indexed at run time, and called functions.",
)
UNREADABLE = Code(
    "sass.unreadable",
    "The disassembly lists a function without instructions.",
    causes="The tool is probably older than the code.",
    next_step="Use the cuobjdump of the compiler's own toolkit.",
)
NO_LIMITS = Code(
    "sass.no_limits",
    "task.yaml asks nothing of the machine code, so the gate judges nothing.",
    next_step="Say what must be there or must not, such as sass: {forbid: [local_memory]}, or declare sass under not_applicable.",
)
NOTHING_CHECKED = Code(
    "sass.nothing_checked",
    "No architecture was asked for, so nothing was judged.",
)

CODES = codes_in(globals())
