import torch
from task import input_t, output_t
from utils import verbose_allclose


def generate_input(steps: int, width: int, seed: int, plain: bool, bias: int, kind: str) -> input_t:
    """Rows that are blended, a start that only the second step reads, weights in a dict, and a buffer for the output."""
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    scale = 1.0 if kind == "normal" else 8.0
    rows = [scale * torch.randn(width, device="cuda", generator=gen) for _ in range(steps)]
    start = torch.randn(width, device="cuda", generator=gen) + bias
    weights = {"gain": torch.rand(1, device="cuda", generator=gen)}
    out = torch.empty(width, device="cuda")
    return rows, start, weights, {"plain": plain}, out


def ref_kernel(data: input_t) -> output_t:
    rows, start, weights, config, out = data
    total = torch.zeros_like(out, dtype=torch.float64)  # exact, so that no order of the sum is better
    for number, row in enumerate(rows):
        total += row.to(torch.float64) * weights["gain"].to(device="cuda") + (start if number else 0)
    if not config["plain"]:
        total = torch.exp(-total.abs())
    return total.to(torch.float64)


def check_implementation(data, output):
    reasons = verbose_allclose(output, ref_kernel(data).float(), rtol=1e-3, atol=1e-4)
    return not reasons, " ".join(reasons)
