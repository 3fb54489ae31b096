"""Values and tensors between two processes of which neither believes the other: frames of JSON and raw bytes, no pickle.

A frame is the header's length (8 bytes, little-endian), the header as JSON, and the bytes of the tensors that the header
names, in its order. Values are None, truth values, numbers, text, tensors, and lists, tuples and objects of these.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from io import BufferedIOBase
from typing import Any, BinaryIO

import torch

from gates.task.tensor_digest import flat_bytes

_MAX_HEADER_BYTES = 16 * 2**20


class BadFrame(Exception):
    """What came is no frame."""


def send(stream: BinaryIO, value: Any) -> None:
    """Write ``value`` as one frame. Raises TypeError for a value that can't travel, OSError where nobody reads any more."""
    tensors: list[torch.Tensor] = []
    header = json.dumps({"value": plain(value, tensors), "tensors": [described(one.dtype, one.shape) for one in tensors]}).encode()
    stream.write(len(header).to_bytes(8, "little") + header)
    for one in tensors:
        stream.write(memoryview(flat_bytes(one).numpy()))
    stream.flush()


def receive(stream: BufferedIOBase, most_bytes: int | None = None) -> Any:
    """The value of the next frame. Raises EOFError where the stream ends first, BadFrame for anything else that is no frame.

    ``most_bytes``: of its tensors together, where the other end is not to be believed.
    """
    length = int.from_bytes(_exactly(stream, 8), "little")
    if length > _MAX_HEADER_BYTES:
        raise BadFrame(f"a header of {length} bytes")
    try:
        header = json.loads(_exactly(stream, length))
        kinds = [(getattr(torch, one["dtype"]), [int(size) for size in one["shape"]]) for one in header["tensors"]]
        if not all(isinstance(dtype, torch.dtype) and all(size >= 0 for size in shape) for dtype, shape in kinds):
            raise BadFrame("a tensor of no known format")
        sizes = [math.prod(shape) * dtype.itemsize for dtype, shape in kinds]
        if most_bytes is not None and sum(sizes) > most_bytes:
            raise BadFrame(f"tensors of {sum(sizes)} bytes")
        tensors = [_tensor(_exactly(stream, size), dtype, shape) for size, (dtype, shape) in zip(sizes, kinds, strict=True)]
        return whole(header["value"], tensors)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise BadFrame(f"{type(error).__name__}: {str(error)[:200]}") from None


def plain(value: Any, tensors: list[torch.Tensor]) -> Any:
    """``value`` as JSON data, with its tensors appended to ``tensors``. Raises TypeError for a value that can't travel."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return {"tensor": len(tensors) - 1}
    if isinstance(value, (list, tuple)):
        return {"list" if isinstance(value, list) else "tuple": [plain(one, tensors) for one in value]}
    if isinstance(value, dict):
        return {"object": [[str(key), plain(one, tensors)] for key, one in value.items()]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a value of type {type(value).__name__} can't be handed to the kernel's process; tensors, numbers, text and lists can")


def whole(value: Any, tensors: list[torch.Tensor]) -> Any:
    """What ``plain`` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "object":
        return {key: whole(one, tensors) for key, one in content}
    return {"list": list, "tuple": tuple}[kind](whole(one, tensors) for one in content)


def described(dtype: torch.dtype, shape: Sequence[int]) -> dict[str, Any]:
    """A tensor's format in words that travel."""
    return {"dtype": str(dtype).removeprefix("torch."), "shape": list(shape)}


def _tensor(content: bytearray, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    if not content:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(content, dtype=torch.uint8).view(dtype).view(shape)


def _exactly(stream: BufferedIOBase, size: int) -> bytearray:
    content = bytearray(size)
    view, done = memoryview(content), 0
    while done < size:
        got = stream.readinto(view[done:])
        if not got:
            raise EOFError
        done += got
    return content
