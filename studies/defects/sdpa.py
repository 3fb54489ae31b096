"""Defects as patches of the attention kernel: numerics, tails, indexing, memory and barriers, resources."""

from __future__ import annotations

from defects.record import Defect, patch

_STAGES = ("stage0_scalar", "stage1_wmma_qk", "stage2_wmma_pv", "stage3_cp_async")
_KERNEL = "the stage's own file"


def _patch(name: str, kind: str, what: str, stage: int, *edits: tuple[str, str, str], **more: object) -> Defect:
    own = f"{_STAGES[stage]}.cu"
    return patch(name, kind, what, _STAGES[stage], *((own if file == _KERNEL else file, *texts) for file, *texts in edits), **more)


_MMA_QK = "wmma::mma_sync(sums[n], queries_[step], keys, sums[n]);"
_IN_HALF = " for (int i = 0; i < sums[n].num_elements; ++i) sums[n].x[i] = __half2float(__float2half_rn(sums[n].x[i]));"
_STORE_P = "values[quad][i] = exp2f(values[quad][i] - new_max);"

NUMERICS = (
    _patch(
        "no_rescale",
        "numerics",
        "the accumulator is not rescaled when the row's maximum rises",
        3,
        ("parts/output_wmma.cuh", "sums_[n].x[i] *= factor;", ";"),
    ),
    _patch("no_final_division", "numerics", "O is not divided by l at the end", 3, ("parts/softmax.cuh", "v_scale / sum_", "v_scale")),
    _patch(
        "max_not_subtracted",
        "numerics",
        "exp of the scores themselves: right until they are large",
        2,
        ("parts/softmax.cuh", _STORE_P, "values[quad][i] = exp2f(values[quad][i]);"),
        ("parts/softmax.cuh", "const float factor = exp2f(max_ - new_max);", "const float factor = 1.0f;"),
    ),
    _patch(
        "finite_start_of_max",
        "numerics",
        "the running maximum starts at -5e4 instead of -infinity",
        3,
        ("parts/softmax.cuh", "float max_ = -INFINITY", "float max_ = -5e4f"),
    ),
    _patch(
        "no_softmax_scale",
        "numerics",
        "scores are not multiplied by 1/sqrt(D)",
        3,
        (_KERNEL, "query_scale * key_scale * softmax_scale * kLog2E", "query_scale * key_scale * kLog2E"),
    ),
    _patch(
        "exp2_for_exp",
        "numerics",
        "2^x where e^x is meant",
        1,
        (_KERNEL, "query_scale * key_scale * softmax_scale * kLog2E", "query_scale * key_scale * softmax_scale"),
    ),
    _patch(
        "v_scale_dropped",
        "numerics",
        "O is not multiplied by V's scale",
        2,
        (_KERNEL, "softmax.finish(output_scale,", "softmax.finish(1.0f,"),
    ),
    _patch("scale_of_wrong_head", "numerics", "K's scale is head 0's for every head", 3, (_KERNEL, "(k_scale + head)", "(k_scale)")),
    _patch(
        "k_not_transposed",
        "numerics",
        "Q·K instead of Q·K^T in each 16 x 16 fragment",
        1,
        ("parts/scores_wmma.cuh", "__half, wmma::col_major> keys;", "__half, wmma::row_major> keys;"),
    ),
    _patch(
        "p_rounded_too_early",
        "numerics",
        "P is rounded to bfloat16 on its way to half",
        2,
        (
            "parts/softmax.cuh",
            _STORE_P,
            "values[quad][i] = __uint_as_float((__float_as_uint(exp2f(values[quad][i] - new_max)) + 0x8000u) & 0xffff0000u);",
        ),
    ),
    _patch(
        "scores_in_half",
        "numerics",
        "raw scores are kept in half before they are scaled, and overflow",
        2,
        ("parts/softmax.cuh", "four[i] * scale_", "__half2float(__float2half_rn(four[i])) * scale_"),
    ),
    _patch("accumulates_in_half", "numerics", "Q·K^T is accumulated in half", 1, ("parts/scores_wmma.cuh", _MMA_QK, _MMA_QK + _IN_HALF)),
    _patch(
        "accumulator_not_cleared",
        "numerics",
        "the score accumulators are never set to 0",
        1,
        ("parts/scores_wmma.cuh", "wmma::fill_fragment(sums[n], 0.0f);", ";"),
    ),
    _patch("l_not_rescaled", "numerics", "l is not rescaled when the row's maximum rises", 0, ("parts/softmax.cuh", "sum_ *= factor;", "")),
    _patch("l_not_updated", "numerics", "l is the last tile's alone", 3, ("parts/softmax.cuh", "sum_ *= factor;", "sum_ = 0.0f;")),
    _patch(
        "l_of_one_lane",
        "numerics",
        "l is not summed over the lanes of a row",
        2,
        ("parts/softmax.cuh", "sum_ += __shfl_xor_sync(0xffffffffu, sum_, offset);", ";"),
    ),
    _patch(
        "max_of_one_lane",
        "numerics",
        "each lane of a row has a maximum of its own",
        3,
        ("parts/softmax.cuh", "tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, offset));", ";"),
    ),
    _patch(
        "first_tile_skipped",
        "numerics",
        "the first tile of keys is left out where there are several",
        0,
        (
            _KERNEL,
            "for (int tile = 0; tile < key_tiles; ++tile) {",
            "for (int tile = key_tiles > 1; tile < key_tiles; ++tile) {",
        ),
    ),
    _patch(
        "last_tile_skipped",
        "numerics",
        "the last tile of keys is left out where there are several",
        0,
        (
            _KERNEL,
            "for (int tile = 0; tile < key_tiles; ++tile) {",
            "for (int tile = 0; tile < key_tiles - (key_tiles > 1); ++tile) {",
        ),
    ),
    _patch(
        "last_dimensions_skipped",
        "numerics",
        "the last 4 of 64 dimensions are left out of the scores",
        0,
        ("parts/scores_scalar.cuh", "for (int d = 0; d < kHeadDim; d += 4)", "for (int d = 0; d < kHeadDim - 4; d += 4)"),
    ),
    _patch(
        "causal_by_mistake",
        "numerics",
        "a causal mask in each tile, where none is asked for",
        3,
        ("parts/softmax.cuh", "column + i < valid_keys ?", "column + i < valid_keys && column + i <= row_ ?"),
    ),
)

