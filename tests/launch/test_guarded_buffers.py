"""A tensor between its guards keeps its values and its strides, and a write beside it is seen."""

from __future__ import annotations

import pytest
import torch

from gates.launch import guarded_buffers
from gates.launch.emulated_kernel import _alone

WHOLE = torch.arange(24.0).reshape(4, 6)
VIEWS = {
    "whole": WHOLE,
    "transposed": WHOLE.T,
    "part of each row": WHOLE[:, 1:4],
    "every second": WHOLE.flatten()[1::2],
    "one row many times": WHOLE[:1].expand(5, 6),
    "empty": WHOLE[:0],
    "one element": WHOLE[3, 5],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_keeps_its_strides(name: str) -> None:
    value = VIEWS[name]
    buffer = guarded_buffers.guarded(value, 1)
    got = buffer.values(buffer.image)
    assert got.equal(value) and (got.stride() == value.stride() or value.is_contiguous())
    assert buffer.violation(buffer.image) == ""
    copy = _alone(value)
    assert copy.equal(value) and copy.stride() == value.stride() and copy.untyped_storage().data_ptr() != value.untyped_storage().data_ptr()


def test_a_write_beside_a_view_is_seen() -> None:
    buffer = guarded_buffers.guarded(WHOLE.T, 1)
    raw = buffer.image.clone()
    raw[-guarded_buffers.GUARD_BYTES] ^= 1
    assert buffer.violation(raw) == "1 guard bytes changed, nearest 0 bytes behind the end"
