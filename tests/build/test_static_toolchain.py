"""Where the tools are looked for, in which order, and what is said of a missing one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from places import DATA, ROOT
from static_kit import STUB_NVCC, make_task, program

from gates.build.build import build
from gates.build.toolchain import NAMES, find_toolchain
from gates.core.errors import GatesError
from gates.diagnostics import doctor
from gates.launch import device

SYSTEM_PATH = "/usr/bin:/bin"


def nvcc(folder: Path, version: str) -> Path:
    return program(folder / "nvcc", STUB_NVCC.replace("13.0.99", version))


def test_cuda_home_before_path_before_wheels(tmp_path: Path) -> None:
    home, path, wheels = tmp_path / "home", tmp_path / "path", tmp_path / "cu13"
    nvcc(home / "bin", "1.0.1"), nvcc(path, "2.0.1"), nvcc(wheels / "bin", "3.0.1")
    environ = {"PATH": f"{path}:{SYSTEM_PATH}", "CUDA_HOME": str(home)}
    found = find_toolchain(environ, [wheels]).nvcc
    assert found is not None and (found.version, found.source) == ("1.0.1", "CUDA_HOME")
    del environ["CUDA_HOME"]
    found = find_toolchain(environ, [wheels]).nvcc
    assert found is not None and (found.version, found.source) == ("2.0.1", "PATH")
    found = find_toolchain({"PATH": SYSTEM_PATH}, [wheels]).nvcc
    assert found is not None and (found.version, found.source) == ("3.0.1", "wheel")


def test_a_variable_that_names_nothing_is_no_silent_fallback(tmp_path: Path) -> None:
    nvcc(tmp_path, "2.0.1")
    toolchain = find_toolchain({"PATH": f"{tmp_path}:{SYSTEM_PATH}", "CUDA_HOME": "/nonexistent", "CXX": "/nonexistent/g++"}, [])
    assert toolchain.nvcc is None and toolchain.gxx is None
    assert toolchain.remedies["nvcc"] == "CUDA_HOME=/nonexistent holds no bin/nvcc: correct it or unset it"
    assert toolchain.remedies["g++"].startswith("CXX=/nonexistent/g++ is not a program")
    with pytest.raises(GatesError) as caught:
        toolchain.need("nvcc")
    assert caught.value.hint == toolchain.remedies["nvcc"]


def test_an_old_or_foreign_host_compiler_is_refused(tmp_path: Path) -> None:
    old = program(tmp_path / "g++", "#!/bin/sh\necho 'g++ (Debian 9.3.0-1) 9.3.0'\n")
    toolchain = find_toolchain({"PATH": str(tmp_path)}, [])
    assert toolchain.gxx is None and f"{old} is version 9.3.0" in toolchain.remedies["g++"]
    program(old, "#!/bin/sh\necho 'Debian clang version 14.0.6'\n")
    assert find_toolchain({"PATH": str(tmp_path)}, []).gxx is None


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "no program\n"])
def test_an_nvcc_that_does_not_run_is_missing(tmp_path: Path, text: str) -> None:
    """Else each of its failures would be the kernel's."""
    broken = program(tmp_path / "nvcc", text)
    toolchain = find_toolchain({"PATH": str(tmp_path)}, [])
    assert toolchain.nvcc is None and f"{broken} does not say its nvcc version" in toolchain.remedies["nvcc"]


def test_what_belongs_to_nvcc_is_found_beside_it(tmp_path: Path) -> None:
    nvcc(tmp_path / "cu13" / "bin", "13.0.1")
    program(tmp_path / "cu13" / "bin" / "cuobjdump", "#!/bin/sh\necho 'cuobjdump, release 13.0, V13.0.85'\n")
    tool = find_toolchain({"PATH": SYSTEM_PATH}, [tmp_path / "cu13"]).get("cuobjdump")
    assert tool is not None and (tool.version, tool.source) == ("13.0.85", "beside nvcc")


def test_nvcc_ccbin_and_cxx_choose_the_host_compiler(tmp_path: Path) -> None:
    gxx = program(tmp_path / "my-g++", "#!/bin/sh\necho 'g++ (GCC) 13.2.0'\n")
    assert find_toolchain({"PATH": SYSTEM_PATH}, []).host_compiler is None
    assert find_toolchain({"PATH": SYSTEM_PATH, "CXX": str(gxx)}, []).host_compiler == str(gxx)
    both = {"PATH": SYSTEM_PATH, "CXX": str(gxx), "NVCC_CCBIN": "/opt/g++"}
    assert find_toolchain(both, []).host_compiler == "/opt/g++"


