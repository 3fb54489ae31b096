"""Vector addition in Warp: one thread per element."""

import torch
import warp as wp


@wp.kernel
def add_kernel(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
    i = wp.tid()
    out[i] = x[i] + y[i]


def add(x, y):
    out = torch.empty_like(x)
    stream = wp.stream_from_torch(x.device)
    wp.launch(add_kernel, dim=x.numel(), inputs=[x, y], outputs=[out], device=wp.device_from_torch(x.device), stream=stream)
    return out
