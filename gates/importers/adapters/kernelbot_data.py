"""Split generate_input's result into tensors and a description of its nesting."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import torch


def taken_apart(data: Any, buffers: Collection[str] = ()) -> tuple[Any, dict[str, torch.Tensor]]:
    """The form of ``data``, and its tensors by name, without those in the roles of ``buffers`` for outputs.

    Raises TypeError for other objects.
    """
    tensors: dict[str, torch.Tensor] = {}

    def form(value: Any, name: str) -> Any:
        if isinstance(value, torch.Tensor):
            if role(name) in buffers:
                return ["buffer", list(value.shape), list(value.stride()), str(value.dtype).removeprefix("torch.")]
            packed = value.dtype is torch.float4_e2m1fn_x2  # torch copies none of these: they travel as bytes
            tensors[name] = value.view(torch.uint8) if packed else value
            return ["packed" if packed else "tensor", len(tensors) - 1]
        if isinstance(value, Mapping):
            return ["dict", [[key, form(one, f"{name}_{_word(key)}")] for key, one in value.items()]]
        if isinstance(value, tuple):
            return ["tuple", [form(one, f"{name}_{index}") for index, one in enumerate(value)]]
        if isinstance(value, list):
            return ["list", [form(one, f"{name}_item{index}") for index, one in enumerate(value)]]
        if value is None or isinstance(value, (bool, int, float, str)):
            return ["value", value]
        raise TypeError(
            f"generate_input gives a {type(value).__name__}: a task's inputs are tensors, numbers, text, tuples, lists and dicts"
        )

    return form(data, "data"), tensors


def role(name: str) -> str:
    """What the tensor of this name is: the items of a list are the same."""
    return re.sub(r"_item\d+", "_item", name)


def built(form: Any, tensors: Collection[torch.Tensor], *, exact: bool = False) -> Any:
    """What ``taken_apart`` was given, with new buffers on the tensors' device; ``exact``: buffers for real numbers are float64."""
    given = list(tensors)
    device = given[0].device if given else torch.device("cpu")

    def whole(node: Any) -> Any:
        kind, content = node[:2]
        if kind in ("tensor", "packed"):
            return given[content] if kind == "tensor" else given[content].view(torch.float4_e2m1fn_x2)
        if kind == "buffer":
            dtype = getattr(torch, node[3])
            return torch.empty_strided(content, node[2], dtype=torch.float64 if exact and dtype.is_floating_point else dtype, device=device)
        if kind == "dict":
            return {key: whole(one) for key, one in content}
        return content if kind == "value" else {"tuple": tuple, "list": list}[kind](whole(one) for one in content)

    return whole(form)


def _word(key: Any) -> str:
    return re.sub(r"\W", "_", str(key))
