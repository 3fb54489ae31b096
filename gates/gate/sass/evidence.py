"""The evidence of the sass gate: machine instructions of each kernel, counted by what they do.

Reads the text of ``cuobjdump --dump-sass`` and of ``nvdisasm``. Mnemonics: CUDA Binary Utilities,
"Instruction Set Reference" (https://docs.nvidia.com/cuda/cuda-binary-utilities/).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gates.core.kernel_names import base_name, kernel_key

# class -> opcodes (the mnemonic before its first dot), Volta to Blackwell. wgmma and tma, Hopper's own instructions, are
# part of tensor and async_copy.
_TABLE = {
    "tensor": "HMMA HGMMA IMMA IGMMA QMMA QGMMA BMMA BGMMA DMMA OMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA",
    "async_copy": "LDGSTS UTMALDG UTMASTG UTMAREDG UBLKCP UBLKRED",
    "wgmma": "HGMMA IGMMA QGMMA BGMMA",
    "tma": "UTMALDG UTMASTG UTMAREDG UBLKCP UBLKRED",
    "async_wait": "LDGDEPBAR DEPBAR ARRIVES SYNCS UTMACMDFLUSH",
    "local_memory": "LDL STL",
    "shared_load": "LDS LDSM",
    "shared_store": "STS STSM",
    "global_load": "LDG",
    "global_store": "STG",
    "generic_memory": "LD ST",  # the address space is known at run time only: may be local memory
    "atomic": "ATOM ATOMG ATOMS RED REDG REDAS",
    "barrier": "BAR UCGABAR_ARV UCGABAR_WAIT",
    "warp_sync": "WARPSYNC VOTE VOTEU MATCH REDUX CREDUX",
    "shuffle": "SHFL MOVM",
    "fma": "FFMA FFMA2 FFMA32I HFMA2 HFMA2_MMA DFMA",
    "float_add_mul": "FADD FADD2 FADD32I FMUL FMUL2 FMUL32I HADD2 HADD2_32I HMUL2 HMUL2_32I DADD DMUL",
    "mufu": "MUFU",
    "conversion": "F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND",
    "branch": "BRA BRX JMP JMX CALL RET EXIT BSYNC BSSY BREAK",
}
CLASSES: Mapping[str, frozenset[str]] = {name: frozenset(opcodes.split()) for name, opcodes in _TABLE.items()}
TOP = 12  # mnemonics listed for a kernel

_CUOBJDUMP = re.compile(r"^\s*Function : (?P<name>\S+)\s*$")
_NVDISASM = re.compile(r"^\.text\.(?P<name>\S+):\s*$")
_INSTRUCTION = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?P<text>(?:@!?U?P(?:\d+|T)\s+)?(?P<opcode>[A-Z][A-Z0-9_]*)(?P<rest>(?:\.[A-Za-z0-9_]+)*)[^;]*)"
)


@dataclass(frozen=True)
class SassFunction:
    """One function of a cubin; instructions are counted once each, however often they run."""

    name: str
    key: str
    base_name: str
    demangled: str
    arch: str
    instructions: int
    classes: Mapping[str, int]  # class -> instructions, of every class of the table
    top_mnemonics: Mapping[str, int] = field(default_factory=dict)  # the commonest, with their suffixes
    code: tuple[str, ...] = ()  # the instructions without addresses, of the newest architecture; runs of earlier versions have none


@dataclass(frozen=True)
class SassEvidence:
    """The machine code of a task's kernels, for every architecture that was asked for."""

    archs: tuple[str, ...]
    expected_kernels: tuple[str, ...]
    functions: tuple[SassFunction, ...]
    missing_dumps: tuple[str, ...] = ()  # architectures without disassembly
    missing_reason: str = ""  # why, and what to do about it
    problems: tuple[str, ...] = ()
    schema_version: int = 1
    build: str = ""  # the identity of the build that was judged; earlier runs do not name it
    data: Mapping[str, str] = field(default_factory=dict)  # architecture -> sha256 of constants, initial values and sizes of shared memory
    host: str = ""  # sha256 of the host code, which decides what is launched; runs of earlier versions have none


def parse_sass(text: str) -> Mapping[str, list[tuple[str, str]]]:
    """Mangled function name -> (full mnemonic such as ``LDG.E.128``, whole text) of each instruction, in their order."""
    functions: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] | None = None
    for line in text.splitlines():
        if header := _CUOBJDUMP.match(line) or _NVDISASM.match(line):
            current = functions.setdefault(header["name"], [])
        elif line.lstrip().startswith(".section"):
            current = None  # nvdisasm: the code of the function is over
        elif current is not None and (instruction := _INSTRUCTION.match(line)):
            current.append((instruction["opcode"] + instruction["rest"], " ".join(instruction["text"].split())))
    return functions


def count_classes(mnemonics: Mapping[str, int]) -> dict[str, int]:
    """Instructions of each class of ``CLASSES``; every class is present, 0 included."""
    opcodes: Counter[str] = Counter()
    for mnemonic, count in mnemonics.items():
        opcodes[mnemonic.split(".")[0]] += count
    return {name: sum(opcodes[opcode] for opcode in members) for name, members in CLASSES.items()}


def gather(
    dumps: Mapping[str, str | None],
    expected_kernels: Sequence[str],
    *,
    demangled: Mapping[str, str] | None = None,
    missing_reason: str = "",
    data: Mapping[str, str] | None = None,
    host: str = "",
) -> SassEvidence:
    """Count the instructions of ``dumps`` (architecture -> disassembly, or None where there is none)."""
    newest = max(dumps, key=lambda arch: int("".join(filter(str.isdigit, arch)) or 0), default="")
    readable = demangled or {}
    functions, problems = [], []
    for arch, text in dumps.items():
        for name, instructions in parse_sass(text or "").items():
            mnemonics = Counter(mnemonic for mnemonic, _ in instructions)
            if not mnemonics:
                problems.append(f"{arch}: the disassembly of {name} holds no instruction")
            functions.append(
                SassFunction(
                    name,
                    kernel_key(name),
                    base_name(name),
                    readable.get(name, name),
                    arch,
                    sum(mnemonics.values()),
                    count_classes(mnemonics),
                    dict(mnemonics.most_common(TOP)),
                    tuple(text.replace(name, "SELF") for _, text in instructions) if arch == newest else (),
                )
            )
    missing = tuple(arch for arch, text in dumps.items() if text is None)
    return SassEvidence(
        tuple(dumps),
        tuple(expected_kernels),
        tuple(functions),
        missing,
        missing_reason if missing else "",
        tuple(problems),
        data=data or {},
        host=host,
    )