TAILS = (
    _patch(
        "tail_not_masked",
        "tails",
        "keys past the end count with a score of 0",
        3,
        ("parts/softmax.cuh", "column + i < valid_keys ?", "true ?"),
    ),
    _patch(
        "last_tile_unwritten",
        "tails",
        "no block for the queries of the last, partial tile",
        2,
        (_KERNEL, "(problem.sequence + kBlockM - 1) / kBlockM", "(problem.sequence > kBlockM ? problem.sequence / kBlockM : 1)"),
    ),
    _patch(
        "last_row_unwritten",
        "tails",
        "the last row of a partial tile is not written",
        3,
        (
            "parts/write_output.cuh",
            "if (row >= valid_rows) return;",
            "if (row >= valid_rows - (valid_rows < kBlockM && valid_rows > 1)) return;",
        ),
    ),
    _patch(
        "whole_tiles_of_keys_only",
        "tails",
        "keys of the last, partial tile are left out",
        0,
        (_KERNEL, "(sequence + kBlockN - 1) / kBlockN", "(sequence > kBlockN ? sequence / kBlockN : 1)"),
    ),
    _patch(
        "reads_past_the_end",
        "tails",
        "rows of K, V and Q past the end are read",
        2,
        ("parts/load.cuh", "return chunk / 4 < valid_rows ?", "return true ?"),
        cpu=("correctness", "sanitizer"),
        device=("sanitizer",),
    ),
    _patch(
        "writes_a_row_too_many",
        "tails",
        "one row past the end of the sequence is written",
        3,
        ("parts/write_output.cuh", "if (row >= valid_rows) return;", "if (row > valid_rows) return;"),
    ),
    _patch(
        "wrong_tail_bytes",
        "tails",
        "the 16-byte copies of the last row bring 12 bytes, 4 are zero",
        3,
        (_KERNEL, "exists ? 0 : kChunkBytes;", "exists ? (chunk / 4 + 1 < valid_rows ? 0 : 4) : kChunkBytes;"),
    ),
)

