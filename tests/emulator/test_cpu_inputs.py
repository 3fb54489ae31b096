"""What the CPU device says of inputs that it can't run: one clear sentence each, and the process lives."""

from __future__ import annotations

import ctypes
import random
import shutil
import struct
import subprocess
from pathlib import Path

import cpu_kit
import numpy as np
import pytest

from gates.core.errors import GatesError
from gates.emulator.cpu.build import runtime_object
from gates.emulator.cpu.loading import CpuDevice, Launcher, PtxModule


def ptx(line: str, version: str = "9.0", before: str = "") -> str:
    """A module with the kernel `work` that has `line`, of line 17 of a user's file."""
    return f""".version {version}
.target sm_90
.address_size 64
.file 1 "/user/kernel.cu"
{before}
.visible .entry work(.param .u64 out) {{
.reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;
.loc 1 17 3
{line}
st.global.u32 [%rd1], %r1; ret;
}}
"""


@pytest.fixture
def cpu() -> CpuDevice:
    return cpu_kit.device(time_limit_ms=2000)


def said(cpu: CpuDevice, text: str) -> str:
    """The only finding of a launch of `work`, which fails."""
    with pytest.raises(GatesError):
        PtxModule(cpu, text).launch("work", (1,), (32,), cpu.empty((32,), np.int32))
    (found,) = cpu.findings()
    assert found.code == "cpu.unsupported" and found.kernel == "work"
    return found.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ptx("frobnicate.b32 %r1, %r1;"), "not supported: frobnicate.b32 at /user/kernel.cu:17"),
        (ptx("add.wrong.s32 %r1, %r1, %r1;"), "modifier .wrong"),
        (ptx("mov.u64 %rd2, nowhere;"), "nothing is named nowhere"),
        (ptx("bra NOWHERE;"), "a branch to NOWHERE, which is no label of work"),
        (ptx("mov.u32 %r1, 99999999999999999999999;"), "'99999999999999999999999' is no number of 64 bits"),
        (ptx(".shared .b8 huge[99999999999];"), "huge of 99999999999 bytes in shared memory"),
        (ptx("", before=".extern .global .b32 elsewhere;"), "the variable elsewhere of another file"),
        (ptx("").rstrip().rstrip("}"), "a function does not end"),
        ("\n", "the module holds no kernel work"),
        ("ELF \x01\x02", "PTX line 1: "),
    ],
)
def test_ptx_that_it_can_not_run(cpu: CpuDevice, text: str, message: str) -> None:
    assert message in said(cpu, text)


def test_ptx_of_a_newer_isa_says_so(cpu: CpuDevice) -> None:
    assert said(cpu, ptx("future.op.b32 %r1;", "11.2")).endswith(
        "(the PTX is of ISA 11.2, this device knows 9.0: compile with an older toolkit)"
    )


def test_a_fat_binary_without_ptx(cpu: CpuDevice) -> None:
    entry = struct.pack("<HHIQ", 2, 0, 64, 8) + bytes(48) + bytes(8)  # machine code alone
    image = ctypes.create_string_buffer(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry)
    wrapper = struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(image), 0)
    library, host = cpu.library, ctypes.create_string_buffer(1)
    library.__cudaRegisterFatBinary.restype = ctypes.c_void_p
    module = ctypes.c_void_p(library.__cudaRegisterFatBinary(wrapper))
    library.__cudaRegisterFunction(module, host, None, b"work", 0, None, None, None, None, None)
    attributes = ctypes.create_string_buffer(256)
    assert library.cudaFuncGetAttributes(attributes, host) == 801
    (found,) = cpu.findings()
    assert found.code == "cpu.unsupported" and "holds no PTX; compile with -gencode" in found.message
    library.__cudaUnregisterFatBinary(module)


def test_more_memory_than_there_is(cpu: CpuDevice) -> None:
    with pytest.raises(MemoryError, match="not enough memory to allocate"):
        cpu.empty((1 << 50,), np.uint8)


def test_where_a_kernel_was_when_its_time_was_over() -> None:
    cpu = cpu_kit.device(time_limit_ms=100)
    with pytest.raises(GatesError, match="timed out"):
        PtxModule(cpu, ptx("AGAIN: bra AGAIN;")).launch("work", (1,), (32,), out := cpu.empty((32,), np.int32))
        out.get()
    (found,) = cpu.findings()
    assert found.code == "cpu.time_limit" and found.where == "/user/kernel.cu:17"


