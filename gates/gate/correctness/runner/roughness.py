"""Notice a reference that computes in half precision, by itself or under autocast."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_HALF = (torch.float16, torch.bfloat16)
_ARITHMETIC = {
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "truediv",
    "rdiv",
    "rtruediv",
    "pow",
    "rpow",
    "addcmul",
    "lerp",
    "matmul",
    "rmatmul",
    "mm",
    "bmm",
    "mv",
    "dot",
    "addmm",
    "baddbmm",
    "einsum",
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "scaled_dot_product_attention",
    "softmax",
    "log_softmax",
    "exp",
    "exp2",
    "log",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "erf",
    "gelu",
    "silu",
    "softplus",
    "sin",
    "cos",
    "sum",
    "mean",
    "prod",
    "cumsum",
    "cumprod",
    "var",
    "std",
    "norm",
    "logsumexp",
    "layer_norm",
    "rms_norm",
    "group_norm",
    "batch_norm",
    "instance_norm",
    "normalize",
}


class Roughness(TorchFunctionMode):
    """Store in ``seen`` the first arithmetic with a half-precision result: ``"matmul in bfloat16"``. Moves and comparisons are exact."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = ""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made, name = function(*args, **(kwargs or {})), getattr(function, "__name__", "").strip("_")
        plain = name[1:] if name.startswith("i") and name[1:] in _ARITHMETIC else name  # x += y
        if not self.seen and plain in _ARITHMETIC and isinstance(made, torch.Tensor) and made.dtype in _HALF:
            self.seen = f"{plain} in {str(made.dtype).removeprefix('torch.')}"
        return made
