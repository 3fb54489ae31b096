"""What the tests of toolchain and build share: stub compilers, and a task made of one source."""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gates.build.toolchain import Toolchain, find_toolchain
from gates.task.load import Task


def _octal(data: bytes) -> str:
    return "".join(f"\\{byte:03o}" for byte in data)


# An object up to the size of its section with the fat binary, then up to the size of all entries, and up to that of the one cubin.
_OBJECT = _octal(
    struct.pack("<16s2H I 3Q I 6H", b"\x7fELF\x02\x01\x01", 1, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 1)
    + bytes(64)  # no section
    + struct.pack("<2I 4Q 2I 2Q", 1, 3, 0, 0, 256, 24, 0, 0, 1, 0)  # names
    + struct.pack("<2I 3Q", 8, 1, 2, 0, 280)
)
_FAT_BINARY = _octal(struct.pack("<2I 2Q", 0, 0, 1, 0) + b"\0.names\0.nv_fatbin".ljust(24, b"\0") + struct.pack("<I2H", 0xBA55ED50, 1, 16))
_ENTRY, _REST = _octal(struct.pack("<2HI", 2, 257, 64)), _octal(bytes(12))

# An nvcc that copies its sources to its output (into the fat binary of an object), follows #include, and does what the source asks for.
STUB_NVCC = (
    r"""#!/bin/sh
le() { printf "\\$(printf %03o $(($1 & 255)))\\$(printf %03o $(($1 >> 8 & 255)))\0\0\0\0\0\0"; }
if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.99"; exit 0; fi
if [ "$1" = --dryrun ]; then exit 0; fi
echo "$*" >> "${0%/*}/calls"
sources=""; out=""; dep=""; arch=sm_00; object=""
while [ $# -gt 0 ]; do
  case "$1" in
    -o) out="$2"; shift;; -MF) dep="$2"; shift;; -ccbin) ccbin="$2"; shift;;
    -arch=*) arch="${1#-arch=}";; -gencode=*code=sm_*) arch="sm_${1#*code=sm_}";; -c) object=yes;; *.cu|*.o) sources="$sources $1";;
  esac
  shift
done
if [ -n "$ccbin" ] && [ ! -x "$ccbin" ]; then
  echo "$ccbin: No such file or directory"; echo "nvcc fatal   : Failed to preprocess host compiler properties."; exit 1
fi
text=$(cat $sources)
case "$text" in
  *"not c++"*) echo "k.cu(1): error: this declaration has no storage class"; echo "1 error detected"; exit 2;;
  *"kill yourself"*) kill -9 $$;;
  *"cicc dies"*) echo "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"; exit 9;;
  *"half an output"*) echo half > "$out"; exit 1;;
  *"take long"*) echo half > "$out"; sleep 30;;
esac
headers=$(sed -n 's/#include "\(.*\)"/\1/p' $sources)
for header in $headers; do headers_full="$headers_full $(dirname $(echo $sources | cut -d' ' -f1))/$header"; done
[ -n "$dep" ] && echo "$out: $sources $headers_full" > "$dep"
if [ -n "$object" ]; then
  number=$(echo "$arch" | tr -cd 0-9); size=$(cat $sources $headers_full | wc -c)
  { printf '@OBJECT'; le $((size + 80)); printf '@FAT_BINARY'; le $((size + 64)); printf '@ENTRY'; le $size
    printf '@REST'; le $number; printf '@REST@REST\0\0\0\0'; cat $sources $headers_full; } > "$out"
else
  cat $sources $headers_full > "$out"
fi
echo "ptxas info    : 0 bytes gmem"
echo "ptxas info    : Compiling entry function 'k' for '$arch'"
echo "ptxas info    : Function properties for k"
echo "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"
echo "ptxas info    : Used 10 registers, used 0 barriers"
""".replace("@OBJECT", _OBJECT)
    .replace("@FAT_BINARY", _FAT_BINARY)
    .replace("@ENTRY", _ENTRY)
    .replace("@REST", _REST)
)

_EMPTY_CUBIN = (
    'asm(R"(.pushsection .nv_fatbin,"a"; .long 0xba55ed50; .short 1, 16; .quad 64; '
    '.short 2, 257; .long 64; .zero 20; .long 89; .zero 32; .popsection)");'
)