def test_every_missing_tool_has_a_remedy_and_a_cost() -> None:
    toolchain = find_toolchain({"PATH": ""}, [])
    for name in NAMES:
        if toolchain.get(name) is None:
            assert toolchain.remedies[name]
        assert doctor.COSTS[name]


def test_doctor_lists_what_is_missing_and_what_it_costs(tmp_path: Path) -> None:
    findings = {finding.name: finding for finding in doctor.examine({"PATH": SYSTEM_PATH, "CUDA_HOME": "/nonexistent"}, build_dir=tmp_path)}
    assert {"python", "torch", "CUDA device", "build folder", "results folder", *NAMES} <= set(findings)
    missing = findings["nvcc"]
    assert not missing.found and "ptxas, sass" in missing.cost and "CUDA_HOME=/nonexistent" in missing.remedy
    assert findings["build folder"].found
    assert not doctor.examine({"PATH": SYSTEM_PATH}, build_dir=Path("/proc/nothing"))[-2].found
    assert "nvcc" in doctor.report()


def test_doctor_does_not_import_torch() -> None:
    code = "import sys; from gates.diagnostics.doctor import report; report(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_probe_without_driver_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_LIBRARY", "libcuda-that-is-not-there.so.1")
    assert device.probe() == device.DeviceProbe((), "no CUDA device: the driver library libcuda-that-is-not-there.so.1 is not installed")


@pytest.mark.parametrize("ending", ["crash", "nonsense", "no such device"])
def test_a_broken_driver_takes_nothing_down(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = {"crash": "abort();", "nonsense": "return 100;", "no such device": "return 100;"}[ending]
    library = tmp_path / "libfake.so"
    source = (
        "#include <stdlib.h>\nint cuInit(unsigned f) { " + code + " }\n"
        'int cuGetErrorString(int e, const char **s) { *s = "no CUDA-capable device is detected"; return 0; }\n'
    )
    (tmp_path / "fake.c").write_text(source)
    if subprocess.run(["gcc", "-shared", "-fPIC", "-w", "fake.c", "-o", str(library)], cwd=tmp_path).returncode:
        pytest.skip("no gcc")
    wrapper = tmp_path / "ask.py"
    wrapper.write_text(
        f"import json\nfrom gates.launch import device\ndevice._LIBRARY = {str(library)!r}\nprint(json.dumps(device._ask()))\n"
    )
    monkeypatch.setattr(device, "_LIBRARY", str(library))
    run = device.process.run
    monkeypatch.setattr(
        device.process, "run", lambda argv, **more: run([argv[0], "-c", "print(1)"] if ending == "nonsense" else [argv[0], wrapper], **more)
    )
    found = device.probe()
    assert not found.devices
    expected = {"crash": "killed by SIGABRT", "nonsense": "ended with exit 0", "no such device": "no CUDA-capable device is detected (100)"}
    assert expected[ending] in found.reason


@pytest.mark.gpu
def test_probe_finds_the_device() -> None:
    found = device.probe()
    assert found.devices and found.devices[0].sm_count > 0 and found.devices[0].arch.startswith("sm_")
    assert found.devices[0].uuid.startswith("GPU-") and found.devices[0].total_memory_bytes > 2**30


def test_the_machine_s_nvcc_hidden_the_wheels_build(tmp_path: Path) -> None:
    """The wheels that `make setup` installs where there is no nvcc, in their pinned versions."""
    site, root = tmp_path / "site", ROOT
    wheels = ("nvidia-cuda-nvcc", "nvidia-cuda-runtime", "nvidia-cuda-cccl", "nvidia-cuda-crt", "nvidia-nvvm")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, "-c", root / "constraints.txt", *wheels]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        pytest.skip(f"pip can't fetch the compiler wheels here: {done.stderr.strip().splitlines()[-1:]}")
    toolchain = find_toolchain({"PATH": SYSTEM_PATH}, sorted((site / "nvidia").glob("cu[0-9]*")))
    assert toolchain.nvcc is not None and toolchain.nvcc.source == "wheel"
    source = DATA / "static" / "planted.cu"
    result = build(make_task(tmp_path, source=source), toolchain, tmp_path / "build", want={"cubin", "device"})
    assert not result.failures and result.path("device") is not None


def test_set_up_asks_for_the_wheels_where_there_is_no_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    import setup_venv

    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", SYSTEM_PATH)
    assert {"cuda", "disasm"} <= set(setup_venv.wanted_extras())
    assert "since no nvcc is in CUDA_HOME or PATH" in setup_venv.wanted_extras()["cuda"]
