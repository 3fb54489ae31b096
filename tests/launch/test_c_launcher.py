"""A launcher behind the C ABI that its library hides is the kernel's fault: each call says so, as a launcher that returns an error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gates.launch.c_launcher import Kernel, KernelError


def test_a_hidden_launcher_fails_at_each_call_and_a_visible_one_runs(tmp_path: Path) -> None:
    body = "(void* stream, char* error, long bytes) { return 0; }\n"
    text = f'extern "C" int seen{body}extern "C" __attribute__((visibility("hidden"))) int hidden{body}'
    command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-Wl,--require-defined=hidden", "-o", str(tmp_path / "k.so")]
    subprocess.run(command, input=text, text=True, check=True)
    Kernel(tmp_path / "k.so", "seen")()
    hidden = Kernel(tmp_path / "k.so", "hidden")
    for _ in range(2):
        with pytest.raises(KernelError, match="shows no function 'hidden'; give the launcher default visibility"):
            hidden()