def test_broken_ptx_never_ends_the_process(cpu: CpuDevice) -> None:
    """Words and signs of a kernel left out, doubled and swapped: an error or a run, no crash and no hang."""
    text, draw = ptx("@%p1 bra DONE; DONE: shfl.sync.bfly.b32 %r1|%p1, %r1, 1, 31, -1;"), random.Random(0)
    words = text.replace(";", " ;").split(" ")
    for _ in range(150):
        mutated = list(words)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(mutated))
            mutated[at] = draw.choice(["", mutated[at] * 2, draw.choice(words), "{", "}", "[", "%r9999", "-", '"', ".pragma"])
        cpu.reset()
        cpu.configure(time_limit_ms=50)
        module = PtxModule(cpu, " ".join(mutated[: draw.choice([len(mutated), draw.randrange(len(mutated))])]))
        try:
            module.launch("work", (1,), (32,), cpu.empty((32,), np.int32))
        except GatesError:
            continue


def test_a_library_that_can_not_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_bytes(b"no library")
    with pytest.raises(GatesError, match="can't load"):
        Launcher(tmp_path / "broken.so", "entry")
    with pytest.raises(GatesError, match="has no function entry"):
        Launcher(Path(cpu_kit.device().library._name), "entry")


ASSERT = """mov.u64 %rd2, words; cvta.global.u64 %rd2, %rd2;
{ .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
st.param.b64 [p0], %rd2; st.param.b64 [p1], %rd2; st.param.b32 [p2], 7; st.param.b64 [p3], %rd2; st.param.b64 [p4], 1;
call.uni __assertfail, (p0, p1, p2, p3, p4); }"""


@pytest.mark.parametrize(
    ("line", "number", "words"),
    [
        ("ld.global.u32 %r1, [%rd1+2];", 716, "misaligned address"),
        ("mov.u64 %rd2, 8; ld.global.u32 %r1, [%rd2];", 700, "an illegal memory access was encountered"),
        ("trap;", 719, "unspecified launch failure"),
        (ASSERT, 710, "device-side assert triggered"),
        ("cvta.to.global.u64 %rd2, %rd1; mov.u32 %r2, %r1; bar.sync 0, 64;", 702, "the launch timed out and was terminated"),
    ],
)
def test_a_fault_has_the_error_number_of_a_device(cpu: CpuDevice, line: str, number: int, words: str) -> None:
    out = cpu.array(np.zeros(32, np.int32))
    before = ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n"
    PtxModule(cpu, ptx(line, before=before + ".global .align 1 .b8 words[2] = {120, 0};")).launch("work", (1,), (32,), out)
    assert cpu.library.cudaGetLastError() == number and cpu.library.cudaGetErrorString(number).decode() == words
    with pytest.raises(GatesError, match=words):  # the device is lost, as a real one is
        out.get()


def test_a_launcher_can_not_name_the_runtimes_own_functions() -> None:
    told = subprocess.run(["nm", "--defined-only", str(runtime_object())], capture_output=True, text=True, check=True).stdout
    kinds = {name: kind for _, kind, name in (line.split() for line in told.splitlines() if len(line.split()) == 3)}
    own = [name for name in kinds if name.startswith("_ZN9gates_cpu")]
    assert "_ZN9gates_cpu14clear_findingsEv" in own and not [name for name in own if kinds[name] in "TDBRVWu"]
    assert kinds["cudaMalloc"] == kinds["__wrap_dlsym"] == "T"


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_the_runtime_links_with_a_libstdcxx_that_is_linked_in(tmp_path: Path) -> None:
    """As a compiler without a shared one does."""
    wanted = "-Wl,-u,_ZN9__gnu_cxx27__verbose_terminate_handlerEv"  # which has handlers of the same exceptions
    argv = ["g++", "-shared", str(runtime_object()), "-static-libstdc++", wanted, "-o", str(tmp_path / "runtime.so")]
    assert subprocess.run(argv, capture_output=True, text=True, check=False).stderr == ""
