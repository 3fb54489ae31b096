"""kernels/attention.py on the emulator: dtypes, heads that share keys, strides, log-sum-exp; planted defects of each; what is refused."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from attention_kit import BUILDS, SPLIT, Case, attention_of, compiled, default_scale, general, over_bounds
from conftest import OnceASession
from defects.combined import refusals
from defects.record import Defect, patch
from fp16_kit import V8, V9, V10, V11, problem, shape_of, unpatched
from fp16_kit import run as run_plain

from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedKernel
from kernels.attention import Attention
from tasks.problems.sdpa_fp16_operator import ENTRY

DTYPES = (torch.float16, torch.bfloat16)
CASES = [
    Case(1, 1, 1, 1, 1),
    Case(2, 4, 4, 33, 129),
    Case(2, 4, 2, 40, 70, causal=True, layout="bshd"),
    Case(1, 3, 1, 70, 65, 128, layout="bshd"),
    Case(2, 4, 2, 65, 65, 128, causal=True, layout="packed"),
    Case(3, 2, 1, 40, 40, layout="packed"),
    Case(1, 2, 2, 130, 40, causal=True, layout="mixed"),
    Case(2, 70, 35, 20, 20, causal=True, layout="bshd"),  # more heads than SMs: items follow each other
    Case(2, 8, 2, 1, 70, 128, layout="bshd"),  # four heads are rows of one tile
    Case(1, 4, 2, 37, 90),  # so are two heads of 37 rows
    Case(1, 2, 1, 16, 520, layout="bshd"),  # few rows, many keys: a cluster shares them out
]


def planted(name: str, what: str, build: str, file: str, text: str, replacement: str, dtype: torch.dtype = torch.float16) -> Defect:
    honest = general(build, dtype)
    return patch(f"attention_{name}", "indexing", what, honest.stage, (file, text, replacement), toggles=honest.toggles)


HEADS = "parts/heads.cuh"
DEFECTS = [
    planted(
        "other_keys",
        "head h uses K and V of h mod Hkv",
        "v10",
        HEADS,
        ": head / problem.group",
        ": head % (problem.q.heads / problem.group)",
    ),
    planted("own_keys", "each head of Q uses K and V of its own number", "v9 split", HEADS, "head / problem.group}", "head}"),
    planted("first_batch", "all batches use the first one's tensors", "v9 whole", HEADS, "+ batch * tensor.batch_stride", ""),
    planted("dense_rows", "rows are taken for contiguous ones", "v9 split", f"{V9}.cu", "!rows_are_dense(problem, kDim)", "false"),
    planted("values_as_keys", "V has K's stride", "v9 split", "parts/entry.cuh", '"v", strides[2]', '"v", strides[1]'),
    planted("out_as_queries", "O has Q's strides", "v10", "parts/entry.cuh", '"out", strides[3]', '"out", strides[0]'),
    planted(
        "swapped_strides",
        "the map of a tensor has the strides of rows and heads swapped",
        "v11",
        "parts/warpgroup_tiles.cuh",
        "bytes(tensor.row_stride), bytes(tensor.head_stride)",
        "bytes(tensor.head_stride), bytes(tensor.row_stride)",
    ),
    planted("lse_in_log2", "the log-sum-exp is a logarithm to base 2", "v10", HEADS, "* kLn2", ""),
    planted("lse_unscaled", "the log-sum-exp leaves the scale out", "v9 whole", HEADS, "(most +", "(most / problem.scale +"),
    planted(
        "lse_of_a_part",
        "the log-sum-exp counts one warp's keys",
        "v9 split",
        "../sdpa/combine.cuh",
        "keep(row, most, sum)",
        "keep(row, most, sums[0])",
    ),
    planted(
        "lse_of_a_share",
        "the log-sum-exp counts one CTA's keys",
        "v11",
        "parts/cluster_rows.cuh",
        "first_query + row, most, sum)",
        "first_query + row, max_[0], sum_[0])",
    ),
    planted(
        "lse_of_the_next",
        "the log-sum-exp is taken after the next item has begun",
        "v11",
        f"{V11}.cu",
        "        this->keep_lse_early(problem_, item.head);\n        begin(next);\n",
        "        begin(next);\n        this->keep_lse_early(problem_, item.head);\n",
    ),
    planted(
        "half_products",
        "bfloat16 is multiplied as half",
        "v10",
        "parts/warpgroup_rows.cuh",
        "T::kTileN, false, Element>",
        "T::kTileN, false>",
        torch.bfloat16,
    ),
    planted(
        "half_weights",
        "P is packed as half beside V in bfloat16",
        "v11",
        "parts/warpgroup_rows.cuh",
        "[i % 4] = pack_pair<Element>",
        "[i % 4] = pack_halves",
        torch.bfloat16,
    ),
    planted(
        "half_of_warps",
        "mma.sync takes bfloat16 for half",
        "v9 whole",
        f"{V9}.cu",
        "multiply_add<Element>(o_[strip][column],",
        "multiply_add(o_[strip][column],",
        torch.bfloat16,
    ),
]
CHEAP = [defect for defect in DEFECTS if defect.name in ("attention_other_keys", "attention_lse_in_log2", "attention_half_products")]
HONEST = {(build, dtype): general(build, dtype) for build in BUILDS for dtype in DTYPES}


@pytest.fixture(scope="module")
def operators(kept: OnceASession) -> dict[tuple[str, torch.dtype], Attention]:
    """Each build for each dtype."""
    return {key: attention_of(f"honest_{number}", kernel) for number, (key, kernel) in enumerate(kernels(kept).items())}


def kernels(kept: OnceASession) -> dict[tuple[str, torch.dtype], EmulatedKernel]:
    return dict(zip(HONEST, compiled(kept, "attention", list(HONEST.values())), strict=True))


def worst(attention: Attention, case: Case, dtype: torch.dtype) -> float:
    q, k, v = case.tensors(dtype)
    out, lse = attention(q, k, v, causal=case.causal, return_lse=True)
    assert out.dtype == dtype and lse.dtype == torch.float32 and lse.shape == q.shape[:3]
    return over_bounds(out, lse, q, k, v, case.causal, default_scale(q))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("build", BUILDS)
def test_errors_are_within_what_rounding_explains(
    operators: dict[tuple[str, torch.dtype], Attention], build: str, dtype: torch.dtype, case: Case
) -> None:
    assert worst(operators[build, dtype], case, dtype) <= 1


@pytest.mark.parametrize("build", BUILDS)
def test_no_access_is_out_of_bounds_and_none_races(kept: OnceASession, build: str) -> None:
    kernel = kernels(kept)[build, torch.bfloat16]
    attention = attention_of("watched", kernel)
    for case in CASES:
        attention(*case.tensors(torch.bfloat16), causal=case.causal, return_lse=True)
        assert kernel.findings == []


def test_a_planted_defect_is_caught(kept: OnceASession) -> None:
    assert let_through(kept, "attention_cheap", CHEAP) == []


@pytest.mark.slow
def test_each_planted_defect_is_caught(kept: OnceASession) -> None:
    assert let_through(kept, "attention_defects", [defect for defect in DEFECTS if defect not in CHEAP]) == []


def let_through(kept: OnceASession, name: str, defects: Sequence[Defect]) -> list[str]:
    """Those that no case shows."""
    passed = []
    for defect, kernel in zip(defects, compiled(kept, name, defects), strict=True):
        dtype = DTYPES[dict(defect.toggles)["BF16"]]
        attention = attention_of(defect.name, kernel)
        if not any(_caught(attention, case, dtype) for case in CASES):
            passed.append(defect.name)
    return passed


def _caught(attention: Attention, case: Case, dtype: torch.dtype) -> bool:
    try:
        return worst(attention, case, dtype) > 1
    except KernelError:  # an access out of bounds
        return True


@pytest.mark.parametrize("build", BUILDS)
def test_contiguous_tensors_give_the_bits_of_the_ladder_s_stage(
    operators: dict[tuple[str, torch.dtype], Attention], kept: OnceASession, build: str
) -> None:
    plain = [unpatched(rung, **tiles, GENERAL=0, BF16=0) for rung, tiles in BUILDS.values()]
    kernel = compiled(kept, "attention_plain", plain, ENTRY)[list(BUILDS).index(build)]
    for shape in (shape_of(40, 150, causal=1), shape_of(33, 70, 128)):
        inputs = problem.make_inputs(shape, 1, "cpu")
        out = operators[build, torch.float16](inputs["q"], inputs["k"], inputs["v"], causal=bool(shape["causal"]))
        assert torch.equal(out, run_plain(kernel, inputs, shape))


@pytest.mark.parametrize("build", BUILDS)
def test_the_scale_may_be_negative_or_zero(operators: dict[tuple[str, torch.dtype], Attention], build: str) -> None:
    q, k, v = Case(1, 2, 1, 40, 70, causal=True, layout="bshd").tensors(torch.float16)
    for scale in (-0.3, 0.0):
        out, lse = operators[build, torch.float16](q, k, v, causal=True, softmax_scale=scale, return_lse=True)
        assert over_bounds(out, lse, q, k, v, True, scale) <= 1


REFUSED = {
    "heads": ({2: 3}, {}, "Hkv: 3, must divide the 4 heads of q"),
    "no heads": ({2: 0}, {}, "Hkv: 0, must divide"),
    "alignment": ({}, {5: 12}, "k: stride of 12 elements along S, must be a positive multiple of 8"),
    "expanded": ({}, {7: 0}, "v: stride of 0 elements along H"),
    "backwards": ({}, {0: -4096}, "q: stride of -4096 elements along B"),
    "far": ({}, {11: 1 << 31}, "out: stride of 2147483648 elements along S"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_launcher_refuses_and_names_the_argument(kept: OnceASession, case: str) -> None:
    numbers, strides, message = REFUSED[case]
    tensors = [torch.zeros(2, 4, 8, 64, dtype=torch.float16) for _ in range(4)]
    sizes = [2, 4, 4, 8, 8, 64, 0]
    for index, value in numbers.items():
        sizes[index] = value
    given = [stride for tensor in tensors for stride in tensor.stride()[:3]]
    for index, value in strides.items():
        given[index] = value
    pointer = (ctypes.c_int64 * 12)(*given)
    with pytest.raises(KernelError, match=message):
        kernels(kept)["v10", torch.float16](*tensors, ctypes.c_void_p(), *sizes, 0.125, ctypes.c_void_p(ctypes.addressof(pointer)))


def test_more_batches_than_a_grid_is_deep_are_refused(operators: dict[tuple[str, torch.dtype], Attention]) -> None:
    with pytest.raises(KernelError, match="B, H: 65536 heads, at most 65535"):
        operators["v10", torch.float16](*Case(65536, 1, 1, 1, 1).tensors(torch.float16))


def test_what_a_stage_can_not_do_does_not_compile(tmp_path: Path) -> None:
    tried = [
        unpatched(V8, GENERAL=1),
        unpatched(V10, BF16=1, GENERAL=0),
        unpatched(V9, **SPLIT, GENERAL=2, BF16=0),
        general("v10", torch.bfloat16),
    ]
    told = refusals(tried, tmp_path)
    assert "this stage has GENERAL=0 alone" in " ".join(told[0])
    assert "BF16 is 0 or 1, and 1 goes with GENERAL=1" in " ".join(told[1])
    assert "GENERAL is 0 or 1" in " ".join(told[2])
    assert told[3] == []
