"""Kernel names: what identifies one kernel in two builds, and its plain name.

A mangled name is not stable: nvcc puts a hash of the source file's path into the names of anonymous
namespaces (``_ZN39_GLOBAL__N__9131ba9c_7_anon_cu_d49f61306hiddenEPf``) and, with relocatable device
code, in front of internal kernels (``__nv_static_23__746c5f90_…__Z4statPf``). ``kernel_key`` takes
these out, so that one source built in two folders gives one key. Mangling is the Itanium C++ ABI's,
section 5.1 (https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

_ANONYMOUS = re.compile(r"(\d+)(_GLOBAL__N_)")
_STATIC = re.compile(r"^__nv_static_(\d+)_")
_LENGTH = re.compile(r"(\d+)")
_OF_WARP = re.compile(r"_[0-9a-f]{8}_cuda_kernel_(?:forward|backward)$")  # what Warp puts after a kernel's Python name


def kernel_key(mangled: str) -> str:
    """The name with everything removed that depends on where the source lay."""
    static = _STATIC.match(mangled)
    if static:  # the counted part starts with the underscore that the pattern leaves, and one more follows it
        mangled = mangled[static.end() + int(static.group(1)) + 1 :]
    key, end = "", 0
    for match in _ANONYMOUS.finditer(mangled):
        if match.start() < end:
            continue
        key += mangled[end : match.start()] + "12_GLOBAL__N_1"  # as g++ writes an anonymous namespace
        end = match.start(2) + int(match.group(1))
    return key + mangled[end:]


def missing_kernels(expected: Sequence[str], present: Collection[str]) -> list[str]:
    """The base names of ``expected`` that are not ``present``; "any kernel" where nothing is expected by name and nothing is there."""
    return [name for name in expected if name not in present] or ([] if present else ["any kernel"])


def base_name(mangled: str) -> str:
    """The function's own name, without namespaces, template arguments and parameters.

    A name that is not mangled (``extern "C"``) is its own base name; of an operator or another
    special name, the whole key is given back.
    """
    key = kernel_key(mangled)
    if not key.startswith("_Z"):
        return _OF_WARP.sub("", key)
    rest = key[2:]
    nested = rest.startswith("N")
    if nested:
        rest = rest[1:].lstrip("rVK")
    name = ""
    while True:
        rest = rest[1:] if rest.startswith("L") and rest[1:2].isdigit() else rest  # L: internal linkage
        length = _LENGTH.match(rest)
        if length is None:
            return name or key
        size = int(length.group(1))
        name, rest = rest[length.end() : length.end() + size], rest[length.end() + size :]
        if not nested:
            return name or key


def plain_name(name: str) -> str:
    """The base name of a kernel as a person, a launch record or a tool writes it: ``gate::k<64>(float*)`` and ``gate::k[abi:v1]()`` give
    ``k``.
    """
    if name.startswith("_Z") or name.startswith("__nv_static_"):
        return base_name(name)
    depth, kept = 0, []
    for character in name.replace("(anonymous namespace)", "anonymous"):
        if character in "<([":
            depth += 1
        if depth == 0:
            kept.append(character)
        if character in ">)]":
            depth -= 1
    words = "".join(kept).split()
    return _OF_WARP.sub("", words[-1].split("::")[-1]) if words else name


def without_parameters(demangled: str) -> str:
    """The readable name without return type and parameters: ``void k<64>(float*)`` gives ``k<64>``."""
    depth, end = 0, len(demangled)
    for i in range(len(demangled) - 1, -1, -1):  # the parameter list is the last (…) outside <…>
        depth += {")": 1, ">": 1, "(": -1, "<": -1}.get(demangled[i], 0)
        if depth == 0 and demangled[i] == "(" and not demangled.startswith("(anonymous namespace)", i):
            end = i
            break
    return demangled[:end].removeprefix("void ")


def instance_of(name: str) -> str:
    """A readable name reduced to what tells instances of one template apart: of ``void a::k<a::T<(int)64>, (bool)0>(float *)``, as
    Nsight Compute writes it, ``a::k<a::T<64>,false>``, as of ``void a::k<a::T<64>, false>(float*)``."""
    name = without_parameters(name).replace("(bool)0", "false").replace("(bool)1", "true")
    return re.sub(r"\((?:unsigned )?(?:int|long|char|short)\)|\s", "", name)


def instance_of_signature(signature: str) -> str:
    """The same of a readable name, and of a signature as g++ writes it (in runs of before): ``a::k<64,false>`` of
    ``void a::k(float*) [with int N = 64; bool kFast = false]``."""
    head, _, arguments = signature.removesuffix("]").partition(" [with ")
    values = [part.partition(" = ")[2] for part in arguments.split("; ")] if arguments else []
    return instance_of(f"{without_parameters(head)}<{','.join(values)}>" if values else head)


def misnamed(kernels: Iterable[Any]) -> Iterator[str]:
    """Yield what of the names of a kernel in evidence does not come from its mangled ``name``: key, base name, readable name."""
    for one in kernels:
        if (one.key, one.base_name) != (kernel_key(one.name), base_name(one.name)):
            yield f"{one.base_name} is not what {one.name} is called"
        if one.base_name != one.key and one.demangled != one.name and one.base_name not in one.demangled:
            yield f"{one.name} does not read {one.demangled}"
