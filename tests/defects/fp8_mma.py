"""Defects as patches of stage4_mma: bytes in the wrong place, swizzle, stages, tails, and keys split between warps."""

from __future__ import annotations

from defects.record import Defect, patch

# Small tiles, so that a few keys fill several of them and stages are filled anew.
_TILES = {"TILE_N": 64}
_RACE = {"device": ("sanitizer",)}  # a missing barrier: the card's timing may hide it, racecheck does not


def _patch(name: str, kind: str, what: str, file: str, text: str, replacement: str, **more: object) -> Defect:
    return patch(f"mma_{name}", kind, what, "stage4_mma", (file, text, replacement), toggles=tuple(_TILES.items()), **more)


_WARP, _ROWS, _COPIES, _LOOP, _COMBINE = (
    "mma_warp.cuh", *(f"../common/sdpa_{part}.cuh" for part in ("rows", "copies", "loop", "combine")),
)

MMA = (
    _patch("bytes_not_permuted", "indexing", "V's bytes go to the product as ldmatrix left them, columns in place of keys",
           _WARP, "return __byte_perm(units, 0, 0x3120);", "return units;"),
    _patch("odd_columns_first", "indexing", "the byte permute puts the odd column first",
           _WARP, "__byte_perm(units, 0, 0x3120)", "__byte_perm(units, 0, 0x2031)"),
    _patch("columns_in_product_order", "indexing", "O's columns are stored in the order of the products, even ones first",
           _WARP, "make_uint2(pack_halves(o[0][2 * half], o[1][2 * half]), pack_halves(o[0][2 * half + 1], o[1][2 * half + 1]))",
           "make_uint2(pack_halves(o[0][2 * half], o[0][2 * half + 1]), pack_halves(o[1][2 * half], o[1][2 * half + 1]))"),
    _patch("swizzle_left_out_of_v", "indexing", "ldmatrix reads V's rows as if they were not swizzled",
           _WARP, "tile + chunk_place<T>(warp_key() + lane() % 16, chunk + lane() / 16)",
           "tile + (warp_key() + lane() % 16) * T::kDim + (chunk + lane() / 16) * T::kChunk"),
    _patch("swizzle_of_each_row", "indexing", "K is read as if each row, not each two, had its chunks in another order",
           _WARP, "tile + chunk_place<T>(warp_key() + lane() / 4, lane() % 4)",
           "tile + (warp_key() + lane() / 4) * T::kDim + (lane() % 4 ^ lane() / 4 % 4) * T::kChunk"),
    _patch("q_in_another_order", "indexing", "Q's upper and lower pairs of bytes are exchanged, K's are not",
           _WARP, "q_[strip][step][half], q_[strip][step][half + 2]);", "q_[strip][step][half + 2], q_[strip][step][half]);"),
    _patch("v_scale_dropped", "numerics", "O is not multiplied by V's scale",
           "mma.cu", "Combine<T>(shared_bytes, output_scale)", "Combine<T>(shared_bytes)"),
    _patch("scale_of_wrong_head", "numerics", "K's scale is head 0's for every head", "mma.cu", "(problem.k_scale + head)", "(problem.k_scale)"),
    _patch("parts_not_weighed", "numerics", "the parts of O are added as if all warps had the same maximum",
           _COMBINE, "weights[part] = exp2f(weights[part] - most);", "weights[part] = 1.0f;"),
    _patch("parts_over_live_tiles", "memory", "a warp writes its part of O while others still read K and V there",
           _COMBINE, "__syncthreads();  // K and V", "__syncwarp();  // K and V", **_RACE),
    _patch("rescale_left_out", "numerics", "O and l are not rescaled when the maximum rises",
           _ROWS, "if (first_tile || !__any_sync(kWarp, grew)) return;", "return;"),
    _patch("tail_not_masked", "tails", "keys past the end count, as copies of the last one", _ROWS, "if (column >= keys ||", "if ("),
    _patch("wrong_tail_bytes", "tails", "the 16-byte copies of a tail bring 12 bytes, 4 are zero",
           _COPIES, "rows_ + key * T::kDim + column * T::kChunk, 16);", "rows_ + key * T::kDim + column * T::kChunk, 16, 4);"),
    _patch("reads_past_the_end", "tails", "rows of K and V past the end are read",
           _COPIES, "min(first_key + row + i * kStep, keys_ - 1)", "first_key + row + i * kStep",
           cpu=("correctness", "sanitizer"), device=("sanitizer",)),
    _patch("rows_past_the_end_written", "tails", "the lower half of a strip is written whether its rows exist or not",
           _WARP, "if (row + 8 * half >= valid_rows) return;", "if (row >= valid_rows) return;"),
    _patch("copies_not_committed", "memory", "the copies are never committed, so no wait is for them",
           _COPIES, "        __pipeline_commit();\n", "", device=()),  # a wait for nothing: the card may have copied by then
    _patch("waits_for_one_group_less", "memory", "Q·K^T begins while the last group of its K may be on its way",
           _LOOP, "        await_copies<T, kCopying<T> - 1>();\n        work", "        await_copies<T, kCopying<T>>();\n        work", device=()),
    _patch("stage_off_by_one", "memory", "V is read from the stage after its own",
           _LOOP, "work.accumulate(values.stage(tile));", "work.accumulate(values.stage(tile + 1));"),
    _patch("v_refilled_too_early", "memory", "a tile of V is copied over the one that other warps still read",
           _LOOP, "meet<T>();  // V is read to the end", "__syncwarp();", **_RACE),
)
