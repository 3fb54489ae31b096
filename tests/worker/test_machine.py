"""A fault of this machine (room, memory, limits) is exit code 2 with what to do, and never a verdict about a kernel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from places import ROOT, TESTS
from static_kit import calls, make_task, needs_nvcc, program, stub_toolchain

from gates.build import compile_step, failure
from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.worker import machine_fault, process
from gates.worker.job import run_job
from gates.worker.machine_fault import MachineFault, fault_in

FAULTS = {  # what compilers print where a machine lacks something, and a word of what to do
    "<built-in>: fatal error: when writing output to /t/tmpxft_7_saxpy.cpp1.ii: No space left on device": "free space",
    "<built-in>: fatal error: when writing output to /t/tmpxft_7_saxpy.cpp1.ii: Invalid argument": "free space",
    "/usr/include/c++/12/bits/stl_iterator.h(1235): catastrophic "
    "error: error while writing generated C++ file: No space left on device": "free space",
    "b.cpp:5:88: fatal error: error writing to /t/ccuz4eaY.s: No space left on device": "free space",
    "/tmp/cc.s: Fatal error: can't write 49 bytes to section .text of /b/a.o: 'No space left on device'": "free space",
    "/usr/bin/ld: final link failed: Disk quota exceeded": "free space",
    "OSError: [Errno 28] No space left on device: '/tmp/x'": "free space",
    "nvcc fatal   : Could not open output file '/nowhere/tmpxft_0000208c_0000000a'": "TMPDIR",
    "ptxas fatal   : Output file '/t/a.cubin' could not be opened": "TMPDIR",
    "Fatal error: can't create /t/a.o: Read-only file system": "can be written",
    "virtual memory exhausted: Cannot allocate memory": "--jobs 1",
    "cc1plus: out of memory allocating 65536 bytes after a total of 1048576 bytes": "--jobs 1",
    "g++: fatal error: Killed signal terminated program cc1plus": "--jobs 1",
    "nvcc error   : 'cicc' died due to signal 9 (Kill signal)": "--jobs 1",
    "nvcc error   : 'ptxas' died due to signal 7 (Bus error)": "free space",
    "terminate called after throwing an instance of 'std::bad_alloc'": "--jobs 1",
    "ImportError: libtorch_cuda.so: failed to map segment from shared object": "--jobs 1",
    "gcc: internal compiler error: File size limit exceeded signal terminated program cc1plus": "ulimit -f",
    "<command-line>: fatal error: /usr/include/stdc-predef.h: Too many open files": "ulimit -n",
    "g++: fatal error: cannot execute 'cc1plus': vfork: Resource temporarily unavailable": "ulimit -u",
}
OF_SOURCES = [  # what a source says, which is not the machine's word
    'k.cu:3:2: error: #error "out of memory: No space left on device"',
    'k.cu(3): error: static assertion failed with "arena: No space left on device"',
    "k.cu:3:2: error: static assertion failed: Cannot allocate memory",
    '    3 | throw Error("x: No space left on device");',
    'k.cu(4): error: identifier "bad_alloc" is undefined',
    "k.cu:4:8: error: 'out_of_memory' was not declared in this scope",
    "ptxas error   : Entry function 'k' uses too much shared data (0x10400 bytes, 0xc000 max)",
    "nvcc fatal   : Unsupported gpu architecture 'compute_30'",
    "undefined reference to `No_space_left'",
]


@pytest.mark.parametrize("line", FAULTS)
def test_a_tool_s_word_about_the_machine_is_known(line: str) -> None:
    found = fault_in(f"compiling k.cu\n{line}\ncompilation terminated.\n")
    assert found is not None and found[0] == line and FAULTS[line] in found[1]


@pytest.mark.parametrize("line", OF_SOURCES)
def test_a_source_s_words_are_not_the_machine_s(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault_in(f"{line}\n") is None
    monkeypatch.setattr(machine_fault, "shortage", lambda _: ("little room", "free some"))
    if "error" in line or "undefined" in line:  # a message that explains the failure, so what is left of the machine is not asked for
        failure.refuse_machine_fault(line, "exit 1", tmp_path, "nvcc")


def test_a_failure_without_a_message_is_compared_with_what_the_machine_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_fault, "shortage", lambda _: None)
    for text in (
        "Segmentation fault\n",
        "/bin/sh: 0: 3: Invalid argument\n",
        "nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)\n",
    ):
        failure.refuse_machine_fault(text, "exit 139", tmp_path, "nvcc")
        with monkeypatch.context() as little:
            little.setattr(machine_fault, "shortage", lambda _: ("/t has 0.1 MiB free", "free some"))
            with pytest.raises(MachineFault, match=r"this machine could not run nvcc to its end: .*\(/t has 0.1 MiB free\)"):
                failure.refuse_machine_fault(text, "exit 139", tmp_path, "nvcc")


def test_a_shortage_is_measured(tmp_path: Path) -> None:
    script = f"from pathlib import Path\nfrom gates.worker.machine_fault import shortage\nprint(shortage([Path({str(tmp_path)!r})]))"
    for limit, word in (
        ("ulimit -n 40", "open files"),
        ("ulimit -f 1000", "the size of a file"),
        ("ulimit -v 4000000", "memory"),
        ("ulimit -s 1024", "the stack"),
    ):
        done = subprocess.run(
            ["bash", "-c", f'{limit}; exec "$0" "$@"', sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        assert word in done.stdout, done.stderr
    assert machine_fault.shortage([tmp_path / "gone"]) is not None


def test_a_build_whose_ninja_dies_is_no_verdict(tmp_path: Path) -> None:
    """No source stops ninja: it goes on with what does not depend on a failed step."""
    (tmp_path / "k.cu").write_text("kernel\n")
    toolchain = stub_toolchain(tmp_path / "cuda")
    ninja = replace(toolchain.need("ninja"), path=str(program(tmp_path / "ninja", "#!/bin/sh\nkill -SEGV $$\n")))
    with pytest.raises(MachineFault, match=r"ninja ended before the build did: ninja: killed by SIGSEGV \(building in .*\)"):
        build(
            make_task(tmp_path, source=tmp_path / "k.cu"),
            replace(toolchain, tools={**toolchain.tools, "ninja": ninja}),
            tmp_path / "build",
            want={"cubin"},
        )


@pytest.mark.parametrize("text", ["kill yourself\n", "cicc dies\n"])
def test_a_killed_compiler_is_the_machine_s_fault(tmp_path: Path, text: str) -> None:
    (tmp_path / "k.cu").write_text(text)
    with pytest.raises(MachineFault) as caught:
        build(make_task(tmp_path, source=tmp_path / "k.cu"), stub_toolchain(tmp_path / "cuda"), tmp_path / "build", want={"cubin"})
    assert (
        caught.value.exit_code == 2
        and "this machine could not run nvcc to its end" in caught.value.what
        and "--jobs 1" in (caught.value.hint or "")
    )
    assert not [path for path in (tmp_path / "build").rglob("*") if path.name.endswith((".partial", ".cubin", ".so"))]


@pytest.mark.parametrize("make", [lambda folder: None, lambda folder: folder.write_text(""), lambda folder: folder.symlink_to("gone")])
def test_a_temporary_folder_that_can_t_be_used_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make
) -> None:
    make(tmp_path / "temporary")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    toolchain = stub_toolchain(tmp_path / "cuda")
    with pytest.raises(MachineFault, match="TMPDIR=.*temporary can't be used: ") as caught:
        build(make_task(tmp_path), toolchain, tmp_path / "build", want={"cubin"})
    assert caught.value.exit_code == 2 and "unset it" in (caught.value.hint or "")
    assert not (tmp_path / "build").exists() and not calls(tmp_path / "cuda")


@pytest.mark.parametrize("letter", [",", '"', "$", "`"])
@pytest.mark.parametrize("place", ["source", "build", "temporary"])
def test_a_folder_that_nvcc_can_t_take_is_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, letter: str
) -> None:
    folders = {name: tmp_path / (f"a{letter}b" if name == place else name) for name in ("source", "build", "temporary")}
    for folder in folders.values():
        folder.mkdir()
    (folders["source"] / "k.cu").write_text("kernel\n")
    monkeypatch.setenv("TMPDIR", str(folders["temporary"]))
    task = make_task(tmp_path, source=folders["source"] / "k.cu")
    toolchain = stub_toolchain(tmp_path / "cuda")
    with pytest.raises(MachineFault, match="in its name, which nvcc can't take") as caught:
        build(task, toolchain, folders["build"], want={"cubin"})
    assert f"a{letter}b" in caught.value.what and not calls(tmp_path / "cuda") and not list(folders["build"].iterdir())


@pytest.mark.parametrize("letter", ["%", "#", "'", "ö", ";", "&", "(", "*", "=", ":", "\\"])
def test_every_other_letter_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, letter: str) -> None:
    """With a stub of nvcc: that ninja, the shell and the step hand the path on as it is. The real nvcc takes these, too."""
    folder = tmp_path / f"a{letter}b"
    (folder / "tmp").mkdir(parents=True)
    (folder / "k.cu").write_text("kernel\n")
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    result = build(make_task(folder, source=folder / "k.cu"), stub_toolchain(tmp_path / "cuda"), folder / "build", want={"cubin"})
    assert not result.failures and {path.read_text() for path in (folder / "build").rglob("*.cubin")} == {"kernel\n"}


@needs_nvcc
def test_the_real_compilers_take_every_other_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a b%#'ö;&(*=:b"
    (folder / "tmp").mkdir(parents=True)
    (folder / "k.cu").write_text('extern "C" __global__ void k(float* x) { x[0] = 1; }\n')
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    result = build(make_task(folder, source=folder / "k.cu", entry="k"), find_toolchain(), folder / "build", want={"cubin", "device"})
    assert not result.failures


def test_an_output_that_is_cut_off_is_no_product(tmp_path: Path) -> None:
    """There may be room again when the step looks, since another one has given up its own output."""
    whole = Path(sys.executable).resolve().read_bytes()
    for size, cut in ((len(whole), False), (len(whole) - 1, True), (4096, True), (20, True)):
        (tmp_path / "made").write_bytes(whole[:size])
        assert compile_step._is_cut_off(str(tmp_path / "made")) is cut
        command = [
            sys.executable,
            "-I",
            "-S",
            str(Path(compile_step.__file__)),
            str(tmp_path / "out"),
            str(tmp_path / "log"),
            "--",
            "cp",
            str(tmp_path / "made"),
            "{out}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, (tmp_path / "out").exists()) == (int(cut), not cut) and ("No space left" in done.stderr) is cut
    (tmp_path / "made").write_text("not ELF")
    assert not compile_step._is_cut_off(str(tmp_path / "made"))


def on_small_disk(size: str, folder: Path, code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python ``code`` with a file system of ``size`` at ``folder``."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no unprivileged mount namespace here")
    folder.mkdir(exist_ok=True)
    script = f'mount -t tmpfs -o size={size} tmpfs "{folder}" && exec "$@"'
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (TESTS / "support", ROOT))), **environ}
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


BUILD = """
import sys
from pathlib import Path
from static_kit import make_task, stub_toolchain
from gates.core.errors import GatesError
from gates.build.build import build
folder, root = Path({folder!r}), Path({root!r})
try:
    print(build(make_task(folder, source=folder / "k.cu"), stub_toolchain(folder / "cuda"), root, want={{"cubin"}}).failures)
