import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, sizes, scale):
        super().__init__()
        self.linear = nn.Linear(*sizes)
        self.scale = scale

    def forward(self, x):
        return torch.clamp(torch.addmm(self.linear.bias, x, self.linear.weight.t()), min=0) * self.scale
