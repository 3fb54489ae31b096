"""robust-kbench: a task folder with func_forward.py, config_forward.json and forward.cu.

``func_forward.py`` has ``forward_fn``, ``Model`` (whose forward takes the function to use as ``fn``) and ``get_inputs``;
the extension built of ``forward.cu`` has ``forward`` with forward_fn's parameters. The backward half of the format
(func_backward.py, backward.cu) is left out.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.importers import folder, python_solution, sources
from gates.importers.folder import Imported, Original, Side

FORMAT = "robust-kbench"
_TOLERANCE = "robust-kbench's rule, |out - reference| <= 1e-3 + 1e-3 * |reference|: the defaults of its run_kernel.py"
_FILES = ("func_forward.py", "config_forward.json", "forward.cu")
_GROUPS = ("init_configs", "input_configs", "shared_configs")


def load(task: Path, kernel: Path | None = None) -> Imported:
    """What the folder holds, with ``kernel`` in place of its forward.cu.

    Raises GatesError where a file is missing or is not of the format.
    """
    paths = (task / "func_forward.py", task / "config_forward.json", kernel or task / "forward.cu")
    if missing := [path.name for path in paths if not path.exists()]:
        raise GatesError(f"{task} has no {' and no '.join(missing)}", hint=f"a task folder of {FORMAT} has {', '.join(_FILES)}")
    function, config, cuda = (
        Original(path, kept, folder.read(path))
        for path, kept in zip(paths, ("problem_original.py", "config_forward.json", "forward.cu"), strict=True)
    )
    sources.require(sources.python_tree(function), ("forward_fn", "Model", "get_inputs"), str(function.path), FORMAT)
    settings = _settings(jsonio.loads(folder.text(config), str(config.path)), config.path)
    title = task.resolve().name
    candidate = python_solution.compiled_side(cuda, f"{title}: forward.cu", "forward")
    if not candidate.kernels:
        raise GatesError(f"{cuda.path} has no __global__ function")
    return Imported(
        format=FORMAT,
        candidate=candidate,
        reference=Side(
            f"{title}: the task's own forward_fn, eager",
            "python",
            "forward_fn",
            ["func_forward.py"],
            {"func_forward.py": folder.text(function)},
        ),
        problem={
            "problem.py": folder.adapter("robust_kbench_problem.py"),
            "problem_data.py": f'"""The settings of config_forward.json: arguments of Model, and of get_inputs."""\n\nSETTINGS = '
            f"{settings!r}\n",
        },
        originals=[function, config, cuda],
        tolerance=_TOLERANCE,
        details={"task": title, "left_out": "backward"},
    )


def _settings(config: Any, where: Path) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """{shape: (arguments of Model, arguments of get_inputs)} of the single and the multi configurations, each once."""
    found: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
    for kind in ("single", "multi"):
        groups = [_group(config, f"{kind}_{group}", where) for group in _GROUPS]
        if kind == "multi" and not any(f"multi_{group}" in config for group in _GROUPS):
            break
        for index, (init, given, shared) in enumerate(itertools.product(*groups)):
            setting = ({**init, **shared}, {**given, **shared})  # shared ones come last, as in the format
            if setting not in found.values():
                found[kind if kind == "single" and index == 0 else f"{kind}{index}"] = setting
    return found


def _group(config: Any, key: str, where: Path) -> list[dict[str, Any]]:
    group = config.get(key, [{}]) if isinstance(config, dict) else None
    if not isinstance(group, list) or not all(isinstance(one, dict) and all(map(str.isidentifier, one)) for one in group):
        raise GatesError(f"{where}: {key} is not a list of objects whose keys are names of parameters")
    return group or [{}]
