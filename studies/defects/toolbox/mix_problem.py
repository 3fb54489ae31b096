"""out = softmax(sharpness * scores) v, in float32: R rows, N values a row, C columns.

The smallest problem on which every breach of the contract can be planted: it has inputs, an answer that
needs all of them, and a cheap wrong answer that looks right (the mean of v).
"""

import torch

SHAPES = {
    "small": {"R": 8, "N": 24, "C": 16},
    "tail": {"R": 3, "N": 17, "C": 5},
    "large": {"R": 8192, "N": 128, "C": 64},
}
ODD_SHAPES = ("tail",)
ARGUMENTS = ("scores", "v", "out", "R", "N", "C", "sharpness")
AXES = {"out": ("R", "C")}


def make_inputs(shape, seed, device):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(shape["R"], shape["N"], generator=generator)
    v = torch.randn(shape["N"], shape["C"], generator=generator)
    return {"scores": scores.to(device), "v": v.to(device), "sharpness": 2.0}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["R"], shape["C"], device=device)}


def reference(inputs, shape):
    weights = torch.softmax(inputs["sharpness"] * inputs["scores"].cpu().double(), dim=-1)
    return {"out": weights @ inputs["v"].cpu().double()}


def null_outputs(inputs, shape):
    mean = inputs["v"].cpu().double().mean(dim=0)
    return {"mean of v": {"out": mean.expand(shape["R"], shape["C"]).clone()}}


def work(shape):
    rows, values, columns = shape["R"], shape["N"], shape["C"]
    return {"flops": 2.0 * rows * values * columns, "bytes": 4.0 * (rows * values + values * columns + rows * columns)}
