"""KernelAgent: what its OptimizationOrchestrator takes as `verification_worker` and as `benchmarker`."""

import math
from pathlib import Path

import gates


class Gates:
    def __init__(self, task, source, **terms):
        self.task, self.source, self.terms = task, source, terms

    def verify_with_refinement(self, kernel_code, test_code="", problem_description=""):
        found = gates.evaluate(self.task, files={self.source: kernel_code}, **{**self.terms, "stage": "memory"})
        return found.valid, kernel_code, "" if found.valid else found.feedback

    def benchmark_kernel(self, kernel_file, problem_file=None, baseline_file=None):
        found = gates.evaluate(self.task, files={self.source: Path(kernel_file).read_text()}, **{**self.terms, "stage": "speed"})
        timed = found.valid and found.score is not None
        return {"time_ms": found.p50_us / 1000 if timed else math.inf, "speedup": found.score if timed else 0.0}

    def benchmark_pytorch(self, problem_file=None, dtype=None):
        return {"time_ms": math.inf}  # the orchestrator then leaves this comparison out
