"""C = A·B^T of float16 matrices A [M, K] and B [N, K], summed in float32. B has the size of a layer's weights, so that C is below 1.

Ordinary inputs are -1, 0 and 1, those of B times a power of two: all sums are exact, and multipliers take so little power
that a card keeps its clock. The family ``normal`` shows what rounding makes of other values.
"""

import math

import torch

SHAPES = {
    "small": {"M": 200, "N": 264, "K": 136},
    "mission": {"M": 512, "N": 512, "K": 512},
    "single": {"M": 1, "N": 8, "K": 8},
    "odd": {"M": 257, "N": 40, "K": 72},
    "large": {"M": 8448, "N": 4096, "K": 8192},  # 66 x 16 tiles of 128 x 256, eight for each of 132 SMs; for a device
}
ODD_SHAPES = ("single", "odd")
DIMS = {"M": range(1, 8449), "N": range(8, 4097, 8), "K": range(8, 8193, 8)}
ARGUMENTS = ("a", "b", "out", "M", "N", "K")


def make_inputs(shape, seed, device):
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randint(-1, 2, (shape[rows], shape["K"]), generator=generator, dtype=torch.int8).half() for rows in ("M", "N"))
    return {"a": a.to(device), "b": (b * 2.0 ** -math.ceil(math.log2(2 * math.sqrt(shape["K"])))).to(device)}


def _normal(shape, seed, device):
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(shape[rows], shape["K"], generator=generator) for rows in ("M", "N"))
    return {"a": a.half().to(device), "b": (b / math.sqrt(shape["K"])).half().to(device)}


INPUT_FAMILIES = {"normal": _normal}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["M"], shape["N"], dtype=torch.float16, device=device)}


def reference(inputs):
    return inputs["a"].double() @ inputs["b"].double().T


def error_bound(inputs, shape):
    """|error| <= 20 u ceil(K / 8) |A| |B|^T + h |C|: a tensor core adds eight products and the sum so far at a time, and cuts ten numbers
    to 24 bits (Fasi, Higham, Mikaitis, Pranesh, 2021); then C is rounded to half.
    """
    exact, size = reference(inputs), inputs["a"].double().abs() @ inputs["b"].double().abs().T
    return {"out": 20 * 2.0**-24 * math.ceil(shape["K"] / 8) * size * (1 + 2.0**-11) + 2.0**-11 * exact.abs() + 2.0**-25}


def work(shape):
    m, n, k = shape["M"], shape["N"], shape["K"]
    return {"tensor.fp16": 2 * m * n * k, "bytes": 2 * (m * k + n * k + m * n)}


def backends(inputs, shape):
    """PyTorch's product of the same matrices, by cuBLAS; nothing without a CUDA device."""
    a, b = inputs["a"], inputs["b"]
    return {"cublas": lambda: a @ b.T} if a.is_cuda else {}