# An nvcc that gives host code to g++, with the flags that are g++'s too.
HOST_NVCC = r"""#!/usr/bin/env python3
import os, sys
words, given = [], sys.argv[1:]
if given == ["--version"]:
    print("Cuda compilation tools, release 13.0, V13.0.99")
    sys.exit(0)
if given[0] == "--dryrun":
    sys.exit(0)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls"), "a") as calls:
    print(*given, file=calls)
if "-cubin" in given:
    out, dep = (given[given.index(name) + 1] for name in ("-o", "-MF"))
    open(out, "w").close()
    with open(dep, "w") as rule:
        print(f"{out}: {next(word for word in given if word.endswith('.cu'))}", file=rule)
    sys.exit(0)
while given:
    word = given.pop(0)
    name, equals, value = word.partition("=")
    if name == "-Xptxas":
        given.pop(0)
    elif name in ("-Xcompiler", "-Xlinker", "--include-path", "--define-macro"):
        parts = (value if equals else given.pop(0)).split(",")
        start = {"-Xcompiler": "", "-Xlinker": "-Wl,", "--include-path": "-I", "--define-macro": "-D"}[name]
        words += [start + part for part in parts]
    elif name == "-include" and equals:
        words += ["-include", value]
    elif name not in ("-gencode", "-lineinfo", "--no-compress", "-cudart"):
        words.append(word)
if "-c" in words:
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "fat_binary.h"), "w") as header:
        print('@ASM', file=header)
    words += ["-include", header.name]
words = [part for word in words for part in (["-x", "c++", word] if word.endswith(".cu") else [word])]
os.execvp("g++", ["g++", *words])
""".replace("@ASM", _EMPTY_CUBIN)


def program(path: Path, text: str) -> Path:
    """An executable script; one that is there already stays the same file, as compilers do between two builds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
        path.chmod(0o755)
    return path


def stub_toolchain(folder: Path, nvcc: str = STUB_NVCC, **environ: str) -> Toolchain:
    """A toolchain whose nvcc is a stub, and what else is beside it; the rest is this machine's."""
    path, given = program(folder / "bin" / "nvcc", nvcc), {**os.environ, **environ}
    if {file.name for file in path.parent.iterdir()} - {"nvcc", "calls"}:
        return find_toolchain({**given, "CUDA_HOME": str(folder)}, [])
    given.pop("PYTEST_CURRENT_TEST", None)
    found = _found(tuple(sorted(given.items())), nvcc)
    assert found.nvcc is not None
    return replace(found, tools={**found.tools, "nvcc": replace(found.nvcc, path=str(path))})


@cache  # each tool is started to be asked its version, which is most of the time of a stub's build
def _found(environ: tuple[tuple[str, str], ...], nvcc: str) -> Toolchain:
    with TemporaryDirectory() as home:
        program(Path(home) / "bin" / "nvcc", nvcc)
        return find_toolchain({**dict(environ), "CUDA_HOME": home}, [])


def calls(folder: Path) -> list[str]:
    """The stub's command lines so far."""
    path = folder / "bin" / "calls"
    return path.read_text().splitlines() if path.is_file() else []


def make_task(folder: Path, text: str | None = None, source: Path | None = None, **changes) -> Task:
    """A task whose one source is ``folder/k.cu`` with ``text``, or ``source``."""
    if source is None:
        source = folder / "k.cu"
        source.write_text(text if text is not None else "kernel\n")
    values = {
        "name": "demo",
        "title": "demo",
        "folder": folder,
        "problem": "none",
        "sources": (source,),
        "entry": "launch",
        "kernels": ("k",),
        "toggles": {"USE_X": 1},
        "arch": ("sm_89",),
        "shapes": ("small",),
        "seeds": (0,),
        "gates": {},
    }
    return Task(**{**values, **changes})


_TOOLS = find_toolchain()
needs_nvcc = pytest.mark.skipif(_TOOLS.nvcc is None, reason="no nvcc: neither a toolkit nor the nvidia-cuda-nvcc wheel")
needs_cuobjdump = pytest.mark.skipif(_TOOLS.get("cuobjdump") is None, reason="no cuobjdump")
not_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
CXX = shutil.which("g++")
