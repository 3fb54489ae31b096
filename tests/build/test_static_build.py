"""The build graph: incremental, parallel, honest about failures; with a stub nvcc, so it runs anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from places import TESTS
from static_kit import calls, make_task, needs_nvcc, not_root, program, stub_toolchain

from gates.build.build import build, check_build_root, job_count
from gates.build.dumps import collect
from gates.build.failure import Failure, hint_for
from gates.build.result import BuildResult
from gates.build.toolchain import find_toolchain
from gates.core.errors import GatesError
from gates.core.records import from_json
from gates.launch.emulated_kernel import EmulatedKernel

DEVICE = {"cubin", "device"}


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    return tmp_path / "cuda"


def make(tmp_path: Path, stub: Path, text: str | None = None, want=DEVICE, **changes) -> BuildResult:
    if text is not None:
        (tmp_path / "k.cu").write_text(text)
    elif not (tmp_path / "k.cu").exists():
        (tmp_path / "k.cu").write_text("kernel\n")
    task = make_task(tmp_path, source=tmp_path / "k.cu", **changes)
    return build(task, stub_toolchain(stub), tmp_path / "build", want=want)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")}


def test_products_and_logs_of_every_architecture(tmp_path: Path, stub: Path) -> None:
    result = make(tmp_path, stub, arch=("sm_89", "sm_90a"))
    folder = Path(result.folder)
    assert not result.failures and folder.parent == tmp_path / "build" / "demo"
    assert files(folder) == {
        "build.ninja",
        "sm_89/k.cubin",
        "sm_89/k.ptxas.log",
        "sm_90a/k.cubin",
        "sm_90a/k.ptxas.log",
        "emulator/k.o",
        "emulator/k.o.log",
        "device/k.o",
        "device/k.o.log",
        "device.so",
        "device.so.log",
    }
    assert "'k' for 'sm_90a'" in (folder / "sm_90a/k.ptxas.log").read_text()
    assert "-DUSE_X=1" in calls(stub)[0] and "nvcc" in result.log_text and "Used 10 registers" in result.log_text


def test_an_unchanged_build_compiles_nothing_and_is_quick(tmp_path: Path, stub: Path) -> None:
    first = make(tmp_path, stub)
    count, taken = len(calls(stub)), []
    for _ in range(3):  # others may use the cores meanwhile
        started = time.monotonic()
        again = make(tmp_path, stub)
        taken.append(time.monotonic() - started)
        assert len(calls(stub)) == count and again.targets == first.targets and again.log_text == first.log_text
    assert min(taken) < 0.5


def test_a_changed_header_rebuilds(tmp_path: Path, stub: Path) -> None:
    (tmp_path / "tile.cuh").write_text("tile 16\n")
    make(tmp_path, stub, '#include "tile.cuh"\n')
    count = len(calls(stub))
    (tmp_path / "tile.cuh").write_text("tile 32\n")
    result = make(tmp_path, stub)
    assert len(calls(stub)) == count + 2
    assert b"tile 32" in (result.path("device") or Path()).read_bytes()


def test_toggles_flags_and_compiler_have_folders_of_their_own(tmp_path: Path, stub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make(tmp_path, stub)
    folders = {
        plain.folder,
        make(tmp_path, stub, toggles={"USE_X": 0}).folder,
        make(tmp_path, stub, nvcc_flags=("-O1",)).folder,
        make(tmp_path, stub, arch=("sm_90",)).folder,
        make(tmp_path, tmp_path / "other").folder,
    }
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    folders.add(make(tmp_path, stub).folder)
    assert len(folders) == 6
    assert plain.toggles == {"USE_X": 1} and any("-DUSE_X=0" in call for call in calls(stub))


def test_the_device_s_own_architecture_is_added_once(tmp_path: Path, stub: Path) -> None:
    def archs(device_arch: str | None, *asked: str) -> tuple:
        task = make_task(tmp_path, arch=asked)
        result = build(task, stub_toolchain(stub), tmp_path / "build", device_arch=device_arch, want=DEVICE)
        return result.archs, result.device_archs

    assert archs("sm_90", "sm_89") == (("sm_89", "sm_90"), ("sm_90",))
    assert archs("sm_90", "sm_89", "sm_90a") == (("sm_89", "sm_90a"), ("sm_90a",))
    assert archs(None, "sm_89", "sm_90") == (("sm_89", "sm_90"), ("sm_89", "sm_90"))
    assert any("-gencode=arch=compute_90a,code=sm_90a" in call for call in calls(stub))


# failures


def test_a_failed_compile_leaves_nothing_of_the_old_build(tmp_path: Path, stub: Path) -> None:
    good = make(tmp_path, stub)
    assert good.path("device") is not None
    bad = make(tmp_path, stub, "this is not c++\n")
    assert bad.folder == good.folder and bad.path("device") is None
    assert not {"device.so", "emulator/k.o", "sm_89/k.cubin", "sm_89/k.ptxas.log"} & files(Path(bad.folder))
    failure = bad.failure("cubin", "sm_89")
    assert failure is not None and failure.cause == "exit 2"
    assert failure.errors[0] == "k.cu(1): error: this declaration has no storage class"
    assert "k.cu" in failure.command and "1 error detected" in Path(failure.log or "").read_text()
    device = bad.failure("device")
    assert device is not None and device.errors == failure.errors
    assert "this declaration has no storage class" in bad.log_text
    texts = collect(bad, stub_toolchain(stub))
    assert texts.logs == {"sm_89": None} and "error: this declaration" in texts.reasons[0]
    again = make(tmp_path, stub, "kernel\n")
    assert not again.failures and not any("failed" in name for name in files(Path(again.folder)))


def test_one_bad_architecture_leaves_the_others(tmp_path: Path, stub: Path) -> None:
    make(tmp_path, stub)
    script = stub / "bin" / "nvcc"
    text = script.read_text().replace("text=$(cat", 'case "$arch" in sm_90) echo "nvcc fatal : unsupported gpu"; exit 1;; esac\ntext=$(cat')
    task = make_task(tmp_path, arch=("sm_89", "sm_90"))
    toolchain = stub_toolchain(stub)
    program(script, text)
    result = build(task, toolchain, tmp_path / "build", want={"cubin"})
    assert result.failure("cubin", "sm_89") is None and result.failure("cubin", "sm_90") is not None


def test_half_an_output_is_a_failure_of_the_compiler(tmp_path: Path, stub: Path) -> None:
    result = make(tmp_path, stub, "half an output\n")
    failure = result.failure("cubin")
    assert failure is not None and failure.cause == "exit 1" and "nvcc" in failure.sentence and not failure.hint
    assert not any(name.endswith((".partial", ".cubin", ".so")) for name in files(Path(result.folder)))


def test_a_refused_host_compiler_is_named_with_the_override(tmp_path: Path, stub: Path) -> None:
    toolchain = stub_toolchain(stub, NVCC_CCBIN="/nonexistent/g++")
    failure = build(make_task(tmp_path), toolchain, tmp_path / "build", want=DEVICE).failure("device")
    assert failure is not None
    assert failure.hint == "nvcc 13.0.99 does not take /nonexistent/g++ as host compiler: set NVCC_CCBIN to a g++ that it supports"
    assert Path(failure.log or "").is_file()


def test_an_architecture_that_nvcc_does_not_know_is_named_with_what_to_do(stub: Path) -> None:
    hint = hint_for("nvcc fatal   : Unsupported gpu architecture 'compute_151'", "exit 1", stub_toolchain(stub))
    assert hint == "nvcc 13.0.99 does not know this architecture: change `arch:` in task.yaml, or install a newer CUDA toolkit"
    assert hint_for("k.cu(3): error: x", "exit 1", stub_toolchain(stub)) == ""


def test_without_nvcc_all_products_are_missing_and_the_remedy_is_told(tmp_path: Path) -> None:
    toolchain = find_toolchain({**os.environ, "CUDA_HOME": "/nonexistent"}, [])
    result = build(make_task(tmp_path), toolchain, tmp_path / "build", want=DEVICE)
    failure = result.failure("cubin", "sm_89")
    assert failure is not None and failure.missing_tool == "nvcc" and "CUDA_HOME" in failure.hint
    assert collect(result, toolchain).reasons[0].startswith("sm_89: nvcc was not found")
    emulator = build(make_task(tmp_path), toolchain, tmp_path / "build", want={"emulator"}).failure("emulator")
    assert emulator is not None and emulator.missing_tool == "nvcc"


def test_cubins_are_taken_apart_when_the_machine_code_is_asked_for_and_once(tmp_path: Path, stub: Path) -> None:
    program(stub / "bin" / "cuobjdump", '#!/bin/sh\n[ "$1" = --version ] || echo "$1" >> "${0%/*}/dumps"\necho "$1"\n')
    texts = collect(make(tmp_path, stub), stub_toolchain(stub))
    dumps = stub / "bin" / "dumps"
    assert texts.logs["sm_89"] and texts.resource_usage == {"sm_89": "--dump-resource-usage\n"}
    assert dumps.read_text().split() == ["--dump-resource-usage"]
    assert (texts.sass, texts.reasons, texts.sass) == ({"sm_89": "--dump-sass\n"}, (), {"sm_89": "--dump-sass\n"})
    assert dumps.read_text().split() == ["--dump-resource-usage", "--dump-sass"]


def test_a_disassembly_is_kept_for_its_cubin_and_tools(tmp_path: Path, stub: Path) -> None:
    tool = stub / "bin" / "cuobjdump"
    program(tool, '#!/bin/sh\n[ "$1" = --version ] && { echo "release 13.0, V13.0.1"; exit; }\necho made >> "${0%/*}/made"\ncat "$2"\n')
    count = 0

    def disassembled(text: str = "kernel\n") -> bool:
        """Whether it was made for this, and not found; it is that of ``text`` either way."""
        nonlocal count
        assert collect(make(tmp_path, stub, text), stub_toolchain(stub)).sass == {"sm_89": text}
        before, count = count, (stub / "bin" / "made").read_text().count("made")
        return count - before > 1  # one is that of the resource usage

    assert disassembled() and not disassembled()
    assert disassembled("another\n") and not disassembled("another\n")
    (kept,) = (tmp_path / "build").rglob("*.sass.json")
    for broken in (kept.read_text()[:-9], "", "[]", '{"digest": 1, "text": 2}', kept.read_text().replace("another", "edited")):
        kept.write_text(broken)
        assert disassembled("another\n")
    tool.write_text(tool.read_text().replace("13.0.1", "13.0.2"))
    assert disassembled("another\n") and not disassembled("another\n")
    kept.unlink()
    kept.mkdir()  # nothing can be kept
    assert disassembled("another\n") and disassembled("another\n")


# interruption, concurrency, folders


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from static_kit import make_task, stub_toolchain
from gates.build.build import build
folder = Path({folder!r})
task, toolchain = make_task(folder, source=folder / "k.cu"), stub_toolchain(folder / "cuda")
result = build(task, toolchain, folder / "build", want={{"cubin", "device"}}, progress=print)
sys.exit(bool(result.failures))
"""


