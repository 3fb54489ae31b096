"""Inputs of FP8 attention: ordinary ones, and families made to show what ordinary ones hide.

Each family gives what ``make_inputs`` gives: those of sdpa_inputs.py, quantised, and some made of bytes and scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from tasks.problems import sdpa_inputs
from tasks.problems.sdpa_inputs import Shape, even, generator, normal, sizes

Inputs = dict[str, Any]

E4M3_MAX = 448.0
_MAX_BYTE, _MIN_BYTE, _SIGN = 0x7E, 0x01, 0x80  # 448, 2^-9 and the sign bit of E4M3


def make_inputs(shape: Shape, seed: int, device: str) -> Inputs:
    """N(0, 1) inputs in float16, and the same quantised with scale = absmax / 448 of each head.

    Drawn on the CPU, so that the values are the same on every device. ``q_fp16``, ``k_fp16`` and
    ``v_fp16`` are the tensors before quantisation; the kernel does not get them.
    """
    return _pack(shape, device, *normal(shape, seed))


def quantise(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """E4M3 bytes (uint8, shape of ``values`` [B, H, S, D]) and one float32 scale a head, [B, H]."""
    absmax = values.float().abs().amax(dim=(2, 3))
    scale = torch.where(absmax > 0, absmax / E4M3_MAX, torch.ones_like(absmax))
    scaled = (values.float() / scale[..., None, None]).clamp(-E4M3_MAX, E4M3_MAX)
    return scaled.to(torch.float8_e4m3fn).view(torch.uint8), scale


def dequantise(data: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The float64 values, on the CPU, that E4M3 bytes and scales stand for."""
    return data.cpu().view(torch.float8_e4m3fn).double() * scale.cpu().double()[..., None, None]


def negative_zero(shape: Shape, seed: int, device: str) -> Inputs:
    """Q, K and V of the even heads are -0 or +0; a quarter of the elements of the odd heads are -0."""
    inputs = make_inputs(shape, seed, "cpu")
    draw = generator(seed + 1)
    for name in ("q", "k", "v"):
        signs = torch.randint(0, 4, sizes(shape)[0], generator=draw)
        only = torch.where(signs > 0, _SIGN, 0).to(torch.uint8)
        some = torch.where(signs == 0, torch.tensor(_SIGN, dtype=torch.uint8), inputs[name])
        inputs[name] = torch.where(even(shape), only, some)
    return _raw(shape, device, *((inputs[name], inputs[f"{name}_scale"]) for name in ("q", "k", "v")))


def format_max(shape: Shape, seed: int, device: str) -> Inputs:
    """Every element is +448 or -448, with scales that keep the scores near 1."""
    data = [_signed(shape, seed + index, _MAX_BYTE) for index in range(3)]
    return _raw(shape, device, (data[0], 1 / E4M3_MAX), (data[1], 1 / E4M3_MAX), (data[2], 1.0))


def smallest_subnormal(shape: Shape, seed: int, device: str) -> Inputs:
    """Every element is +2^-9 or -2^-9; the outputs of the odd heads are subnormal halves."""
    data = [_signed(shape, seed + index, _MIN_BYTE) for index in range(3)]
    small = torch.where(even(shape)[..., 0, 0], 1.0, 2.0**-12)
    return _raw(shape, device, (data[0], 512.0), (data[1], 512.0), (data[2], small))


def scales(shape: Shape, seed: int, device: str) -> Inputs:
    """Scales from 1e-6 to 1e4, another one for each head; outputs stay below 4.1e4, within half."""
    wide = torch.tensor([1e-6, 1e4, 1e-3, 1e2, 1e-5, 1e1])
    scale = wide[(torch.arange(shape["B"] * shape["H"]) + seed) % 6].view(shape["B"], shape["H"])
    data = [values.clamp(-4, 4).to(torch.float8_e4m3fn).view(torch.uint8) for values in normal(shape, seed)]
    return _raw(shape, device, (data[0], scale), (data[1], 1 / scale), (data[2], scale))


def negative_scores(shape: Shape, seed: int, device: str) -> Inputs:
    """All scores are near -2e5: equal in the even heads, in steps of hundreds in the odd ones."""
    most = torch.full(sizes(shape)[0], _MAX_BYTE, dtype=torch.uint8)
    fewer = torch.randint(0, 2, sizes(shape)[0], generator=generator(seed)).to(torch.uint8)
    keys = (most - torch.where(even(shape), 0, fewer)) | _SIGN  # -448, or -416
    scale = math.sqrt(2e5 * 8 / 64) / E4M3_MAX
    v, v_scale = quantise(normal(shape, seed)[2])
    return _raw(shape, device, (most, scale), (keys, scale), (v, v_scale))


def _quantised(make: Callable[[Shape, int], sdpa_inputs.Values]) -> Callable[[Shape, int, str], Inputs]:
    return lambda shape, seed, device: _pack(shape, device, *make(shape, seed))


INPUT_FAMILIES: dict[str, Callable[[Shape, int, str], Inputs]] = {
    **{name: _quantised(make) for name, make in sdpa_inputs.FAMILIES.items()},
    **{make.__name__: make for make in (negative_zero, format_max, smallest_subnormal, scales, negative_scores)},
}


def _signed(shape: Shape, seed: int, byte: int) -> torch.Tensor:
    return (torch.randint(0, 2, sizes(shape)[0], generator=generator(seed)) * _SIGN + byte).to(torch.uint8)


def _pack(shape: Shape, device: str, *values: torch.Tensor) -> Inputs:
    """Inputs from the values of Q, K and V, in float16 and quantised."""
    halves = [tensor.expand(sizes(shape)[0]).to(torch.float16).contiguous() for tensor in values]
    return _join(shape, device, [(*quantise(half), half) for half in halves])


def _raw(shape: Shape, device: str, *pairs: tuple[torch.Tensor, Any]) -> Inputs:
    """Inputs from bytes and scales (a number or one for each head)."""
    found = []
    for data, scale in pairs:
        each = torch.as_tensor(scale, dtype=torch.float32).expand(shape["B"], shape["H"]).contiguous()
        found.append((data.contiguous(), each, dequantise(data, each).to(torch.float16)))
    return _join(shape, device, found)


def _join(shape: Shape, device: str, parts: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> Inputs:
    inputs: Inputs = {"softmax_scale": 1.0 / math.sqrt(shape["D"])}
    for name, (data, scale, half) in zip(("q", "k", "v"), parts, strict=True):
        inputs.update({name: data.to(device), f"{name}_scale": scale.to(device), f"{name}_fp16": half.to(device)})
    return inputs
