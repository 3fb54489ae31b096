"""A package that is missing or broken in this environment is not run, with its own error; an
error of the function's is a reject as ever.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch

from gates.core.errors import EXIT_HOLD, NotHere
from gates.launch.c_launcher import KernelError
from gates.launch.entry_point import Function, NeedsDevice, Place

BROKEN = {  # modules of an installed package, by file
    "lang/__init__.py": "from lang.typing import registry\n",
    "lang/typing.py": "import old_numbers\nregistry = old_numbers.long\n",
    "old_numbers/__init__.py": "",
    "new_numbers/__init__.py": "def __getattr__(name):\n    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')\n",
    "lazy/__init__.py": "def jit(function):\n    import lazy.late\n    return function\n\ndef need(function):\n    import "
    "old_numbers\n    return old_numbers.trapz(function)\n\n"
    "def ask(x):\n    import new_numbers\n    return new_numbers.trapz(x)\n\n"
    "def check(x):\n    raise TypeError('x must be a tensor')\n\ndef lookup(name):\n    import old_numbers\n    return "
    "getattr(old_numbers, name)\n",
    "cupy/__init__.py": "from cupy import core\n\ndef jit(function):\n    return core.made(function)\n",
    "cupy/core.py": "def made(function):\n    raise TypeError('no array on a device')\n",
    "warp/__init__.py": "from warp import launcher\n\ndef launch(*given):\n    return launcher.launch(*given)\n",
    "warp/launcher.py": "def launch(text, kind=RuntimeError):\n    raise kind(text)\n",
    "lazy/late.py": "raise RuntimeError('built for another version of old_numbers')\n",
}


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    installed = tmp_path / "lib" / "site-packages"
    for name, text in BROKEN.items():
        (installed / name).parent.mkdir(parents=True, exist_ok=True)
        (installed / name).write_text(text)
    monkeypatch.syspath_prepend(str(installed))

    def run(text: str, helper: str = "", place: Place = Place(on_cpu=True)) -> object:  # noqa: B008
        for name in [name for name in sys.modules if name.partition(".")[0] in ("lang", "lazy", "old_numbers", "helper", "cupy", "warp")]:
            del sys.modules[name]
        folder = tmp_path / "task"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "kernel.py").write_text(text)
        (folder / "helper.py").write_text(helper)
        return Function(folder / "kernel.py", "run", place)(1)

    return run


@pytest.mark.parametrize(
    ("text", "package", "said"),
    [
        (
            "import lang\ndef run(x): return x\n",
            "lang",
            "AttributeError: module 'old_numbers' has no attribute 'long'",
        ),  # when it is loaded
        ("def run(x):\n    import lang\n", "lang", "AttributeError: module 'old_numbers' has no attribute 'long'"),  # when it is called
        ("import lazy\ndef run(x): return lazy.jit(x)\n", "lazy", "RuntimeError: built for another version"),
        ("import lazy\ndef run(x): return lazy.need(x)\n", "lazy", "AttributeError: module 'old_numbers' has no attribute 'trapz'"),
        ("import lazy\ndef run(x): return lazy.ask(x)\n", "lazy", "AttributeError: module 'new_numbers' has no attribute 'trapz'"),
        (
            "import numba_that_nobody_has\ndef run(x): return x\n",
            "numba_that_nobody_has",
            "ModuleNotFoundError: No module named 'numba_that_nobody_has'",
        ),
        ("def run(x):\n    from lang_of_another_day import jit\n", "lang_of_another_day", "ModuleNotFoundError"),
        (
            "from old_numbers import gone\ndef run(x): return x\n",
            "old_numbers",
            "ImportError: cannot import name 'gone' from 'old_numbers'",
        ),
    ],
)
def test_a_package_that_does_not_work_here_is_not_the_function_s_fault(call, text: str, package: str, said: str) -> None:
    with pytest.raises(NotHere) as caught:
        call(text)
    assert said in caught.value.what and caught.value.reason == "no_tool" and caught.value.exit_code == EXIT_HOLD
    told = "is not installed" if "No module named" in caught.value.what else "does not work in this environment"
    assert (caught.value.hint or "").startswith(f"{package} {told}")


@pytest.mark.parametrize(
    ("text", "helper"),
    [
        ("import lazy\ndef run(x): return lazy.check(x)\n", ""),  # a package that refuses its argument
        ("import old_numbers\ndef run(x): return old_numbers.nothing\n", ""),  # the function asks for the name itself
        ("import lazy\ndef run(x): return lazy.lookup('nothing')\n", ""),  # and through a package
        ("def run(x):\n    import helper\n", "raise RuntimeError('mine')\n"),
        ("def run(x):\n    from helper import nothing\n", ""),
        ("def run(x): return 1 / 0\n", ""),
    ],
)
def test_an_error_of_the_function_is_its_own(call, text: str, helper: str) -> None:
    with pytest.raises(KernelError):
        call(text, helper)


@pytest.mark.parametrize(
    ("text", "helper", "said"),
    [
        ("import helper\ndef run(x): return x\n", "\nraise RuntimeError('mine')\n", r"helper.py:2: RuntimeError: mine"),
        ("import helper\ndef run(x): return x\n", "\n\nx = (\n", r"helper.py:3: SyntaxError: '\(' was never closed"),
        ("\ndef run(x) return x\n", "", r"kernel.py:2: SyntaxError: expected ':'"),
        ("import re\n\nre.compile('(')\n", "", r"kernel.py:3: (re\.)?\w*[eE]rror: missing \)"),
        ("def walk(x): return x\n", "", r"kernel.py:1: AttributeError: no function 'run'"),
    ],
)
def test_an_error_of_its_own_files_when_they_are_imported_is_the_function_s(call, text: str, helper: str, said: str) -> None:
    with pytest.raises(KernelError, match=said):
        call(text, helper)


@pytest.mark.parametrize(
    "text", ["import cupy\ndef run(x): return cupy.jit(x)\n", "import cupy\nmade = cupy.jit(1)\ndef run(x): return x\n"]
)
def test_what_a_language_for_devices_raises_without_one_is_no_finding(call, text: str) -> None:
    with pytest.raises(NeedsDevice, match="no array on a device"):
        call(text)


@pytest.mark.parametrize("raised", ["raise TypeError('no array on a device')", "import lazy\n    lazy.check(x)"])
def test_what_the_function_raises_itself_is_a_finding_in_such_a_language_too(call, raised: str) -> None:
    with pytest.raises(KernelError):
        call(f"import cupy\ndef run(x):\n    {raised}\n")


def test_the_languages_without_a_judge_here_are_those_that_need_a_device() -> None:
    from gates.importers.languages import LANGUAGES
    from gates.launch.packages import _ON_DEVICES

    of_kind_python = {one.module for one in LANGUAGES if one.without_device == "nothing"}
    assert of_kind_python | {"numba.cuda", "warp"} == set(_ON_DEVICES), "a task of kind python may use these, too"


@pytest.mark.parametrize(
    ("asks", "here"),
    [
        ("warp.launch('argument a expects an array with dtype float')", True),
        ("warp.launch('Device cpu is not a CUDA device')", False),
        ("warp.launch('no such layout', NotImplementedError)", False),
        ("torch.cuda.current_stream().nothing", False),  # of what stands for a device
        ("torch.cuda.get_device_properties(0).nothing", False),
        ("'text'.nothing", True),
    ],
)
def test_on_the_emulator_a_mistake_is_told_from_a_missing_device(call, asks: str, here: bool) -> None:
    with pytest.raises(KernelError if here else NeedsDevice):
        call(f"import torch, warp\ndef run(x): return {asks}\n", "", Place(True, True))


def test_code_that_asks_for_a_device_s_properties_and_streams_runs_on_the_emulator(call) -> None:
    text = (
        "import torch\nsms = torch.cuda.get_device_properties('cuda').multi_processor_count\n"
        "def run(x):\n    stream, current = torch.cuda.Stream(), torch.cuda.current_stream()\n    stream.wait_stream(current)\n"
        "    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n    begun.record(current)\n"
        "    with torch.cuda.stream(stream):\n        y = torch.ones(sms, device='cuda')\n    ended.record()\n"
        "    torch.cuda.synchronize()\n    assert begun.elapsed_time(ended) >= 0\n"
        "    return torch.cuda.get_device_capability(), len(y)\n"
    )
    assert call(text, "", Place(True, True, ("sm_90", "sm_89"))) == ((8, 9), 4)


@pytest.mark.parametrize(
    "asks",
    [
        "torch.empty(3, device=torch.cuda.current_device()), x.to(0), x.to(device=x.get_device())",
        "torch.zeros(3, device=torch.device(0)), torch.ones(3, device=torch.device('cuda', torch.cuda.current_device()))",
        "x.record_stream(torch.cuda.current_stream()), torch.cuda.set_stream(torch.cuda.Stream(priority=-1))",
        "torch.empty(3, pin_memory=True), x.pin_memory().cuda(non_blocking=True)",
        "torch.cuda.is_current_stream_capturing(), torch.cuda.mem_get_info(), torch.cuda.init(), torch.cuda.ExternalStream(1)",
    ],
)
def test_code_that_names_a_device_and_its_streams_runs_on_the_emulator(call, asks: str) -> None:
    text = (
        "import torch\ntorch.set_default_device('cuda')\nstream = torch.cuda.Stream()\n"
        f"def run(x):\n    x = torch.ones(3)\n    with stream:\n        {asks}\n    torch.set_default_device(None)\n"
        "    return torch.device('cuda:0') == x.device == stream.device and stream == torch.cuda.current_stream()\n"
    )
    try:
        assert call(text, "", Place(True, True, ("sm_90",))) is True
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    "asks", ["torch.cuda.CUDAGraph()", "torch.cuda.nvtx.range_push('a')", "torch.accelerator.synchronize()", "torch.Stream(device='cuda')"]
)
def test_what_torch_refuses_without_a_device_is_no_finding(call, asks: str) -> None:
    with pytest.raises(NeedsDevice):
        call(f"import torch\ndef run(x): return {asks}\n", "", Place(True, True))
