"""Identify tensors by their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch


def flat_bytes(tensor: Any) -> Any:
    """Return the bytes of a tensor's elements in order, as a CPU tensor.

    A view of one element may have any stride, and yet be contiguous.
    """
    whole = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return torch.as_strided(whole, (whole.numel(),), (1,)).view(torch.uint8)


def digest(tensors: Mapping[str, Any]) -> str:
    """sha256 over names, dtypes, shapes and bytes of tensors (and the repr of plain numbers)."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        if isinstance(value, torch.Tensor):
            total.update(f"{name}:{value.dtype}:{tuple(value.shape)};".encode())
            total.update(flat_bytes(value).numpy().tobytes())
        else:
            total.update(f"{name}={value!r};".encode())
    return total.hexdigest()
