import torch
import torch.nn as nn


def forward_fn(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Rows divided by the root of their mean square, times a weight."""
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps) * weight


class Model(nn.Module):
    def __init__(self, features: int = 32, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(1 + torch.randn(features) * 0.1)
        self.eps = eps

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight, self.eps)


def get_inputs(batch_size: int = 4, features: int = 32):
    return [torch.randn(batch_size, features)]


input_names = ["x"]