def start(tmp_path: Path) -> subprocess.Popen:
    code = SCRIPT.format(tests=str(TESTS / "support"), folder=str(tmp_path))
    return subprocess.Popen([sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(condition, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def running_below(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and "pytest" not in line:
            found.append(line)
    return found


def test_ctrl_c_leaves_nothing_half_written_and_nothing_running(tmp_path: Path, stub: Path) -> None:
    (tmp_path / "k.cu").write_text("take long\n")
    child = start(tmp_path)
    wait_for(lambda: list((tmp_path / "build").rglob("*.partial")))
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=20)
    assert child.returncode != 0
    wait_for(lambda: not running_below(tmp_path), 5)
    assert not [name for name in files(tmp_path / "build") if name.endswith((".partial", ".cubin", ".o", ".so"))]
    assert not make(tmp_path, stub, "kernel\n").failures


def test_a_killed_build_leaves_no_lock(tmp_path: Path, stub: Path) -> None:
    (tmp_path / "k.cu").write_text("take long\n")
    child = start(tmp_path)
    wait_for(lambda: list((tmp_path / "build").rglob("*.partial")))
    ninja = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _parent(path) == child.pid]
    child.kill()
    child.wait()
    for pid in ninja:
        os.kill(pid, signal.SIGINT)
    assert not make(tmp_path, stub, "kernel\n").failures


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def test_two_builds_at_once_wait_for_each_other(tmp_path: Path, stub: Path) -> None:
    stub_toolchain(stub)
    script, waited_for = stub / "bin" / "nvcc", tmp_path / "waited_for"
    program(script, script.read_text().replace("text=$(cat", f"while [ ! -e {waited_for} ]; do sleep 0.02; done\ntext=$(cat"))
    (tmp_path / "k.cu").write_text("kernel\n")
    code_keeps_stub = SCRIPT.replace(
        'stub_toolchain(folder / "cuda")', "find_toolchain({{**os.environ, \"CUDA_HOME\": str(folder / 'cuda')}}, [])"
    )
    code = ("import os\nfrom gates.build.toolchain import find_toolchain\n" + code_keeps_stub).format(
        tests=str(TESTS / "support"), folder=str(tmp_path)
    )
    outputs = [tmp_path / f"output{index}" for index in range(3)]
    children = []
    for path in outputs:
        with path.open("w") as file:
            children.append(subprocess.Popen([sys.executable, "-u", "-c", code], stdout=file, stderr=subprocess.STDOUT))
    wait_for(lambda: sum("waiting for another build of demo (process" in path.read_text() for path in outputs) == 2, 60)
    waited_for.touch()
    codes = [child.wait(timeout=60) for child in children]
    assert codes == [0, 0, 0], [path.read_text() for path in outputs]
    assert len(calls(stub)) == 2, "each command ran once"


@needs_nvcc
def test_a_compiler_that_can_t_make_the_emulator_is_no_fault_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = find_toolchain()
    broken = program(
        tmp_path / "g++", "#!/bin/sh\ncase $* in *runtime*) echo 'cc1plus: error: internal' >&2; exit 1;; esac\nexec g++ \"$@\"\n"
    )
    toolchain = replace(found, tools={**found.tools, "g++": replace(found.tools["g++"], path=str(broken))})
    (tmp_path / "k.cu").write_text('extern "C" int demo() { return 0; }\n')
    failure = build(make_task(tmp_path, source=tmp_path / "k.cu"), toolchain, tmp_path / "build", want={"emulator"}).failure("emulator")
    assert failure is not None and failure.missing_tool == "g++" and "g++ 12" in failure.hint
    assert failure.sentence.startswith("g++ can't compile the emulator's runtime: ")


@not_root
def test_a_build_folder_that_can_t_be_written_is_one_error(tmp_path: Path, stub: Path) -> None:
    root = tmp_path / "build"
    root.mkdir()
    root.chmod(0o555)
    with pytest.raises(GatesError) as caught:
        make(tmp_path, stub)
    assert str(root) in caught.value.what and "--build-dir" in (caught.value.hint or "")


def test_a_file_where_the_build_folder_should_be_is_one_error(tmp_path: Path, stub: Path) -> None:
    (tmp_path / "build").write_text("in the way")
    with pytest.raises(GatesError, match="can't write the build folder") as caught:
        make(tmp_path, stub)
    assert "--build-dir" in (caught.value.hint or "")


def test_check_build_root_says_so_beforehand_and_makes_nothing(tmp_path: Path) -> None:
    check_build_root(tmp_path / "new" / "deep")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("in the way")
    for root in (tmp_path / "file", tmp_path / "file" / "build"):
        with pytest.raises(GatesError, match=f"can't write the build folder {root}: ") as caught:
            check_build_root(root)
        assert "not a directory" in caught.value.what and "--build-dir" in (caught.value.hint or "")


@not_root
def test_check_build_root_knows_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(GatesError, match="permission denied"):
        check_build_root(tmp_path / "build")


@pytest.mark.parametrize(
    ("folder", "changes"),
    [
        ("a|b", {}),
        ("a\nb", {}),
        ("a", {"nvcc_flags": ("-DX=1\n",)}),
        ("a", {"nvcc_flags": ("-DX=1\r",)}),
    ],
)
def test_names_that_ninja_can_t_hold_are_refused(tmp_path: Path, stub: Path, folder: str, changes: dict) -> None:
    (tmp_path / folder).mkdir()
    task = make_task(tmp_path / folder, **changes)
    with pytest.raises(GatesError, match="ninja can't|holds a") as caught:
        build(task, stub_toolchain(stub), tmp_path / "build", want=DEVICE)
    assert repr(str((changes.get("nvcc_flags") or task.sources)[0])) in caught.value.what and caught.value.exit_code == 2
    assert not (tmp_path / "build").exists()


def test_a_bar_in_a_flag_or_build_folder_is_built(tmp_path: Path, stub: Path) -> None:
    task = make_task(tmp_path, nvcc_flags=('-DX="a|b"',))
    assert not build(task, stub_toolchain(stub), tmp_path / "b|c\nd", want=DEVICE).failures


@pytest.mark.parametrize(
    ("errors", "ends"),
    [
        (("/a b/c/k.cu(12): error: no storage class",), "k.cu:12: error: no storage class"),
        (("nvcc fatal   : unsupported gpu", "/a/k.cu:7:3: error: in /usr/include/x.h"), "k.cu:7: error: in x.h"),
        (("/a/b/k.cuh:3:10: fatal error: none.h: No such file or directory",), "k.cuh:3: fatal error: none.h: No such file or directory"),
        (("/usr/bin/ld: /a/k.o: undefined reference to `f(int)'",), "f(int) is defined in no source"),
        (
            (
                "collect2: error: ld returned 1 exit status",
                "ld: b.cpp:(.text+0x0): multiple definition of `f'; a.o:a.cpp:(.text+0x0): first defined here",
            ),
            "f is defined more than once",
        ),
        (("k.cu(1): error: " + "x" * 500,), "x…"),
    ],
)
def test_the_sentence_of_a_failure_is_short_and_names_the_place(errors: tuple, ends: str) -> None:
    sentence = Failure("/usr/bin/nvcc -c k.cu", "exit 2", errors).sentence
    assert sentence.startswith("nvcc failed (exit 2): ") and sentence.endswith(ends) and len(sentence) <= 200


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "٣"])
def test_gates_jobs_must_be_a_positive_number(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATES_JOBS", value)
    with pytest.raises(GatesError, match="GATES_JOBS"):
        job_count(None)
    assert job_count(3) == 3


def test_jobs_from_the_environment_or_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATES_JOBS", " 3 ")
    assert job_count(None) == 3
    monkeypatch.setenv("GATES_JOBS", "")
    assert job_count(None) == len(os.sched_getaffinity(0))


def test_names_that_need_quoting(tmp_path: Path, stub: Path) -> None:
    folder = tmp_path / "a b%c#d'e"
    folder.mkdir()
    (folder / "k.cu").write_text("kernel\n")
    task = make_task(folder, source=folder / "k.cu")
    assert not build(task, stub_toolchain(stub), folder / "build", want=DEVICE).failures


def test_the_record_survives_json_without_machine_paths(tmp_path: Path, stub: Path) -> None:
    for text in ("kernel\n", "not c++\n"):
        data = make(tmp_path, stub, text).evidence()
        again = from_json(BuildResult, data, "build.json")
        assert again.evidence()["digest"] == data["digest"] and "log_text" not in data
        assert all(not (target["path"] or "").startswith("/") for target in data["targets"])


# the emulator's part


@needs_nvcc
def test_the_emulator_library_exports_the_launcher(tmp_path: Path) -> None:
    source = textwrap.dedent("""
        #include <cuda_runtime.h>
        #include <cstdint>
        __global__ void k(float* x) { x[threadIdx.x] = float(USE_X); }
        extern "C" int launch(float* x, void* stream, char*, int64_t) {
          k<<<1, 32, 0, static_cast<cudaStream_t>(stream)>>>(x);
          return cudaGetLastError() != cudaSuccess;
        }
    """)
    toolchain, task = find_toolchain(), make_task(tmp_path, source)
    library = build(task, toolchain, tmp_path / "build", want={"emulator"}).path("emulator")
    assert library is not None
    values = torch.zeros(32)
    EmulatedKernel(library, "launch")(values)
    assert values.tolist() == [1.0] * 32
    (tmp_path / "k.cu").write_text("this is not c++\n")
    broken = build(task, toolchain, tmp_path / "build", want={"emulator"})
    assert broken.path("emulator") is None and not library.exists()
    failure = broken.failure("emulator")
    assert failure is not None and any("error" in line for line in failure.errors)


@needs_nvcc
def test_kernels_that_launch_kernels_are_not_built(tmp_path: Path) -> None:
    source = "__global__ void inner() {}\n__global__ void k() { inner<<<1, 1>>>(); }\n"
    task = make_task(tmp_path, source, nvcc_flags=("-rdc=true",))
    failure = build(task, find_toolchain(), tmp_path / "build", want={"cubin"}).failure("cubin")
    assert failure is not None and failure.unsupported == "kernels that launch kernels (dynamic parallelism) are not judged"
    assert failure.hint == "launch the inner kernel from the host"


@needs_nvcc
@pytest.mark.parametrize(
    ("line", "lacking", "advice"),
    [("__device__ float y[32]; int n = cudaCtxResetPersistingL2Cache();", "cudaCtxResetPersistingL2Cache", "or leave these calls to")],
)
def test_what_the_emulator_does_not_have_is_named(tmp_path: Path, line: str, lacking: str, advice: str) -> None:
    source = f'{line}\n__global__ void k() {{ y[0] = 1; }}\nextern "C" int launch() {{ k<<<1, 1>>>(); return 0; }}\n'
    failure = build(make_task(tmp_path, source), find_toolchain(), tmp_path / "build", want={"emulator"}).failure("emulator")
    assert failure is not None and failure.unsupported == f"the CPU emulator does not have {lacking}" and advice in failure.hint
