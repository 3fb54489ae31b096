"""Whether a failed emulator build is the source's fault, or shows what the emulator alone lacks.

nvcc's word decides: what it compiled is CUDA, whatever the emulator says. Where nvcc has said nothing, a header or a
name that the emulator does not know may be CUDA's, and nobody here can tell; any other error is the source's. So is a name
from a header of the C++ library that is not included: nvcc's pass for the device knows some of them, its pass for the host doesn't.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gates.build.failure import Failure, first_error

_HEADER = re.compile(r"fatal error: (?P<name>\S+): No such file")
_QUOTED = (
    r"[‘'](?P<name>(?!\S*gates_emulator)[^’']+)[’']"  # g++ quotes as its locale does; a name of the emulator's own is not the kernel's
)
_OTHER = "(?![‘']std[’'])"  # what is in std, the emulator has from the library that nvcc has it from
_NAME = re.compile(
    rf"error: {_QUOTED} (?:was not declared|has not been declared|does not name a|is not a member of {_OTHER}|in namespace {_OTHER}.* does not name a)"
)
_USE = re.compile(
    r"error: (?:no matching function for call to|no match for|.* has no member named)"
)  # of a name with other overloads or members
_UNREAD = re.compile(r"can't read th|can't find the start of|__shared__ outside a function")  # by the translation
_REMEDY = (
    "guard it with #ifndef GATES_EMULATOR, give the function that uses it a host version under #ifdef GATES_EMULATOR (docs/internals/emulator.md), "
    "or run the task on a CUDA device"
)


def reconsidered(failure: Failure, compiled: bool | None) -> Failure:
    """``failure``, marked as unsupported where the emulator alone is at fault. ``compiled``: nvcc's word on the same sources, None without one."""
    its_own = failure.forgotten or failure.linked  # nvcc compiles each source by itself, and for the device alone
    if failure.missing_tool or failure.unsupported or its_own or compiled is False:
        return failure
    error = first_error(failure.errors) if failure.errors else ""
    place = error.partition(": ")[0]
    header, name = _HEADER.search(error), _NAME.search(error)
    if header:
        what = f"{place}: the CPU emulator has no header {header['name']}"
    elif name:
        what = f"{place}: the CPU emulator does not know {name['name']}"
    elif compiled or _USE.search(error) or _UNREAD.search(error):
        what = f"the CPU emulator can't build the source: {failure.sentence}"
    else:
        return failure
    unsure = "" if compiled else "; there is no nvcc here to say whether it is CUDA's"
    return replace(failure, unsupported=what + unsure, hint=failure.hint or _REMEDY)
