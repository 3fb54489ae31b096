"""Inputs of FP8 attention: ordinary ones, and families made to show what ordinary ones hide.

Each family gives what ``make_inputs`` gives. Where a family's special kind would make a null answer right
(all zeros, all keys equal), only the even heads are of that kind and the odd ones are ordinary, so that the case
still proves something, and a kernel that mixes up heads shows too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

Shape = Mapping[str, int]
Inputs = dict[str, Any]

E4M3_MAX = 448.0
_MAX_BYTE, _MIN_BYTE, _SIGN = 0x7E, 0x01, 0x80  # 448, 2^-9 and the sign bit of E4M3


def make_inputs(shape: Shape, seed: int, device: str) -> Inputs:
    """N(0, 1) inputs in float16, and the same quantised with scale = absmax / 448 of each head.

    Drawn on the CPU, so that the values are the same on every device. ``q_fp16``, ``k_fp16`` and
    ``v_fp16`` are the tensors before quantisation; the kernel does not get them.
    """
    return _pack(shape, device, *_normal(shape, seed))


def quantise(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """E4M3 bytes (uint8, shape of ``values`` [B, H, S, D]) and one float32 scale a head, [B, H]."""
    absmax = values.float().abs().amax(dim=(2, 3))
    scale = torch.where(absmax > 0, absmax / E4M3_MAX, torch.ones_like(absmax))
    scaled = (values.float() / scale[..., None, None]).clamp(-E4M3_MAX, E4M3_MAX)
    return scaled.to(torch.float8_e4m3fn).view(torch.uint8), scale


def dequantise(data: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The float64 values, on the CPU, that E4M3 bytes and scales stand for."""
    return data.cpu().view(torch.float8_e4m3fn).double() * scale.cpu().double()[..., None, None]


def uniform(shape: Shape, seed: int, device: str) -> Inputs:
    """Uniform in [-1, 1)."""
    draw = _generator(seed)
    return _pack(shape, device, *(torch.rand(_size(shape), generator=draw) * 2 - 1 for _ in range(3)))


def dominant_key(shape: Shape, seed: int, device: str) -> Inputs:
    """Each query points at one key, another one for each row: O is nearly that key's row of V."""
    q, k, v = _normal(shape, seed)
    chosen = torch.randint(0, shape["S"], (shape["S"],), generator=_generator(seed + 1))
    return _pack(shape, device, 4 * k[:, :, chosen], k, v)


def equal_keys(shape: Shape, seed: int, device: str) -> Inputs:
    """All keys of the even heads are equal: every weight is 1 / S."""
    q, k, v = _normal(shape, seed)
    return _pack(shape, device, q, torch.where(_even(shape), k[:, :, :1], k), v)


def zeros(shape: Shape, seed: int, device: str) -> Inputs:
    """Q, K and V of the even heads are zero."""
    return _pack(shape, device, *(torch.where(_even(shape), 0.0, values) for values in _normal(shape, seed)))


def negative_zero(shape: Shape, seed: int, device: str) -> Inputs:
    """Q, K and V of the even heads are -0 or +0; a quarter of the elements of the odd heads are -0."""
    inputs = make_inputs(shape, seed, "cpu")
    draw = _generator(seed + 1)
    for name in ("q", "k", "v"):
        signs = torch.randint(0, 4, _size(shape), generator=draw)
        only = torch.where(signs > 0, _SIGN, 0).to(torch.uint8)
        some = torch.where(signs == 0, torch.tensor(_SIGN, dtype=torch.uint8), inputs[name])
        inputs[name] = torch.where(_even(shape), only, some)
    return _raw(shape, device, *((inputs[name], inputs[f"{name}_scale"]) for name in ("q", "k", "v")))


def format_max(shape: Shape, seed: int, device: str) -> Inputs:
    """Every element is +448 or -448, with scales that keep the scores near 1."""
    data = [_signed(shape, seed + index, _MAX_BYTE) for index in range(3)]
    return _raw(shape, device, (data[0], 1 / E4M3_MAX), (data[1], 1 / E4M3_MAX), (data[2], 1.0))


def smallest_subnormal(shape: Shape, seed: int, device: str) -> Inputs:
    """Every element is +2^-9 or -2^-9; the outputs of the odd heads are subnormal halves."""
    data = [_signed(shape, seed + index, _MIN_BYTE) for index in range(3)]
    small = torch.where(_even(shape)[..., 0, 0], 1.0, 2.0**-12)
    return _raw(shape, device, (data[0], 512.0), (data[1], 512.0), (data[2], small))


