"""Defects as patches of the FP16 attention kernels: swizzle, fragments, masks, stages, and keys split between warps."""

from __future__ import annotations

from defects.record import Defect

_V9 = "fp16_v9_pipeline"
_SHAPES = ("small", "more_keys")


def _patch(name: str, kind: str, what: str, *edits: tuple[str, str, str], stage: str = _V9, device: tuple[str, ...] = ("correctness",)) -> Defect:
    return Defect(f"fp16_{name}", kind, what, ("correctness",), device, stage=stage, edits=edits, shapes=_SHAPES)


FP16 = (
    _patch("swizzle_of_reads_only", "indexing", "ldmatrix reads swizzled rows, the copies write plain ones",
           ("pipeline_load.cuh", "to + chunk_place<T::kDim>(row + i * kStep, column), from +", "to + (row + i * kStep) * T::kDim + column * kChunk, from +")),
    _patch("swizzle_of_other_rows", "indexing", "reads of V take row % 4 for the swizzle, the copies row % 8",
           ("pipeline_warp.cuh", "tile + chunk_place<T::kDim>(row, column + lane() / 16)",
            "tile + row * T::kDim + ((column + lane() / 16) ^ (row % 4)) * kChunk")),
    _patch("v_not_transposed", "numerics", "V's 8x8 matrices are read as they lie, not transposed",
           ("pipeline_warp.cuh", "load_matrices<true>(b, tile", "load_matrices<false>(b, tile")),
    _patch("k_transposed", "numerics", "K's 8x8 matrices are transposed once too often",
           ("pipeline_warp.cuh", "load_matrices<false>(b, tile", "load_matrices<true>(b, tile")),
    _patch("causal_one_too_many", "tails", "the causal mask shows each query the key after its own",
           ("pipeline_warp.cuh", "column > query)", "column > query + 1)")),
    _patch("causal_hides_the_diagonal", "tails", "the causal mask hides each query's own key",
           ("pipeline_warp.cuh", "column > query)", "column >= query)")),
    _patch("unmasked_where_half_hidden", "tails", "a warp's keys are masked only where the first query sees none of them",
           ("pipeline_warp.cuh", "key + T::kWarpKeys <= row + 1)", "key <= row)")),
    _patch("nothing_seen_is_nan", "tails", "a warp whose keys are all hidden takes exponents from -infinity",
           ("pipeline_warp.cuh", "return max_[strip][half] == -INFINITY ? 0.0f : max_[strip][half];", "return max_[strip][half];")),
    _patch("parts_not_weighed", "numerics", "the parts of O are added as if all warps had the same maximum",
           ("combine.cuh", "weights[part] = exp2f(weights[part] - most);", "weights[part] = 1.0f;")),
    _patch("l_of_one_part", "numerics", "the parts of O are divided by l of one of them",
           ("combine.cuh", "sum = fmaf(weights[part], sums[part], sum);", "sum = weights[part] * sums[part];")),
    _patch("parts_read_too_early", "memory", "the parts of O are added before all are written",
           ("combine.cuh", "__syncthreads();  // all parts", "// all parts"), device=("sanitizer",)),
    _patch("parts_over_live_tiles", "memory", "a warp writes its part of O while others still read K and V there",
           ("combine.cuh", "__syncthreads();  // K and V", "__syncwarp();  // K and V"), device=("sanitizer",)),
    _patch("q_read_too_early", "memory", "Q is read before all threads' copies have landed",
           ("pipeline.cu", "__syncthreads();  // Q is whole", "__syncwarp();"), device=("sanitizer",)),
    _patch("stage_off_by_one", "memory", "V is read from the stage after its own",
           ("pipeline.cu", "work.accumulate(values.stage(tile));", "work.accumulate(values.stage(tile + 1));")),
    _patch("waits_for_one_group_less", "memory", "Q·K^T begins while the last group of its K may be on its way",
           ("pipeline.cu", "        await_copies<T, kCopying - 1>();\n        work", "        await_copies<T, kCopying>();\n        work")),
    _patch("rescale_left_out", "numerics", "O and l are not rescaled when the maximum rises",
           ("pipeline_warp.cuh", "if (first_tile || !__any_sync(kWarp, grew)) return;", "return;")),
    _patch("negative_scale_as_positive", "numerics", "the size of softmax_scale is used, its sign is lost",
           ("pipeline_warp.cuh", "negate ? 0x80008000u : 0u", "0u")),
    _patch("wmma_mask_off_by_one", "tails", "the causal mask of the WMMA kernel hides each query's own key",
           ("softmax.cuh", "first_query + row + 1 - first_key", "first_query + row - first_key"), stage="fp16_v7_wmma_pv"),
    _patch("wmma_alpha_left_out", "numerics", "WMMA accumulators are not rescaled by exp(m_old - m_new)",
           ("output.cuh", "sums_[strip][n].x[e] *= factor;", ";"), stage="fp16_v7_wmma_pv"),
)
