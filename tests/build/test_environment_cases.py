"""Environments that people have:

Python without docstrings and asserts, a compiler behind a launcher, banners that begin with another version.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from static_kit import CXX, program
from test_static_toolchain import SYSTEM_PATH

from gates.build.toolchain import find_toolchain

SCRIPTS = ["scripts/setup_venv.py", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "scripts" / "ci").glob("*.py"))]
needs_gxx = pytest.mark.skipif(CXX is None, reason="no g++")


@pytest.mark.parametrize("script", [path for path in SCRIPTS if "ArgumentParser" in (ROOT / path).read_text(encoding="utf-8")])
def test_a_script_needs_no_docstring(script: str) -> None:
    done = subprocess.run([sys.executable, "-OO", script, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "usage:" in done.stdout, done.stderr


COMMANDS = """
import sys
from gates.cli.main import main

for words in ("import --help", "decide --help", "list", "explain ptxas", "decide recorded:h200/stage2", "run stage22"):
    sys.argv = ["gates", *words.split()]
    try:
        main()
    except SystemExit as ended:
        print("ended with", ended.code, flush=True)
"""


@pytest.mark.parametrize("program", [("-m", "gates", "--help"), ("-c", COMMANDS)], ids=["the start", "commands"])
def test_the_command_needs_no_docstring(program: tuple[str, ...]) -> None:
    plain, bare = (
        subprocess.run([sys.executable, *options, *program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        for options in ([], ["-OO"])
    )
    assert bare.returncode == plain.returncode == 0 and "Traceback" not in bare.stderr
    assert bare.stdout == plain.stdout and (program[0] == "-m" or bare.stdout.count("ended with") == 6)


def found(**environ: str):
    return find_toolchain({"PATH": f"{Path(CXX).parent}:{SYSTEM_PATH}", **environ}, [])


@needs_gxx
@pytest.mark.parametrize("launchers", [("ccache",), ("ccache", "distcc")])
def test_a_compiler_behind_a_launcher(tmp_path: Path, launchers: tuple[str, ...]) -> None:
    for launcher in launchers:
        program(tmp_path / launcher, '#!/bin/sh\nexec "$@"\n')
    path = f"{tmp_path}:{Path(CXX).parent}:{SYSTEM_PATH}"
    toolchain = find_toolchain({"PATH": path, "CXX": f"{' '.join(launchers)} g++"}, [])
    assert toolchain.gxx is not None and Path(toolchain.gxx.path).name == "g++" and toolchain.host_compiler == toolchain.gxx.path
    assert find_toolchain({"PATH": path, "CXX": "nothing g++"}, []).remedies["g++"].startswith("CXX=nothing g++ is not a program")
    assert "gives the compiler options" in find_toolchain({"PATH": path, "CXX": "g++ -m32"}, []).remedies["g++"]
    code = "import sys; sys.path.insert(0, 'scripts'); import setup_venv; print([setup_venv.has_compiler(name) for name in sys.argv[1:]])"
    done = subprocess.run(
        [sys.executable, "-c", code, "g++", "ccache g++", "ccache nothing", "nothing g++", "'"],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[True, True, False, False, False]\n"


@needs_gxx
@pytest.mark.parametrize("banner", ["g++ (crosstool-NG 1.26.0.116) 13.2.0", "g++ (Buildroot 2024.02.4) 9.4.0", "g++ (Ubuntu 1.2.3) 4"])
def test_the_version_is_the_compiler_s_own_word(tmp_path: Path, banner: str) -> None:
    gxx = program(tmp_path / "g++", f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{banner}"; exit; }}\nexec {CXX} "$@"\n')
    real = subprocess.run([CXX, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    tool = found(CXX=str(gxx)).gxx
    assert tool is not None and tool.version == real


def test_an_old_compiler_is_known_by_its_banner(tmp_path: Path) -> None:
    old = program(tmp_path / "g++", '#!/bin/sh\n[ "$1" = --version ] && { echo "g++ (GCC) 4.8.5"; exit; }\nexit 1\n')
    assert "is version 4.8.5" in found(CXX=str(old)).remedies["g++"] if CXX else True
