"""Faults that a checker finds in a kernel: one name each, whether compute-sanitizer or the emulator saw it.

The code is ``<gate>.<fault>``, e.g. ``sanitizer.race_shared``: in the sanitizer gate, and in the correctness gate for what the emulator saw
while it made the numbers.
"""

from __future__ import annotations

from gates.core.reason_code import Code, codes_in

OUT_OF_BOUNDS = Code(
    "out_of_bounds",
    "the kernel accesses global memory outside of every allocation.",
    next_step="Look at the guard of the last tile and at the sizes that the launcher passes.",
)
SHARED_OUT_OF_BOUNDS = Code(
    "shared_out_of_bounds",
    "the kernel accesses shared memory outside of what the block has.",
    next_step="Compare the index with the array's size, and with the bytes of dynamic shared memory that the launch names.",
)
LOCAL_OUT_OF_BOUNDS = Code(
    "local_out_of_bounds",
    "the kernel accesses a thread's local array outside of its bounds.",
    next_step="Look at an index that grows with a loop or with the shape.",
)
PARAMETER_OUT_OF_BOUNDS = Code("parameter_out_of_bounds", "the kernel reads outside of its own parameters.")
USE_AFTER_FREE = Code(
    "use_after_free",
    "the kernel accesses memory that was freed.",
    next_step="Look for a cudaFree before the kernel has run to its end, and for a pointer that is kept between calls.",
)
NULL_ADDRESS = Code(
    "null_address",
    "the kernel follows a null pointer.",
    next_step="Look for an allocation whose error nobody checked, and for an optional argument.",
)
NOT_DEVICE_MEMORY = Code(
    "not_device_memory",
    "the kernel follows an address that is not one of the device.",
    next_step="Check the order of ARGUMENTS against the launcher's, and pass no pointer of the host.",
)
WRONG_SPACE = Code(
    "wrong_space",
    "the kernel uses an address of one state space with an instruction for another.",
    next_step="Look at __cvta_generic_to_shared and at the address that inline PTX takes.",
)
MISALIGNED = Code(
    "misaligned",
    "the kernel accesses an address that is not a multiple of the access's size.",
    next_step="Look at a float4 or cp.async of a row whose length does not divide by it.",
)
UNINITIALISED_GLOBAL = Code(
    "uninitialised_global",
    "the kernel reads global memory that nothing has written.",
    next_step="Look at a scratch buffer that is read before it is set, and at outputs that are added to.",
)
UNINITIALISED_SHARED = Code(
    "uninitialised_shared",
    "the kernel reads shared memory that nothing has written.",
    next_step="Look at the tail of a tile that is not filled with zeros.",
)
UNINITIALISED_LOCAL = Code("uninitialised_local", "the kernel reads a local array that nothing has written.")
RACE_SHARED = Code(
    "race_shared",
    "two threads access the same shared memory, one of them writes, and nothing orders the two.",
    next_step="Look for a missing __syncthreads() or wait between the two lines that are named.",
)
RACE_GLOBAL = Code(
    "race_global",
    "two threads access the same global memory, one of them writes, and nothing orders the two.",
    next_step="Use an atomic, or give each output to one thread. A flag needs a __threadfence() before it is set and after it is seen.",
)
INPUT_WRITTEN = Code("input_written", "the kernel writes an input, which it must leave alone.")
BARRIER_DIVERGENCE = Code(
    "barrier_divergence",
    "not all threads of the block reach the same barrier.",
    next_step="Look for a __syncthreads() inside an if or after a return that only some threads take.",
)
BARRIER_NUMBER = Code("barrier_number", "the kernel names a barrier that a block does not have; there are 0 to 15.")
DEADLOCK = Code(
    "deadlock",
    "threads wait forever.",
    next_step="The message says who waits for what. Look at the arrivals that a barrier counts and at the phase that is waited for.",
)
SYNC_MASK = Code(
    "sync_mask",
    "the mask of a warp's exchange leaves out a lane that takes part.",
    next_step="Use the mask of the lanes that reach the line, e.g. by __ballot_sync before the branch.",
)
SHUFFLE_INACTIVE = Code(
    "shuffle_inactive",
    "a shuffle reads a lane that does not take part.",
    next_step="Look at the width of the shuffle in the last warp, and at a branch around it.",
)
DIVERGED_WARP = Code("diverged_warp", "lanes of one warp run an exchange of the whole warp at different lines.")
ENDED_LANES = Code(
    "ended_lanes",
    "an instruction of the whole warp runs after some of its lanes have returned.",
    next_step="Guard the loads and stores, not the whole thread; and launch whole warps.",
)
WARPGROUP_DIVERGENCE = Code("warpgroup_divergence", "the four warps of a warpgroup do not run the same wgmma.")
BAD_MBARRIER = Code(
    "bad_mbarrier",
    "an mbarrier is not initialised, is overwritten, or is not in shared memory at a multiple of 8 bytes.",
    next_step="Look for the mbarrier.init of one thread and the barrier after it.",
)
MBARRIER_ARRIVALS = Code("mbarrier_arrivals", "more threads arrive at an mbarrier than it was initialised for.")
NO_PROXY_FENCE = Code(
    "no_proxy_fence",
    "the tensor core or the copy engine reads what a thread wrote without a fence between them.",
    causes="__syncthreads(), wgmma.fence and fence.mbarrier_init do not order stores and these engines.",
    next_step="Put fence.proxy.async after the write and before the barrier, in every thread that writes.",
)
BAD_TENSOR_MAP = Code("bad_tensor_map", "a bulk copy gets no valid tensor map for what it copies.")
BULK_SOURCE_OVERWRITTEN = Code(
    "bulk_source_overwritten",
    "shared memory is overwritten while a bulk copy reads it.",
    next_step="Put cp.async.bulk.wait_group.read, in the thread that copies, and a barrier before the buffer is filled again.",
)
BULK_STORE_NOT_AWAITED = Code(
    "bulk_store_not_awaited",
    "a thread ends before the bulk copy that it began has read shared memory.",
    next_step="Put cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0 before the thread's end.",
)
CLUSTER_BARRIER = Code("cluster_barrier", "a thread arrives twice at the cluster's barrier, or waits without arriving.")
CLUSTER_RANK = Code("cluster_rank", "the kernel names a block that its cluster does not have.")
CLUSTER_NOT_STARTED = Code(
    "cluster_not_started",
    "the kernel accesses shared memory of another block that may not have started.",
    next_step="Put cluster.sync() before the first access.",
)
CLUSTER_EXITED = Code(
    "cluster_exited",
    "the kernel accesses shared memory of another block that may have ended.",
    next_step="Put cluster.sync() after the last access.",
)
COPY_NOT_AWAITED = Code(
    "copy_not_awaited",
    "shared memory is read before an asynchronous copy to it ended.",
    next_step="Count the groups that cp.async.wait_group leaves. Look at the mbarrier's phase, and for the barrier after the wait.",
)
COPY_SIZE = Code("copy_size", "an asynchronous copy takes more bytes from its source than it copies.")
WGMMA_NOT_FENCED = Code("wgmma_not_fenced", "registers of a wgmma were written, and no wgmma.fence follows before it.")
WGMMA_NOT_AWAITED = Code("wgmma_not_awaited", "the warp ends before a wgmma that it began.")
WGMMA_REGISTER_IN_USE = Code(
    "wgmma_register_in_use",
    "a register is used while a wgmma works on it.",
    next_step="Put wgmma.wait_group before the line.",
)
WGMMA_OPERAND_OVERWRITTEN = Code(
    "wgmma_operand_overwritten",
    "shared memory is overwritten while a wgmma reads it.",
    next_step="Put wgmma.wait_group before the buffer is given back.",
)
WGMMA_DESCRIPTOR = Code(
    "wgmma_descriptor",
    "the descriptor of a wgmma does not fit the matrix that it names.",
    next_step="Align the matrix to where its swizzle repeats: 1024 bytes for a swizzle of 128.",
)
BAD_COPY = Code("bad_copy", "the launcher copies or sets memory outside of an allocation.")
BAD_FREE = Code("bad_free", "memory is freed that was not allocated, or is freed twice.")
STREAM_ORDER = Code(
    "stream_order",
    "other streams, or the host, do not wait for what they need.",
    next_step="Launch on the stream that the launcher gets, or let it wait for an event. The host synchronises before it reads.",
)
LEAK = Code("leak", "each call of the launcher allocates memory that nobody frees.")
TRAP = Code("trap", "the kernel ended itself by a trap.")
ASSERTION = Code("assertion", "an assert() in the kernel failed.")
PRINTF_FLOOD = Code("printf_flood", "the kernel prints more lines than anyone reads.")
TIME_LIMIT = Code(
    "time_limit", "the kernel did not end within the time limit.", next_step="Look for a loop whose condition nobody changes."
)

FAULTS = {code.reason: code for code in codes_in(globals()).values()}


def faults_of(gate: str) -> dict[str, Code]:
    """The codes of all faults as ``gate`` gives them, by the fault's name."""
    return {name: code.of(gate) for name, code in FAULTS.items()}
