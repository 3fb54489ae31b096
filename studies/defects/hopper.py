"""Defects as patches of fp16_v10_hopper: descriptors, swizzles, barriers, asynchronous products, masks."""

from __future__ import annotations

from defects.record import Defect, patch

# Small tiles in few stages, of which shapes with few keys need several, and two consumers.
_TILES = {"TILE_M": 128, "TILE_N": 64, "STAGES": 3}
# What the emulator sees and an H200 did not show: there the data came in time, or shared memory began where the swizzle repeats. No tool of
# the card looks at what the copy engine and asynchronous products touch.
_UNSEEN = {"device": ()}
_RELEASE = "            this->release(&shared_.empty[before]);\n"


def _patch(name: str, kind: str, what: str, *edits: tuple[str, str, str], **more: object) -> Defect:
    more.setdefault("time_limit_s", 60)  # a barrier that never opens ends at the limit
    return patch(
        f"fp16_hopper_{name}", kind, what, "fp16_v10_hopper", *edits, shapes=("small", "more_keys"), toggles=tuple(_TILES.items()), **more
    )


def _stage(name: str, kind: str, what: str, text: str, replacement: str, **more: object) -> Defect:
    return _patch(name, kind, what, ("fp16_v10_hopper.cu", text, replacement), **more)


def _rows(name: str, kind: str, what: str, text: str, replacement: str, **more: object) -> Defect:
    return _patch(name, kind, what, ("parts/warpgroup_rows.cuh", text, replacement), **more)


def _softmax(name: str, kind: str, what: str, text: str, replacement: str, **more: object) -> Defect:
    return _patch(name, kind, what, ("../sdpa/warpgroup_softmax.cuh", text, replacement), **more)


def _groups(name: str, kind: str, what: str, text: str, replacement: str, **more: object) -> Defect:
    return _patch(name, kind, what, ("../sdpa/warpgroups.cuh", text, replacement), **more)


HOPPER = (
    _rows(
        "swizzle_mode",
        "indexing",
        "K's descriptor names the 64-byte swizzle, the tensor map the 128-byte one",
        "descriptor(key_tile, 0, kAtomBytes, wgmma::k128Bytes)",
        "descriptor(key_tile, 0, kAtomBytes, wgmma::k64Bytes)",
    ),
    _rows(
        "offsets_swapped",
        "indexing",
        "V's descriptor has its leading and its stride offset swapped",
        "T::kKeyPanelBytes, kAtomBytes, wgmma::k128Bytes",
        "kAtomBytes, T::kKeyPanelBytes, wgmma::k128Bytes",
    ),
    _rows("v_not_transposed", "numerics", "V is multiplied as K-major", "multiply<T::kDim, true,", "multiply<T::kDim, false,"),
    _stage("queries_of_another", "indexing", "all consumers take the first one's queries", "shared.q + group * 64 * 128", "shared.q"),
    _stage(
        "values_of_another",
        "indexing",
        "P·V takes V of the tile after P's",
        "issue_output(shared_.v[before]);",
        "issue_output(shared_.v[slot_.stage]);",
    ),
    _groups(
        "tiles_not_aligned",
        "indexing",
        "tiles start at any multiple of 128 bytes, not where the swizzle repeats",
        "(0u - shared_memory::address(shared_bytes)) % kAtomBytes",
        "(0u - shared_memory::address(shared_bytes)) % 128",
        **_UNSEEN,
    ),
    _stage(
        "parity",
        "memory",
        "consumers wait for the phase before that in which the next tile comes",
        "full[next.stage], next.parity)",
        "full[next.stage], next.parity ^ 1)",
    ),
    _stage(
        "next_not_awaited",
        "memory",
        "a product starts without a wait for its tile",
        "mbarrier::wait(&shared_.full[next.stage], next.parity);",
        "",
        **_UNSEEN,
    ),
    _stage(
        "refilled_too_early",
        "memory",
        "stages are refilled without waiting for the consumers",
        "mbarrier::wait(&shared.empty[slot.stage], slot.parity ^ 1);",
        "",
    ),
    _stage("byte_count", "memory", "a barrier expects half of the bytes that are copied", "2 * T::kTileBytes", "T::kTileBytes"),
    _stage(
        "arrival_count",
        "memory",
        "a stage counts one arrival more than there are consumer warps",
        "mbarrier::init(&shared.empty[stage], T::kConsumerWarps)",
        "mbarrier::init(&shared.empty[stage], T::kConsumerWarps + 1)",
    ),
    _stage(
        "barriers_not_fenced",
        "memory",
        "the copy engine may not see the barriers' first state",
        "    shared_memory::fence_async();\n",
        "",
        **_UNSEEN,
    ),
    _stage("no_wait", "memory", "the softmax begins before Q·K^T is done", "wgmma::wait<1>(s_);", "", **_UNSEEN),
    _stage(
        "waits_for_one_group_less",
        "memory",
        "O is rescaled while P·V may still add to it",
        "wgmma::wait<0>(o_, p_, s_);",
        "wgmma::wait<1>(o_, p_, s_);",
        **_UNSEEN,
    ),
    _rows("no_fence", "memory", "P·V may start before P is in its registers", "wgmma::fence(o_, p_);", "", **_UNSEEN),
    _stage(
        "released_too_early",
        "memory",
        "a warp gives a stage back before P·V has read V of it",
        "            wgmma::wait<0>(o_, p_, s_);\n" + _RELEASE,
        _RELEASE + "            wgmma::wait<0>(o_, p_, s_);\n",
        **_UNSEEN,
    ),
    _stage("never_released", "memory", "the consumers give no stage back", _RELEASE, ""),
    _groups(
        "registers_not_there",
        "memory",
        "consumers ask for more registers than the producer gives back",
        "kConsumerRegisters = kShare < 240 ? kShare : 240",
        "kConsumerRegisters = 248",
    ),
    _softmax(
        "causal_hides_the_diagonal", "tails", "the causal mask hides each query's own key", "key > row(i / 2 % 2)", "key >= row(i / 2 % 2)"
    ),
    _softmax(
        "causal_one_too_many",
        "tails",
        "the causal mask shows each query the key after its own",
        "key > row(i / 2 % 2)",
        "key > row(i / 2 % 2) + 1",
    ),
    _softmax("missing_keys_count", "tails", "keys past the end, zeros from the copy engine, get weight", "key >= keys_ || ", ""),
    _softmax(
        "causal_forgotten_where_keys_exist",
        "tails",
        "a tile whose keys all exist gets no causal mask",
        "kCausal ? min(keys_, first_row_ + 1) : keys_",
        "keys_",
    ),
    _softmax("rescale_left_out", "numerics", "O is not rescaled when the maximum rises", "o_[i] *= factor_[i / 2 % 2];", ";"),
    _softmax("negative_scale_as_positive", "numerics", "the size of softmax_scale is used, its sign is lost", "if (negate_)", "if (false)"),
    _softmax(
        "negative_scale_of_masked_tiles", "numerics", "tiles without a mask lose softmax_scale's sign", "negate_ ? 0 : all_see", "all_see"
    ),
)
