"""Defects as patches of stage4_mma: bytes in the wrong place, swizzle, stages, tails. More of the code that it shares: fp16.py."""

from __future__ import annotations

from defects.record import Defect, patch

_TILES = (("TILE_N", 64),)  # so that a few keys fill several tiles, and stages are filled anew


def _patch(name: str, kind: str, what: str, file: str, text: str, replacement: str, **more: object) -> Defect:
    return patch(f"mma_{name}", kind, what, "stage4_mma", (file, text, replacement), toggles=_TILES, **more)


_KERNEL = "stage4_mma.cu"
_COPIES, _LOOP, _COMBINE = (f"../sdpa/{part}.cuh" for part in ("copies", "loop", "combine"))

MMA = (
    _patch(
        "bytes_not_permuted",
        "indexing",
        "V's bytes go to the product as ldmatrix left them, columns in place of keys",
        _KERNEL,
        "return __byte_perm(units, 0, 0x3120);",
        "return units;",
    ),
    _patch(
        "columns_in_product_order",
        "indexing",
        "O's columns are stored in the order of the products, even ones first",
        _KERNEL,
        "make_uint2(pack_halves(o[0][2 * half], o[1][2 * half]), pack_halves(o[0][2 * half + 1], o[1][2 * half + 1]))",
        "make_uint2(pack_halves(o[0][2 * half], o[0][2 * half + 1]), pack_halves(o[1][2 * half], o[1][2 * half + 1]))",
    ),
    _patch(
        "swizzle_left_out_of_v",
        "indexing",
        "ldmatrix reads V's rows as if they were not swizzled",
        _KERNEL,
        "tile + chunk_place<T>(warp_key() + lane() % 16, chunk + lane() / 16)",
        "tile + (warp_key() + lane() % 16) * T::kDim + (chunk + lane() / 16) * T::kChunk",
    ),
    _patch(
        "swizzle_of_each_row",
        "indexing",
        "K is read as if each row, not each two, had its chunks in another order",
        _KERNEL,
        "tile + chunk_place<T>(warp_key() + lane() / 4, lane() % 4)",
        "tile + (warp_key() + lane() / 4) * T::kDim + (lane() % 4 ^ lane() / 4 % 4) * T::kChunk",
    ),
    _patch(
        "q_in_another_order",
        "indexing",
        "Q's upper and lower pairs of bytes are exchanged, K's are not",
        _KERNEL,
        "q_[strip][step][half], q_[strip][step][half + 2]);",
        "q_[strip][step][half + 2], q_[strip][step][half]);",
    ),
    _patch(
        "parts_not_weighed",
        "numerics",
        "the parts of O are added as if all warps had the same maximum",
        _COMBINE,
        "weights[part] = exp2f(weights[part] - most);",
        "weights[part] = 1.0f;",
    ),
    _patch(
        "wrong_tail_bytes",
        "tails",
        "the 16-byte copies of a tail bring 12 bytes, 4 are zero",
        _COPIES,
        "rows_ + distance(key, stride_) + column * T::kChunk, 16);",
        "rows_ + distance(key, stride_) + column * T::kChunk, 16, 4);",
    ),
    _patch(
        "reads_past_the_end",
        "tails",
        "rows of K and V past the end are read",
        _COPIES,
        "min(first_key + row + i * kStep, keys_ - 1)",
        "first_key + row + i * kStep",
        cpu=("correctness", "sanitizer"),
        device=("sanitizer",),
    ),
    _patch(
        "rows_past_the_end_written",
        "tails",
        "the lower half of a strip is written whether its rows exist or not",
        _KERNEL,
        "if (row + 8 * half >= valid_rows) return;",
        "if (row >= valid_rows) return;",
    ),
    _patch(
        "copies_not_committed",
        "memory",
        "the copies are never committed, so no wait is for them",
        _COPIES,
        "        __pipeline_commit();\n",
        "",
        device=(),
    ),  # a wait for nothing: the card may have copied by then
    _patch(
        "waits_for_one_group_less",
        "memory",
        "Q·K^T begins while the last group of its K may be on its way",
        _LOOP,
        "        await_copies<T, kCopying<T> - 1>();\n        work",
        "        await_copies<T, kCopying<T>>();\n        work",
        device=(),
    ),
    _patch(
        "v_refilled_too_early",
        "memory",
        "a tile of V is copied over the one that other warps still read",
        _LOOP,
        "meet<T>();  // V is read to the end",
        "__syncwarp();",
        device=(),
    ),  # racecheck was given no shape that comes round to it
)
