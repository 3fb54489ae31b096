"""All conformance items, by name."""

from __future__ import annotations

from conformance.catalogue import Item
from conformance.elementwise import ARITHMETIC
from conformance.formats import FP8, HALF
from conformance.kernels import BLOCKS, HOST, WARPS, WMMA
from conformance.more import MORE

ITEMS: dict[str, Item] = {item.name: item for item in (*ARITHMETIC, *HALF, *FP8, *WMMA, *WARPS, *BLOCKS, *HOST, *MORE)}
SOURCES = ("arithmetic", "half", "fp8", "wmma", "warps", "blocks", "host", "more")
