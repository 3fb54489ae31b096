"""Defects as patches of the FP16 attention kernels: swizzle, fragments, masks, stages, and keys split between warps."""

from __future__ import annotations

from defects.record import Defect, patch

# One set of tiles for all shapes, in which warps share keys and split them, in two stages: every line that a defect changes
# is run on every shape, and a defect builds in a fraction of the time that the launcher's seven sets take.
_TILES = {"TILE_M": 64, "TILE_N": 32, "NUM_WARPS": 4, "STRIPS": 2, "STAGES": 2}
_RACE = {"device": ("sanitizer",)}  # a missing barrier: the card's timing may hide it, racecheck does not


def _patch(name: str, kind: str, what: str, *edits: tuple[str, str, str], stage: str = "fp16_v9_pipeline", **more: object) -> Defect:
    toggles = tuple(_TILES.items()) if stage == "fp16_v9_pipeline" else ()
    return patch(f"fp16_{name}", kind, what, stage, *edits, shapes=("small", "more_keys"), toggles=toggles, **more)


def _warp(name: str, kind: str, what: str, text: str, replacement: str) -> Defect:
    return _patch(name, kind, what, ("fp16_v9_pipeline.cu", text, replacement))


def _rows(name: str, kind: str, what: str, text: str, replacement: str) -> Defect:
    return _patch(name, kind, what, ("../sdpa/rows.cuh", text, replacement))


def _combine(name: str, kind: str, what: str, text: str, replacement: str, **more: object) -> Defect:
    return _patch(name, kind, what, ("../sdpa/combine.cuh", text, replacement), **more)


def _wmma(name: str, kind: str, what: str, *edit: str) -> Defect:
    return _patch(f"wmma_{name}", kind, what, edit, stage="fp16_v7_wmma_pv")  # type: ignore[arg-type]


FP16 = (
    _patch(
        "swizzle_of_reads_only",
        "indexing",
        "ldmatrix reads swizzled rows, the copies write plain ones",
        ("../sdpa/copies.cuh", "place(i), from +", "stage(tile) + (row + i * kStep) * T::kDim + column * T::kChunk, from +"),
    ),
    _warp(
        "swizzle_of_other_rows",
        "indexing",
        "reads of V take row % 4 for the swizzle, the copies row % 8",
        "tile + chunk_place<T>(row, column + lane() / 16)",
        "tile + row * T::kDim + ((column + lane() / 16) ^ (row % 4)) * T::kChunk",
    ),
    _warp(
        "v_not_transposed",
        "numerics",
        "V's 8x8 matrices are read as they lie, not transposed",
        "load_matrices<true>(b, tile",
        "load_matrices<false>(b, tile",
    ),
    _warp(
        "k_transposed",
        "numerics",
        "K's 8x8 matrices are transposed once too often",
        "load_matrices<false>(b, tile",
        "load_matrices<true>(b, tile",
    ),
    _rows(
        "causal_one_too_many", "tails", "the causal mask shows each query the key after its own", "column > query)", "column > query + 1)"
    ),
    _rows("causal_hides_the_diagonal", "tails", "the causal mask hides each query's own key", "column > query)", "column >= query)"),
    _rows(
        "unmasked_where_half_hidden",
        "tails",
        "a warp's keys are masked only where the first query sees none of them",
        "key + T::kWarpKeys <= row + 1)",
        "key <= row)",
    ),
    _rows(
        "nothing_seen_is_nan",
        "tails",
        "a warp whose keys are all hidden takes exponents from -infinity",
        "return max_[strip][half] == -INFINITY ? 0.0f : max_[strip][half];",
        "return max_[strip][half];",
    ),
    _combine(
        "parts_not_weighed",
        "numerics",
        "the parts of O are added as if all warps had the same maximum",
        "weights[part] = exp2f(weights[part] - most);",
        "weights[part] = 1.0f;",
    ),
    _combine(
        "l_of_one_part",
        "numerics",
        "the parts of O are divided by l of one of them",
        "sum = fmaf(weights[part], sums[part], sum);",
        "sum = weights[part] * sums[part];",
    ),
    _combine(
        "parts_read_too_early",
        "memory",
        "the parts of O are added before all are written",
        "__syncthreads();  // all parts",
        "// all parts",
        **_RACE,
    ),
    _combine(
        "parts_over_live_tiles",
        "memory",
        "a warp writes its part of O while others still read K and V there",
        "__syncthreads();  // K and V",
        "__syncwarp();  // K and V",
        **_RACE,
    ),
    _patch(
        "q_read_too_early",
        "memory",
        "Q is read before all threads' copies have landed",
        ("fp16_v9_pipeline.cu", "__syncthreads();  // Q is whole", "__syncwarp();"),
        **_RACE,
    ),
    _patch(
        "stage_off_by_one",
        "memory",
        "V is read from the stage after its own",
        ("../sdpa/loop.cuh", "work.accumulate(values.stage(tile));", "work.accumulate(values.stage(tile + 1));"),
    ),
    _patch(
        "waits_for_one_group_less",
        "memory",
        "Q·K^T begins while the last group of its K may be on its way",
        (
            "../sdpa/loop.cuh",
            "        await_copies<T, kCopying<T> - 1>();\n        work",
            "        await_copies<T, kCopying<T>>();\n        work",
        ),
    ),
    _rows(
        "rescale_left_out",
        "numerics",
        "O and l are not rescaled when the maximum rises",
        "if (first_tile || !__any_sync(kWarp, grew)) return;",
        "return;",
    ),
    _warp(
        "negative_scale_as_positive", "numerics", "the size of softmax_scale is used, its sign is lost", "negate ? 0x80008000u : 0u", "0u"
    ),
    _wmma(
        "mask_off_by_one",
        "tails",
        "the causal mask of the WMMA kernel hides each query's own key",
        "parts/softmax.cuh",
        "first_query + row + 1 - first_key",
        "first_query + row - first_key",
    ),
    _wmma(
        "alpha_left_out",
        "numerics",
        "WMMA accumulators are not rescaled by exp(m_old - m_new)",
        "parts/output_wmma.cuh",
        "sums_[strip][n].x[e] *= factor;",
        ";",
    ),
)
