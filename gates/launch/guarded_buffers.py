"""Buffers that show what a kernel did to memory it was not given.

Each tensor lies between two guard bands of random bytes, which the judge draws and checks. Its start is aligned as torch
aligns its own allocations; the rear guard begins at the very next byte after the last element, so a write one
element too far changes it. Outputs are filled with poison before each call, with another pattern
for each call: an element that shows the poison of every call was certainly never written, whatever
the right value is. Input guards hold different bytes in each call too, so a kernel that reads past
an input and uses what it finds does not repeat itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gates.task.reals import reals
from gates.task.tensor_digest import flat_bytes

GUARD_BYTES = 4096
ALIGN_BYTES = 256
_XOR = (0x00, 0x55, 0xAA)  # integer poison of call 0, 1, 2: different in every byte

# dtype -> (integer view, quiet NaN bits, bits free for a payload)
_NAN = {
    torch.float64: (torch.int64, 0x7FF8 << 48, (1 << 32) - 1),
    torch.float32: (torch.int32, 0x7FC00000, (1 << 22) - 1),
    torch.float16: (torch.int16, 0x7E00, (1 << 9) - 1),
    torch.bfloat16: (torch.int16, 0x7FC0, (1 << 6) - 1),
    torch.float8_e4m3fn: (torch.uint8, 0x7F, 0),
    torch.float8_e5m2: (torch.uint8, 0x7E, 1),
}


@dataclass(frozen=True)
class Guarded:
    """A tensor between guard bands, as bytes on the CPU: ``image``, which the kernel's process gets whole and hands back whole."""

    image: Any  # uint8 [GUARD_BYTES + size + GUARD_BYTES]
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements, of the elements between the guards

    def values(self, raw: Any) -> Any:
        """The tensor in the bytes ``raw``, which came back for ``image``."""
        return viewed(raw, self.dtype, self.shape, self.strides)

    def violation(self, raw: Any) -> str:
        """Where the guards of ``raw`` are not those of ``image``, as text; empty if they are."""
        end = self.image.numel() - GUARD_BYTES
        for name, low, high in (("before", 0, GUARD_BYTES), ("behind", end, self.image.numel())):
            changed = (raw[low:high] != self.image[low:high]).nonzero().flatten()
            if changed.numel():
                first, last = int(changed[0]), int(changed[-1])
                edge = f"{GUARD_BYTES - last} bytes before the start" if name == "before" else f"{first} bytes behind the end"
                return f"{changed.numel()} guard bytes changed, nearest {edge}"
        return ""


def guarded(values: Any, seed: int) -> Guarded:
    """The CPU tensor ``values`` between fresh guards; of one that is a view with strides, all memory from its first to its last element."""
    shape, strides = tuple(values.shape), tuple(values.stride())
    if not values.is_contiguous():
        values = memory_of(values)
    size = values.numel() * values.element_size()
    guards = torch.randint(0, 256, (2 * GUARD_BYTES,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    image = torch.empty(2 * GUARD_BYTES + size, dtype=torch.uint8)
    image[:GUARD_BYTES], image[GUARD_BYTES + size :] = guards[:GUARD_BYTES], guards[GUARD_BYTES:]
    content(image).copy_(as_bytes(values).reshape(-1))
    return Guarded(image, values.dtype, shape, strides)


def memory_of(tensor: Any) -> Any:
    """All memory from a tensor's first to its last element, in one dimension: a view. The tensor must have elements."""
    return tensor.as_strided((1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)),), (1,))


def viewed(raw: Any, dtype: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """The tensor between the guards of the bytes ``raw``."""
    return content(raw).view(dtype).as_strided(tuple(shape), tuple(strides))


def content(raw: Any) -> Any:
    """What lies between the guards, a view of the bytes ``raw``."""
    return raw[GUARD_BYTES : raw.numel() - GUARD_BYTES]


def room(size: int, device: str) -> Any:
    """``size`` unwritten bytes on ``device`` that begin where torch begins its allocations on a device."""
    raw = torch.empty(size + ALIGN_BYTES, dtype=torch.uint8, device=device)
    start = -raw.data_ptr() % ALIGN_BYTES
    return raw[start : start + size]


def poison(like: Any, seed: int, variant: int) -> Any:
    """A CPU tensor like ``like``, filled with the poison of call ``variant`` (0, 1 or 2).

    Floats: NaNs with random payloads in calls 0 and 2, large finite numbers in call 1. Integers:
    random bytes, each different from those of the other calls. Complex numbers: two such floats.
    """
    if like.is_complex():
        return torch.view_as_complex(poison(reals(like), seed, variant))
    generator = torch.Generator().manual_seed(seed)
    if like.dtype in _NAN and variant != 1:
        view, quiet, payload = _NAN[like.dtype]
        bits = torch.randint(0, payload + 1, like.shape, dtype=torch.int64, generator=generator) | quiet
        return bits.to(view).view(like.dtype)
    if like.dtype.is_floating_point:
        return ((torch.rand(like.shape, generator=generator) * 2 - 1) * 400).to(like.dtype)
    if like.dtype is torch.bool:
        return (torch.randint(0, 2, like.shape, generator=generator) + variant) % 2 == 1
    size = like.numel() * like.element_size()
    noise = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)
    return (noise ^ _XOR[variant]).view(like.dtype).view(like.shape)


def as_bytes(tensor: Any) -> Any:
    """The tensor's elements as rows of bytes: [elements, bytes an element], on the CPU. A complex number is two elements."""
    tensor = reals(tensor.cpu())
    return flat_bytes(tensor).view(-1, tensor.element_size())


def differing(one: Any, other: Any) -> Any:
    """Flat indices of the elements whose bits differ (so NaN equals the same NaN, and 0 is not -0)."""
    return (as_bytes(one) != as_bytes(other)).any(dim=1).nonzero().flatten()


def untouched(results: list[Any], poisons: list[Any]) -> int:
    """How many elements show the poison of every call."""
    kept = torch.ones(reals(results[0]).numel(), dtype=torch.bool)
    for result, pattern in zip(results, poisons, strict=True):
        kept &= (as_bytes(result) == as_bytes(pattern)).all(dim=1)
    return int(kept.sum())
