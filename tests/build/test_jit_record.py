"""What a kernel's process says of a compilation is data, and a tool that works on its bytes is confined."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sandbox_kit import sandbox_here

from gates.build.jit import confined_tool, record

HONEST = {
    "name": "silu_kernel",
    "arch": "sm_90",
    "variant": 0,
    "tool": "ptxas",
    "options": ["-lineinfo", "-v", "--regAllocOptLevel=2", "--opt-level", "1", "--fmad=false"],
    "launches": [[128, 1, 1, 60000]],
    "ptx": ".version 8.4\n.target sm_90a\n.address_size 64\n",
}


def test_an_honest_record_gives_the_engine_s_own_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/opt/ptxas")
    (kernel,) = record.checked([HONEST], ["sm_89", "sm_90"], tmp_path)
    assert kernel.command(tmp_path / "x.cubin") == [
        "/opt/ptxas",
        *HONEST["options"],
        "--gpu-name=sm_90a",
        str(tmp_path / "silu_kernel.0.sm_90.ptx"),
        "-o",
        str(tmp_path / "x.cubin"),
    ]
    (launch,) = kernel.launches()
    assert launch["block"] == [128, 1, 1] and launch["opt_in_smem_bytes"] == 60000


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../evil"},
        {"name": "a b"},
        {"name": 3},
        {"arch": "sm_80"},
        {"arch": "../.."},
        {"tool": "/tmp/evil"},
        {"tool": ["sh", "-c"]},
        {"options": "-v"},
        {"options": ["-o", "/etc/passwd"]},
        {"options": ["--output-file=/tmp/x"]},
        {"options": ["-optf", "/tmp/x"]},
        {"options": ["/tmp/evil.ptx"]},
        {"options": [1]},
        {"variant": -1},
        {"variant": True},
        {"launches": None},
        {"launches": [[128, 1, 1]]},
        {"launches": [[1056, 1, 1, 0]]},
        {"launches": [["128", 1, 1, 0]]},
        {"launches": [[128, 1, 1, 1 << 40]]},
        {"launches": [[128, 1, 1, 1.5]]},
        {"ptx": "no target"},
        {"ptx": ".target sm_80"},
        {"ptx": ".target sm_90\n.target sm_90"},
        {"ptx": None},
    ],
    ids=str,
)
def test_what_can_t_be_so_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(record.NoRecord):
        record.checked([{**HONEST, **change}], ["sm_89", "sm_90"], tmp_path)
    for lines in ([HONEST, HONEST], ["text"], [None]):
        with pytest.raises(record.NoRecord):
            record.checked(lines, ["sm_90"], tmp_path)


def test_a_tool_runs_confined(tmp_path: Path) -> None:
    if not sandbox_here(tmp_path):
        pytest.skip("this system can't deny files")
    (tmp_path / "room").mkdir()
    code = (
        "from pathlib import Path; import socket, sys\n"
        f"Path({str(tmp_path / 'room' / 'own')!r}).write_text('x')\n"
        f"for attempt in (lambda: Path({str(tmp_path / 'made')!r}).write_text('x'), socket.socket):\n"
        "    try:\n        attempt(); print('done')\n    except OSError:\n        print('refused')\n"
    )
    done = subprocess.run(
        confined_tool.command(tmp_path / "room", [sys.executable, "-c", code]), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused", "refused"] and (tmp_path / "room" / "own").is_file() and not (tmp_path / "made").exists()
