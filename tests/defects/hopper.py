"""Defects as patches of fp16_v10_hopper: descriptors, swizzles, barriers, asynchronous products, masks."""

from __future__ import annotations

from defects.record import Defect, patch

# Small tiles in two stages, of which shapes with few keys need several, and two consumers.
_TILES = {"TILE_M": 128, "TILE_N": 64, "STAGES": 2}


def _patch(name: str, kind: str, what: str, *edits: tuple[str, str, str], **more: object) -> Defect:
    return patch(f"fp16_hopper_{name}", kind, what, "fp16_v10_hopper", *edits, shapes=("small", "more_keys"), toggles=tuple(_TILES.items()), **more)


def _consumer(name: str, kind: str, what: str, text: str, replacement: str, **more: object) -> Defect:
    return _patch(name, kind, what, ("hopper_consumer.cuh", text, replacement), **more)


def _producer(name: str, kind: str, what: str, text: str, replacement: str, **more: object) -> Defect:
    return _patch(name, kind, what, ("hopper.cu", text, replacement), **more)


HOPPER = (
    _consumer("swizzle_mode", "indexing", "K's descriptor names the 64-byte swizzle, the tensor map the 128-byte one",
              "descriptor(shared_.k[slot.stage], 0, kAtomBytes, wgmma::k128Bytes)", "descriptor(shared_.k[slot.stage], 0, kAtomBytes, wgmma::k64Bytes)"),
    _consumer("offsets_swapped", "indexing", "V's descriptor has its leading and its stride offset swapped",
              "T::kKeyPanelBytes, kAtomBytes, wgmma::k128Bytes", "kAtomBytes, T::kKeyPanelBytes, wgmma::k128Bytes"),
    _consumer("v_not_transposed", "numerics", "V is multiplied as K-major", "multiply<T::kDim, true>", "multiply<T::kDim, false>"),
    _consumer("queries_of_another", "indexing", "all consumers take the first one's queries", "shared.q + group * 64 * 128", "shared.q"),
    _producer("tiles_not_aligned", "indexing", "tiles start at any multiple of 128 bytes, not where the swizzle repeats",
              "(0u - shared_memory::address(shared_bytes)) % kAtomBytes", "(0u - shared_memory::address(shared_bytes)) % 128"),
    _consumer("parity", "memory", "consumers wait for the phase before that in which V comes",
              "v_full[slot.stage], slot.parity)", "v_full[slot.stage], slot.parity ^ 1)"),
    _producer("refilled_too_early", "memory", "K's stages are refilled without waiting for the consumers",
              "mbarrier::wait(&shared.k_empty[slot.stage], slot.parity ^ 1);", ""),
    _producer("byte_count", "memory", "a barrier expects half of the bytes that are copied", "T::kPanels * panel_bytes)", "T::kPanels * panel_bytes / 2)"),
    _producer("arrival_count", "memory", "a stage counts one arrival more than there are consumer warps",
              "mbarrier::init(&shared.v_empty[stage], T::kConsumerWarps)", "mbarrier::init(&shared.v_empty[stage], T::kConsumerWarps + 1)"),
    _producer("barriers_not_fenced", "memory", "the copy engine may not see the barriers' first state", "    shared_memory::fence_async();\n", ""),
    _consumer("no_wait", "memory", "the softmax begins before Q·K^T is done", "wgmma::wait<1>(s_);", ""),
    _consumer("waits_for_one_group_less", "memory", "O is rescaled while P·V may still add to it",
              "wgmma::wait<0>(o_, p_);\n        if (tile >= 0)", "wgmma::wait<1>(o_, p_);\n        if (tile >= 0)"),
    _consumer("no_fence", "memory", "P·V may start before P is in its registers", "wgmma::fence(o_, p_);", ""),
    _patch("released_too_early", "memory", "a warp gives K's stage back before its product has read it",
           ("hopper_consumer.cuh", "        release(shared_.k_empty, tile);\n", ""),
           ("hopper_consumer.cuh", "step > 0);\n        }\n", "step > 0);\n        }\n        release(shared_.k_empty, tile);\n")),
    _consumer("causal_hides_the_diagonal", "tails", "the causal mask hides each query's own key", "key > row(i / 2 % 2)", "key >= row(i / 2 % 2)"),
    _consumer("causal_one_too_many", "tails", "the causal mask shows each query the key after its own", "key > row(i / 2 % 2)", "key > row(i / 2 % 2) + 1"),
    _consumer("missing_keys_count", "tails", "keys past the end, zeros from the copy engine, get weight", "key >= keys_ || ", ""),
    _consumer("rescale_left_out", "numerics", "O is not rescaled when the maximum rises", "o_[i] *= factor_[i / 2 % 2];", ";"),
    _consumer("negative_scale_as_positive", "numerics", "the size of softmax_scale is used, its sign is lost", "if (negate_)", "if (false)"),
)
