"""EvoToolkit 2: `Runner(evaluator=GatesEvaluator("stage2", "stage2_wmma_pv.cu"), …)`. A candidate is the whole text of one source."""

from evotoolkit.core import EvaluationResult, TaskSpec

import gates


class GatesEvaluator:
    def __init__(self, task, source, **terms):
        self.task, self.terms = task, terms
        self.spec = TaskSpec(task, f"Make the kernel in {source} faster.", "cuda", source)

    def evaluate(self, files):
        found = gates.evaluate(self.task, files=files, **{"stage": "speed", **self.terms})
        return EvaluationResult(found.valid, found.score, found.feedback, dict(found.metrics))
