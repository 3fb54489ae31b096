import torch
import torch.nn as nn


class Model(nn.Module):
    """y = relu(x W^T + b) * scale"""

    def __init__(self, sizes, scale):
        super().__init__()
        self.linear = nn.Linear(*sizes)
        self.scale = scale

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale


batch_size = 8
in_features = 16
out_features = 12


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [[in_features, out_features], 0.5]
