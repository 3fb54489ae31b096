import torch
import torch.nn as nn

N = 8
class Model(nn.Module):
    """A plain tensor attribute (as the GRUs of KernelBench level 3 keep h0)."""
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, n)
        self.w = torch.randn(n, n)
    def forward(self, x):
        return self.fc(x) @ self.w
def get_inputs():
    return [torch.randn(N, 16)]
def get_init_inputs():
    return [16]