except GatesError as error:
    print(type(error).__name__, error.exit_code, error.what, error.hint)
    print([path.stat().st_size for path in root.rglob("*.cubin")])
"""


@pytest.mark.parametrize("size", ["4k", "20k", "32k", "36k"])
def test_a_build_folder_without_room_leaves_no_half_product(tmp_path: Path, size: str) -> None:
    """The compiler writes what fits and exits with 0, as nvcc does."""
    (tmp_path / "k.cu").write_text("kernel\n" + 5000 * "x = 1;\n")
    stub_toolchain(tmp_path / "cuda")
    nvcc = tmp_path / "cuda" / "bin" / "nvcc"
    code = BUILD.format(folder=str(tmp_path), root=str(tmp_path / "small")).replace(
        "folder, root =",
        f"import static_kit; static_kit.STUB_NVCC = {nvcc.read_text() + chr(10) + 'exit 0' + chr(10)!r}\nfolder, root =",
    )
    done = on_small_disk(size, tmp_path / "small", code)
    error, left = done.stdout.splitlines()
    assert error.split()[1] == "2" and ("MachineFault" in error or "can't write " in error), (done.stdout, done.stderr)
    assert set(json.loads(left)) <= {(tmp_path / "k.cu").stat().st_size}


def test_what_a_tool_prints_finds_no_room(tmp_path: Path) -> None:
    code = """
