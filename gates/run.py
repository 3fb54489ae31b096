"""Not a module any more:

``gates.run`` is a function. This text is for the scripts of task folders that were written for its old modules.
"""

raise ImportError(
    "gates.run is a function, not a package: in build.py write `from gates.task_script import build` and `build(__file__)`, "
    "in runner.py `from gates.task_script import run` and `run(__file__)`"
)