def scales(shape: Shape, seed: int, device: str) -> Inputs:
    """Scales from 1e-6 to 1e4, another one for each head; outputs stay below 4.1e4, within half."""
    wide = torch.tensor([1e-6, 1e4, 1e-3, 1e2, 1e-5, 1e1])
    scale = wide[(torch.arange(shape["B"] * shape["H"]) + seed) % 6].view(shape["B"], shape["H"])
    data = [values.clamp(-4, 4).to(torch.float8_e4m3fn).view(torch.uint8) for values in _normal(shape, seed)]
    return _raw(shape, device, (data[0], scale), (data[1], 1 / scale), (data[2], scale))


def large_scores(shape: Shape, seed: int, device: str) -> Inputs:
    """Scores of about 100 in the even heads and 1e4 in the odd ones: the softmax saturates."""
    q, k, v = _normal(shape, seed)
    return _pack(shape, device, q * torch.where(_even(shape), 10.0, 100.0), k * torch.where(_even(shape), 10.0, 100.0), v)


def negative_scores(shape: Shape, seed: int, device: str) -> Inputs:
    """All scores are near -2e5: equal in the even heads, in steps of hundreds in the odd ones."""
    most = torch.full(_size(shape), _MAX_BYTE, dtype=torch.uint8)
    fewer = torch.randint(0, 2, _size(shape), generator=_generator(seed)).to(torch.uint8)
    keys = (most - torch.where(_even(shape), 0, fewer)) | _SIGN  # -448, or -416
    scale = math.sqrt(2e5 * 8 / 64) / E4M3_MAX
    v, v_scale = quantise(_normal(shape, seed)[2])
    return _raw(shape, device, (most, scale), (keys, scale), (v, v_scale))


def equal_scores(shape: Shape, seed: int, device: str) -> Inputs:
    """Every third query is zero: the scores of its row are identical."""
    q, k, v = _normal(shape, seed)
    q[:, :, ::3] = 0
    return _pack(shape, device, q, k, v)


def rising_max(shape: Shape, seed: int, device: str) -> Inputs:
    """Scores rise by 12 from the first key to the last, so every tile brings a new maximum of every row."""
    return _along_keys(shape, seed, device, 12 * torch.arange(shape["S"]) / shape["S"])


def max_last(shape: Shape, seed: int, device: str) -> Inputs:
    """The last key outweighs all others together by about 20 in the even heads, and equals them in the odd ones."""
    last = torch.zeros(shape["B"], shape["H"], shape["S"])
    last[..., -1] = torch.where(_even(shape)[..., 0, 0], math.log(shape["S"]) + 3, math.log(shape["S"]))
    return _along_keys(shape, seed, device, last)


INPUT_FAMILIES: dict[str, Callable[[Shape, int, str], Inputs]] = {
    make.__name__: make for make in (
        uniform, dominant_key, equal_keys, zeros, negative_zero, format_max, smallest_subnormal, scales, large_scores,
        negative_scores, equal_scores, rising_max, max_last,
    )
}


def _along_keys(shape: Shape, seed: int, device: str, scores: torch.Tensor) -> Inputs:
    """Inputs whose scores are those given, by key, plus a little noise."""
    q, k, v = _normal(shape, seed)
    q, k = 1 + q / 8, k / 8 + (scores / 8)[..., None]
    return _pack(shape, device, q, k, v)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _size(shape: Shape) -> tuple[int, ...]:
    return tuple(shape[name] for name in ("B", "H", "S", "D"))


def _normal(shape: Shape, seed: int) -> list[torch.Tensor]:
    draw = _generator(seed)
    return [torch.randn(_size(shape), generator=draw) for _ in range(3)]


def _even(shape: Shape) -> torch.Tensor:
    """True for the heads 0, 2, 4, …, counted over batch and head: [B, H, 1, 1]."""
    return (torch.arange(shape["B"] * shape["H"]) % 2 == 0).view(shape["B"], shape["H"], 1, 1)


def _signed(shape: Shape, seed: int, byte: int) -> torch.Tensor:
    return (torch.randint(0, 2, _size(shape), generator=_generator(seed)) * _SIGN + byte).to(torch.uint8)


def _pack(shape: Shape, device: str, *values: torch.Tensor) -> Inputs:
    """Inputs from the values of Q, K and V, in float16 and quantised."""
    halves = [tensor.expand(_size(shape)).to(torch.float16).contiguous() for tensor in values]
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
