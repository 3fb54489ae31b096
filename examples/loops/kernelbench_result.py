"""KernelBench: the fields of its KernelExecResult (times in ms, -1 for none), from a task that `gates import kernelbench` wrote."""

import gates


def eval_kernel(task, kernel_src, source, **terms):
    found = gates.evaluate(task, files={source: kernel_src}, **{"stage": "speed", **terms})
    timed = found.valid and found.score is not None
    return {
        "compiled": not found.code.endswith(".build_failed"),
        "correctness": found.valid,
        "metadata": {"code": found.code, "feedback": found.feedback, "evidence": found.evidence, **found.metrics},
        "runtime": found.p50_us / 1000 if timed else -1.0,
        "speedup": found.score if timed else -1.0,
    }