INDEXING = (
    _patch(
        "one_batch_only",
        "indexing",
        "the grid covers the heads of the first batch alone",
        3,
        (
            _KERNEL,
            "const dim3 grid(static_cast<unsigned>(B * H * query_tiles));",
            "const dim3 grid(static_cast<unsigned>(H * query_tiles));",
        ),
    ),
    _patch(
        "one_head_only",
        "indexing",
        "every head reads the keys and values of head 0",
        2,
        (
            _KERNEL,
            "return head_start + static_cast<std::int64_t>(tile) * kTileBytes;",
            "return static_cast<std::int64_t>(tile) * kTileBytes;",
        ),
    ),
    _patch(
        "heads_swapped",
        "indexing",
        "O of a head goes to its neighbour's place",
        1,
        (
            _KERNEL,
            "write_output(tiles.scores, tiles.normalise, out + query_start,",
            "write_output(tiles.scores, tiles.normalise, out + query_start + (head % 2 ? -1 : (head + 1) * query_tiles < gridDim.x) * "
            "sequence * kHeadDim,",
        ),
    ),
)

MEMORY = (
    _patch(
        "no_barrier_after_load",
        "memory",
        "no barrier between the load of a tile and its use",
        2,
        (_KERNEL, "__syncthreads();  // the tile is whole", "// the tile is whole"),
        device=("sanitizer",),
    ),
    _patch(
        "no_barrier_after_scores",
        "memory",
        "no barrier between the scores and the softmax",
        3,
        (_KERNEL, "__syncthreads();  // a row of scores", "// a row of scores"),
        device=("sanitizer",),
    ),
    _patch(
        "no_barrier_after_p",
        "memory",
        "no barrier between the softmax and P·V",
        3,
        (_KERNEL, "__syncthreads();  // a row of P", "// a row of P"),
        device=("sanitizer",),
    ),
    _patch(
        "no_barrier_before_reuse",
        "memory",
        "no barrier before V and P are overwritten",
        3,
        (_KERNEL, "__syncthreads();  // V and P are read", "// V and P are read"),
        device=("sanitizer",),
    ),
    _patch(
        "no_barrier_before_output",
        "memory",
        "no barrier between the tile of O and its way to memory",
        3,
        (_KERNEL, "__syncthreads();  // the tile of O", "// the tile of O"),
        device=("sanitizer",),
    ),
    _patch(
        "no_syncwarp",
        "memory",
        "no __syncwarp between the row numbers' store and the fragment load",
        2,
        ("parts/output_wmma.cuh", "        __syncwarp();\n", ""),
        device=(),
        process=True,
    ),  # a warp runs in step on the card
    _patch(
        "waits_for_the_wrong_group",
        "memory",
        "the wait leaves one group of copies too many under way",
        3,
        (_KERNEL, "__pipeline_wait_prior(kPipelineDepth - 1);", "__pipeline_wait_prior(kPipelineDepth);"),
        device=(),
    ),  # the copy has landed by then, on the card
    _patch(
        "copies_into_the_buffer_being_read",
        "memory",
        "the copy of the tile after next starts before its buffer is read",
        3,
        (
            _KERNEL,
            "        await_tile(tiles.staging, tile % kPipelineDepth, bytes);",
            "        request(tile + kPipelineDepth);\n        await_tile(tiles.staging, tile % kPipelineDepth, bytes);",
        ),
        (
            _KERNEL,
            "tiles.v[tile % kValueBuffers]);\n        request(tile + kPipelineDepth);",
            "tiles.v[tile % kValueBuffers]);",
        ),
    ),
    _patch(
        "one_buffer_for_v",
        "memory",
        "the next tile of V is converted over the one that P·V reads",
        3,
        (_KERNEL, "kValueBuffers = USE_CP_ASYNC == 1 ? 2 : 1;", "kValueBuffers = 1;"),
        device=("sanitizer",),
    ),
    _patch(
        "reads_unwritten_shared_memory",
        "memory",
        "the rescale factor is not stored where it is 0, so the first tile reads what was there",
        3,
        ("parts/softmax.cuh", "if (part_ == 0) rescale[row_] = factor;", "if (part_ == 0 && factor != 0.0f) rescale[row_] = factor;"),
    ),
    _patch(
        "shared_buffer_too_small",
        "memory",
        "the score buffer is a row short, so its last row lies on the rescale factors",
        2,
        (_KERNEL, "float scores[kBlockM * kScoreLd];", "float scores[(kBlockM - 1) * kScoreLd];"),
    ),
    _patch(
        "misaligned_copy",
        "memory",
        "16-byte copies from addresses one byte off",
        3,
        (_KERNEL, "v_rows + source, kChunkBytes, zero_fill", "v_rows + source + 1, kChunkBytes, zero_fill"),
    ),
    _patch(
        "no_opt_in",
        "memory",
        "more than 48 KiB of shared memory without asking for it",
        3,
        (
            "../cuda/launcher.cuh",
            "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);",
            "cudaFuncAttributePreferredSharedMemoryCarveout, 100);",
        ),
        cpu=("correctness", "ptxas"),
    ),
)