from gates.core.errors import GatesError
from gates.worker import process
import sys
try:
    print(process.run([sys.executable, "-c", "print('x' * 300000); import sys; sys.stdout.flush()"], limit_s=60))
except GatesError as error:
    print(type(error).__name__, error.exit_code, error.what, error.hint)
"""
    done = on_small_disk("64k", tmp_path / "small", code, TMPDIR=str(tmp_path / "small"))
    assert "MachineFault 2 this machine can't store the output of a tool" in done.stdout and "No space left" in done.stdout, (
        done.stdout,
        done.stderr,
    )


def test_a_tool_that_fails_with_room_is_the_tool_s_own_failure() -> None:
    assert process.run([sys.executable, "-c", "print('No space left on device'); raise SystemExit(3)"], limit_s=60).returncode == 3


@pytest.mark.parametrize(("said", "fault"), [("OSError: [Errno 12] Cannot allocate memory", True), ("ValueError: 3", False)])
def test_a_runner_that_this_machine_can_t_start_is_no_crash_of_a_kernel(tmp_path: Path, said: str, fault: bool) -> None:
    python = program(tmp_path / "python", f'#!/bin/sh\necho "{said}"; exit 1\n')
    job = {"kind": "case", "mode": "replay"}
    if fault:
        with pytest.raises(MachineFault, match="could not start the runner of .*Cannot allocate memory"):
            run_job(tmp_path, job, tmp_path / "work", limit_s=60, name="x", python=str(python))
    else:
        assert run_job(tmp_path, job, tmp_path / "work", limit_s=60, name="x", python=str(python)).returncode == 1


def test_gates_in_a_folder_that_pythonpath_can_t_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gates.__path__", [str(tmp_path / "a:b" / "gates")])
    with pytest.raises(MachineFault, match="a:b, has a ':' in its name"):
        run_job(tmp_path, {"kind": "case", "mode": "replay"}, tmp_path / "work", limit_s=60, name="x")


# --- killed for want of memory ---


@pytest.mark.parametrize(
    ("groups", "files", "kills"),
    [
        (
            "0::/user/run\n",
            {"sys/fs/cgroup/user/run/memory.events": "low 0\noom 7\noom_kill 3\noom_group_kill 1\n", "proc/vmstat": "oom_kill 9\n"},
            3,
        ),
        ("0::/other/name\n", {"sys/fs/cgroup/memory.events": "oom_kill 2\n", "proc/vmstat": "oom_kill 9\n"}, 2),  # a container
        (
            "5:cpu:/\n4:memory,x:/job\n0::/\n",
            {"sys/fs/cgroup/memory/job/memory.oom_control": "under_oom 0\noom_kill 4\n", "proc/vmstat": "oom_kill 9\n"},
            4,
        ),
        ("0::/\n", {"proc/vmstat": "pgfault 1\noom_kill 9\n"}, 9),
        ("0::/\n", {}, 0),
    ],
)
def test_the_system_counts_what_it_kills_for_memory(tmp_path: Path, groups: str, files: dict[str, str], kills: int) -> None:
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine_fault.memory_kills(tmp_path) == kills


KILLED_CASE = '{"type": "case", "nonce": "NONCE", "result": {"status": "crash", "message": "killed by SIGKILL while running the kernel"}}'


@pytest.mark.parametrize(
    ("lines", "end", "counts", "fault"),
    [
        ([], "kill -KILL $$", (0, 1), True),
        ([], "kill -KILL $$", (1, 1), False),  # it killed itself, or somebody else did
        (['{"type": "phase", "nonce": "NONCE", "phase": "kernel"}'], "kill -KILL $$", (0, 1), True),
        (['{"type": "phase", "nonce": "NONCE", "phase": "reference"}'], "kill -KILL $$", (0, 1), False),  # correctness.no_memory says it
        ([KILLED_CASE], "exit 0", (0, 2), True),
        ([KILLED_CASE], "exit 0", (2, 2), False),
        ([], "exit 0", (0, 1), False),  # another process was killed
    ],
)
def test_a_kernel_s_process_that_was_killed_for_memory_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], end: str, counts: tuple[int, int], fault: bool
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _: "NONCE")
    monkeypatch.setattr(machine_fault, "memory_kills", iter(counts).__next__)
    told = "\n".join(f"echo '{line}' >> {tmp_path}/work/x.jsonl" for line in lines)
    python = program(tmp_path / "python", f"#!/bin/sh\n{told}\n{end}\n")
    job = {"kind": "case", "mode": "replay"}
    if fault:
        with pytest.raises(MachineFault, match="ran out of memory and killed a process of ") as caught:
            run_job(tmp_path, job, tmp_path / "work", limit_s=60, name="x", python=str(python))
        assert caught.value.exit_code == 2 and "memory" in (caught.value.hint or "")
    else:
        assert len(run_job(tmp_path, job, tmp_path / "work", limit_s=60, name="x", python=str(python)).lines) == len(lines)
