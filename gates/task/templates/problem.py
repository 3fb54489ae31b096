"""What is computed: out = silu(x) * y, element by element, for N floats. All stages of my_kernel share this file.

Change first: SHAPES, make_inputs and reference, to what your kernel computes.
"""

import torch

# Every dimension by name. `small` is quick to try, `mission` is what is timed; the odd one leaves a tail in every block size
# (a launcher that chooses its kernel by size needs one for each choice).
SHAPES = {"small": {"N": 1000}, "mission": {"N": 1 << 18}, "odd": {"N": 1031}}
ODD_SHAPES = ("odd",)
# Sizes that your kernel must be right for: every run draws new ones. A list gives a few; {} means only those above.
DIMS = {"N": range(1, (1 << 20) + 1)}


def make_inputs(shape, seed, device):
    """The inputs by name, the same values on every device: made on the CPU with a generator of their own."""
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(shape["N"], generator=generator) for _ in range(2))
    return {"x": x.to(device), "y": y.to(device)}


def reference(inputs):
    """The exact result on those very inputs, in float64. A tensor is the output "out"; a dict names several."""
    x, y = inputs["x"].double(), inputs["y"].double()
    return {"out": x / (1 + torch.exp(-x)) * y}


def work(shape):
    """The least work: floating-point operations, and bytes that must be read and written."""
    return {"cuda.fp32": 5 * shape["N"], "bytes": 3 * 4 * shape["N"]}


# The arguments of a C launcher, in its order: inputs, outputs and dimensions. A Python function takes the inputs and returns its outputs.
ARGUMENTS = ("x", "y", "out", "N")


def make_outputs(shape, device):
    """The outputs that a C launcher writes into."""
    return {"out": torch.empty(shape["N"], device=device)}
