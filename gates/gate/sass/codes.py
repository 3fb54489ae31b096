"""Reason codes of the sass gate: what each means, its usual cause, what to look at next."""

CODES = {
    "sass.pass": "Every kernel holds the instructions that its task asks for, and none that it forbids.",
    "sass.no_dump": "There is no disassembly: cuobjdump and nvdisasm are missing, or the build failed. Install them with "
    "`pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`, or see the build log.",
    "sass.kernel_missing": "task.yaml names a kernel that the machine code does not hold. It was renamed, compiled out by a "
    "toggle, or never instantiated.",
    "sass.required": "A kernel holds fewer instructions of a class than its task asks for: the compiled code is not what the stage "
    "claims. Usual causes: a toggle that does not reach the code, the scalar branch taken, types that have no tensor-core form.",
    "sass.forbidden": "A kernel holds instructions of a forbidden class. Local memory (LDL, STL) comes from spills, arrays indexed "
    "at run time, and called functions.",
    "sass.unreadable": "The disassembly lists a function without instructions. The tool is probably older than the code: use the "
    "cuobjdump of the compiler's own toolkit.",
    "sass.no_limits": "task.yaml asks nothing of the machine code, so the gate judges nothing. Say what must be there or must not, such as "
    "sass: {forbid: [local_memory]}, or declare sass under not_applicable.",
    "sass.nothing_checked": "No architecture was asked for, so nothing was judged.",
}
