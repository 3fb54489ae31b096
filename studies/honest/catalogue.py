"""All honest kernels that are tried here, as attacks of no kind; those that other tests judge are named by where they are judged."""

from __future__ import annotations

from pathlib import Path

from exploits.catalogue import TWINS, comments, docstrings
from exploits.record import Exploit

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CASES_FOLDER = HERE / "cases"
CASES = tuple(sorted(path.parent.name for path in CASES_FOLDER.glob("*/task.yaml")))  # unusual ones, with tasks of their own
# The CPU's emulator has no version of these, and says so.
NOT_EMULATED = (
    "h_cooperative_groups",
    "h_cub_block_reduce",
    "h_cuda_launch_kernel",
    "h_nontrivial_malloc_async",
    "h_ptx_compiler_barrier",
    "h_ptx_mma_cp_async",
    "h_wmma_bf16",
    "h_cpp20",
    "h_int_hadd",
    "h_sum_occupancy_query",
)


def _honest(kind: str, source: str, tries: dict[str, str], **more: str) -> tuple[Exploit, ...]:
    return tuple(Exploit(name, "honest", kind, text, (), source=f"honest/{source}", **more) for name, text in tries.items() if text)


COMPILED = Exploit("compiled", "honest", "python", "torch.compile", (), source="honest/compiled.py")  # it compiles for half a minute
HONEST = (
    *_honest("python", "functions.py", docstrings(HERE / "functions.py")),
    *_honest("cuda", "launchers.cu", comments(HERE / "launchers.cu")),
    *_honest("cuda", "rows.cu", comments(HERE / "rows.cu"), problem="row_problem"),
    *_honest("triton", "triton_functions.py", docstrings(HERE / "triton_functions.py")),
)
UNUSUAL = tuple(
    Exploit(name, "honest", "triton" if "triton" in name else "python" if "python" in name else "cuda", "its task's title", (), source="")
    for name in CASES
)


def elsewhere() -> tuple[str, ...]:
    """Shipped stages, examples and templates, which tests of their own judge (test_pipeline, test_examples, test_fp16_rungs, test_new)."""
    stages = (path.parent.name for folder in ("tasks", "examples") for path in ROOT.glob(f"{folder}/**/task.yaml"))
    templates = (f"template {path.parent.name}" for path in ROOT.glob("gates/task/templates/*/task.yaml"))
    return (*sorted(stages), *sorted(templates))


def here() -> tuple[str, ...]:
    """Those that ../test_honest.py and ../test_exploits.py judge."""
    return (*(one.name for one in (*HONEST, COMPILED, *TWINS)), *CASES)
