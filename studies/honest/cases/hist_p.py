import torch

SHAPES = {"small": {"N": 1000}, "mission": {"N": 1 << 17}, "odd": {"N": 1031}}
ODD_SHAPES = ("odd",)
ARGUMENTS = ("x", "out", "N")


def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randint(0, 256, (shape["N"],), generator=g, dtype=torch.uint8).to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(256, dtype=torch.int32, device=device)}


def reference(inputs):
    return {"out": torch.bincount(inputs["x"].long(), minlength=256).double()}
