"""Identify tensors by their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch


def digest(tensors: Mapping[str, Any]) -> str:
    """sha256 over names, dtypes, shapes and bytes of tensors (and the repr of plain numbers)."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        if isinstance(value, torch.Tensor):
            flat = value.detach().cpu().resolve_conj().contiguous()
            total.update(f"{name}:{flat.dtype}:{tuple(flat.shape)};".encode())
            total.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes())
        else:
            total.update(f"{name}={value!r};".encode())
    return total.hexdigest()
