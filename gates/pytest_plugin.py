"""pytest plugin: a test suite holds a kernel to its gates in one line.

    @pytest.mark.gates("path/to/my_kernel")
    def test_my_kernel(): ...

The task is run before the test's own body. A failed gate fails the test, with the report as its message; an
asked-for gate without a verdict skips it, or fails it with ``--gates-hold=fail``. Without a CUDA device the gates that
need none are asked for, so their passing is a pass. The fixture ``gates_run`` is the ``gates.Run``, for further claims.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gates.core.errors import EXIT_FAIL, EXIT_HOLD, GatesError

if TYPE_CHECKING:
    from gates.api import Run

MARK = "gates"
_HELP = (
    "gates(task, *, profile='auto', …): hold the kernel of a task folder to its gates before the test's own body; options as of gates.run"
)
_RUNS = pytest.StashKey[dict[tuple[str, ...], "Run | GatesError"]]()  # each task is run once a session


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gates", "gates of CUDA kernels")
    group.addoption("--gates-profile", choices=("auto", "cpu", "full"), help="Gates to ask for, whatever the marks say.")
    group.addoption(
        "--gates-hold",
        choices=("skip", "fail"),
        default="skip",
        help="What a test does whose asked-for gates came to no verdict (default: skip).",
    )
    group.addoption("--gates-results", type=Path, metavar="DIR", help="Keep the run directories here (default: in pytest's cache folder).")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _HELP)
    config.stash[_RUNS] = {}


@pytest.fixture
def gates_run(request: pytest.FixtureRequest) -> Run:
    """The run of the task that the test's ``gates`` mark names, whatever its gates said."""
    if request.node.get_closest_marker(MARK) is None:
        pytest.fail('gates_run needs the mark that names the task: @pytest.mark.gates("path/to/task")', pytrace=False)
    return _run(request.node)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fail or skip a marked test by its gates, before its body."""
    if item.get_closest_marker(MARK) is None:
        return
    run = _run(item)
    report = f"{run.report()}\nevidence: {run.path}"
    if run.exit_code == EXIT_FAIL:
        pytest.fail(report, pytrace=False)
    if run.exit_code == EXIT_HOLD:
        _hold(item, f"{run.task}: {run.reason}")
    item.add_report_section("call", "gates", report)


def _run(item: pytest.Item) -> Run:
    """The run that the item's mark asks for; a mistake in the mark or the task fails the test, a missing device holds it."""
    from gates import api

    mark = item.get_closest_marker(MARK)
    assert mark is not None
    try:
        asked = inspect.signature(api.run).bind(*mark.args, **mark.kwargs).arguments
    except TypeError as error:
        pytest.fail(f"the mark gates(…) of {item.nodeid}: {error}", pytrace=False)
    asked["task"] = _place(str(asked["task"]), item)
    asked["profile"] = item.config.getoption("--gates-profile") or asked.get("profile", "auto")
    results = item.config.getoption("--gates-results")
    runs, key = item.config.stash[_RUNS], tuple(f"{name}={value!r}" for name, value in sorted(asked.items()))
    if key not in runs:
        try:
            runs[key] = api.run(**{"results": results or _folder(item, "results"), "build_dir": _folder(item, "build"), **asked})
        except GatesError as error:
            runs[key] = error
    found = runs[key]
    if isinstance(found, GatesError):
        told = f"{found.what}\nhint: {found.hint}" if found.hint else found.what
        if found.exit_code == EXIT_HOLD:
            _hold(item, told)
        pytest.fail(told, pytrace=False)
    return found


def _hold(item: pytest.Item, reason: str) -> None:
    if item.config.getoption("--gates-hold") == "fail":
        pytest.fail(f"no verdict: {reason}", pytrace=False)
    pytest.skip(reason)


def _place(task: str, item: pytest.Item) -> str:
    """A path is taken from the test's own folder, else from pytest's root folder; anything else is a task's name."""
    for folder in (item.path.parent, item.config.rootpath):
        if (folder / task / "task.yaml").is_file():
            return str(folder / task)
    return str(item.config.rootpath / task) if os.sep in task else task


def _folder(item: pytest.Item, name: str) -> Path:
    """A folder that outlives the session: in pytest's cache, so that only what changed is compiled; beside the tests where that is off."""
    cache = getattr(item.config, "cache", None)
    return cache.mkdir("gates") / name if cache is not None else item.config.rootpath / name
