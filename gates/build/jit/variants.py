"""Number the variants in which one kernel was compiled: for other shapes, constants or types of arguments."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable
from typing import Any


def numbered(kernels: Iterable[tuple[str, str, str]]) -> list[dict[str, Any]]:
    """Return {"name", "arch", "variant", "ptx"} of each (name, architecture, PTX).

    A kernel of several variants is called as a template's instances in its PTX, so that each has a block of its own in ptxas's log.
    """
    kernels = list(kernels)
    counts = collections.Counter((name, arch) for name, arch, _ in kernels)
    seen: collections.Counter[tuple[str, str]] = collections.Counter()
    found = []
    for name, arch, text in kernels:
        variant = seen[name, arch]
        seen[name, arch] += 1
        if counts[name, arch] > 1:
            text = re.sub(rf"\b{re.escape(name)}\b", f"_Z{len(name)}{name}ILi{variant}EEvv", text)
        found.append({"name": name, "arch": arch, "variant": variant, "ptx": text})
    return found
