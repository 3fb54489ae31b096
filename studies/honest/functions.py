"""Honest Python entries of 2.5 x + y in the forms that people write; the docstring says which form it is."""

import contextlib
import functools
import os
import random
import tempfile
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from torch import nn

workspaces = {}


def expression(x, y):
    """an expression"""
    return 2.5 * x + y


def add_with_alpha(x, y):
    """torch.add with a factor"""
    return torch.add(y, x, alpha=2.5)


def into_out(x, y):
    """an output of its own, written by out="""
    out = torch.empty_like(x)
    torch.mul(x, 2.5, out=out)
    torch.add(out, y, out=out)
    return out


def in_place_on_a_copy(x, y):
    """changes in place a copy of an input"""
    return x.clone().mul_(2.5).add_(y)


def in_place_on_zeros(x, y):
    """adds twice to zeros"""
    return torch.zeros_like(x).add_(x, alpha=2.5).add_(y)


def addcmul(x, y):
    """torch.addcmul with a constant tensor"""
    return torch.addcmul(y, x, torch.full_like(x, 2.5))


def einsum(x, y):
    """torch.einsum with a vector of one element"""
    return torch.einsum("i,j->i", x, x.new_full((1,), 2.5)) + y


def stacked(x, y):
    """stacks and sums along the new axis"""
    return torch.stack((2.5 * x, y)).sum(dim=0)


def chunks(x, y):
    """works on chunks and joins them"""
    return torch.cat([2.5 * u + v for u, v in zip(x.chunk(4), y.chunk(4), strict=True)])


def views(x, y):
    """works on views of its own output"""
    out = torch.empty_like(x)
    half = x.numel() // 2
    out[:half] = 2.5 * x[:half] + y[:half]
    out[half:] = 2.5 * x[half:] + y[half:]
    return out


def transposed(x, y):
    """returns what is not contiguous"""
    made = torch.stack((2.5 * x + y, x), dim=1)
    return made[:, 0]


def without_gradient(x, y):
    """under no_grad"""
    with torch.no_grad():
        return 2.5 * x + y


def with_gradient(x, y):
    """returns what has a gradient's history"""
    return 2.5 * x.requires_grad_(True) + y


def parameter(x, y):
    """returns a Parameter"""
    return nn.Parameter(2.5 * x + y)


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(2.5))

    def forward(self, x, y):
        return self.factor.to(x.device) * x + y


model = Line()


def module(x, y):
    """a module with a parameter"""
    return model(x, y)


def in_double(x, y):
    """double arithmetic"""
    return (2.5 * x.double() + y.double()).float()


def dictionary(x, y):
    """returns its output by name"""
    return {"out": 2.5 * x + y}


def sequence(x, y):
    """returns its output in a tuple"""
    return (2.5 * x + y,)


def kept_room(x, y):
    """keeps a workspace by size and device, and writes it anew in each call"""
    room = workspaces.setdefault((x.shape, x.device), torch.empty_like(x))
    torch.mul(x, 2.5, out=room)
    return room + y


@functools.lru_cache
def factor(device):
    return torch.tensor(2.5, device=device)


def kept_constant(x, y):
    """keeps a constant on each device"""
    return factor(x.device) * x + y


@dataclass
class Plan:
    scale: float

    def __call__(self, x, y):
        return self.scale * x + y


def dataclass_call(x, y):
    """calls an object"""
    return Plan(2.5)(x, y)


def vectorised(x, y):
    """torch.vmap over the elements"""
    return torch.vmap(lambda u, v: 2.5 * u + v)(x, y)


def other_stream_joined(x, y):
    """on a device a stream of its own that waits and is waited for"""
    if not x.is_cuda:
        return 2.5 * x + y
    stream, current = torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        made = 2.5 * x + y
    current.wait_stream(stream)
    made.record_stream(current)
    return made


def threads(x, y):
    """on the CPU a pool of threads that it waits for"""
    if x.is_cuda:
        return 2.5 * x + y
    with ThreadPoolExecutor(2) as pool:
        return torch.cat(list(pool.map(lambda part: 2.5 * part[0] + part[1], zip(x.chunk(2), y.chunk(2), strict=True))))


def one_thread(x, y):
    """on the CPU a thread that it waits for"""
    out = torch.empty_like(x)
    worker = threading.Thread(target=lambda: torch.add(y, x, alpha=2.5, out=out))
    worker.start()
    worker.join()
    return out


def numpy_arrays(x, y):
    """on the CPU arithmetic of NumPy"""
    if x.is_cuda:
        return 2.5 * x + y
    return torch.from_numpy(numpy.float32(2.5) * x.numpy() + y.numpy())


def temporary_files(x, y):
    """writes a temporary file and one in its folder, and reads them again"""
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("2.5")
        file.seek(0)
        scale = float(file.read())
    Path("notes.txt").write_text("once")
    return scale * x + y


def prints(x, y):
    """prints, warns and logs"""
    print("launch", x.shape)
    warnings.warn("slow path", stacklevel=1)
    return 2.5 * x + y


def uses_randomness(x, y):
    """draws random numbers that do not matter"""
    random.random()
    torch.rand(4)
    return 2.5 * x + y


def sets_a_variable(x, y):
    """sets a variable of its environment, and a mode that it puts back"""
    os.environ["MY_KERNEL_MODE"] = "fast"
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return 2.5 * x + y
    finally:
        torch.set_num_threads(before)


def tries_and_falls_back(x, y):
    """tries a fast path that is not there"""
    with contextlib.suppress(ImportError, AttributeError):
        return torch.ops.no_such_library.line(x, y)
    return 2.5 * x + y


def by_rows(x, y):
    """loops over rows of a matrix view with a tail"""
    out, width = torch.empty_like(x), 64
    for at in range(0, x.numel(), width):
        out[at : at + width] = 2.5 * x[at : at + width] + y[at : at + width]
    return out