RESOURCES = (
    _patch(
        "spills",
        "resources",
        "a launch bound that leaves 40 registers a thread",
        3,
        (_KERNEL, "__launch_bounds__(kThreads, 4)", "__launch_bounds__(kThreads, 12)"),
        cpu=("ptxas",),
        device=("ptxas",),
    ),
    _patch(
        "scalar_under_a_tensor_name",
        "resources",
        "Q·K^T in scalar code under the tensor-core stage's name",
        1,
        (_KERNEL, "std::conditional_t<USE_WMMA_QK == 1, WmmaScores, ScalarScores>", "ScalarScores"),
        cpu=("sass",),
        device=("sass",),
    ),
    _patch(
        "no_async_copies",
        "resources",
        "direct loads under the asynchronous stage's name",
        3,
        (
            _KERNEL,
            'static_assert(USE_CP_ASYNC == 0 || USE_CP_ASYNC == 1, "USE_CP_ASYNC is 0 or 1");',
            "#undef USE_CP_ASYNC\n#define USE_CP_ASYNC 0",
        ),
        cpu=("sass",),
        device=("sass",),
    ),
    _patch(
        "too_much_shared_memory",
        "resources",
        "four staging buffers instead of two: over the budget of 64 KiB",
        3,
        (_KERNEL, "constexpr int kPipelineDepth = 2;", "constexpr int kPipelineDepth = 4;"),
        cpu=("ptxas",),
        device=("ptxas",),
    ),
    _patch(
        "renamed_kernel",
        "resources",
        "the kernel that task.yaml names is not in the build",
        1,
        (
            _KERNEL,
            "__global__ void __launch_bounds__(kThreads, 4) sdpa_fp8_kernel(",
            "__global__ void __launch_bounds__(kThreads, 4) sdpa_kernel(",
        ),
        (_KERNEL, "launcher::launch(refusal, sdpa_fp8_kernel,", "launcher::launch(refusal, sdpa_kernel,"),
        cpu=("ptxas", "sass"),
        device=("ptxas", "sass"),
    ),
    _patch(
        "slower_than_its_baseline",
        "resources",
        "each tile's scores are computed twice over",
        3,
        (
            _KERNEL,
            "        scores.compute(tiles.q, tiles.k, tiles.scores, place);\n        __syncthreads();  // a row",
            "        for (int i = 0; i < 8; ++i) { scores.compute(tiles.q, tiles.k, tiles.scores, place); __syncthreads(); }\n    "
            "    __syncthreads();  // a row",
        ),
        cpu=(),
        device=("performance",),
        only="speed",
    ),
)

PATCHES = (*NUMERICS, *TAILS, *INDEXING, *MEMORY, *RESOURCES)
