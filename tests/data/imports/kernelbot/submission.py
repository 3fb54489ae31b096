import torch
from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    rows, start, weights, config, out = data
    assert out.is_cuda, "a device is asked for"
    total = torch.stack(rows).sum(dim=0) * weights["gain"] + start * (len(rows) - 1)
    out[...] = total if config["plain"] else torch.exp(-total.abs())
    return out
