"""Parse ptxas's remarks on costly code: instructions that are serialized, bounds that are ignored, spills.

ptxas repeats a remark for each instance of a template and each architecture. Here each is one ``Advice`` with a count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gates.core.kernel_names import base_name

_CONSEQUENCE = re.compile(r"performance|\bignor(?:ed|ing)\b|\bserializ|\bspilled\b|\blocal memory used\b|\bdegrad|\bslow", re.IGNORECASE)
_CODE = re.compile(r"^\(?(?P<code>[A-Z]\d{3,5})\)?\s*:?\s+")
_OWNER = re.compile(
    r"\s*\b(?:in|for|of)(?: the)?(?:(?: (?:entry|global|device|kernel))? (?:function|entry|kernel) '(?P<quoted>[^']+)'| entry "
    r"(?P<bare>[A-Za-z_$][\w$.]*[\w$]))"
)
_FIGURE = re.compile(r"\d+")
_MOST = 400  # characters of a remark


@dataclass(frozen=True)
class Advice:
    """``kernel``: the base name of the function that the remark names; empty if it names none. ``count``: how often ptxas printed it."""

    text: str  # without its code and the function's name
    kernel: str = ""
    code: str = ""  # ptxas's own number of the remark, as C7510; earlier toolkits print none
    count: int = 1
    archs: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The remark with its kernel, code and count, on one line."""
        owner = f"{self.kernel}: " if self.kernel else ""
        code = f" ({self.code})" if self.code else ""
        times = f", {self.count} times" if self.count > 1 else ""
        return f"{owner}{self.text}{code}{times}" + (f", {', '.join(self.archs)}" if self.archs else "")


def advice(kind: str, text: str) -> Advice | None:
    """The advice in one remark of ptxas (``kind`` info, warning or advisory); None if it names no consequence."""
    if kind not in ("info", "warning", "advisory") or not _CONSEQUENCE.search(text):
        return None
    code = _CODE.match(text)
    text = text[code.end() :] if code else text
    owner = _OWNER.search(text)
    if owner is not None:
        text = text[: owner.start()] + text[owner.end() :]
    name = (owner["quoted"] or owner["bare"]) if owner else ""
    return Advice(" ".join(text.split())[:_MOST].rstrip(" .,;:"), base_name(name) if name else "", code["code"] if code else "")


def merged(found: Iterable[tuple[str, Advice]]) -> tuple[Advice, ...]:
    """Each advice once, from (architecture, advice) pairs: remarks that differ in their figures alone are one."""
    kept: dict[tuple[str, str, str], Advice] = {}
    for arch, one in found:
        key = (one.kernel, one.code, _FIGURE.sub("#", one.text))
        known = kept.get(key)
        archs = (arch,) if known is None else tuple(dict.fromkeys((*known.archs, arch)))
        kept[key] = replace(known or one, count=(known.count if known else 0) + one.count, archs=archs)
    return tuple(kept.values())
