// Sums of O and l of a consumer warpgroup over more keys than tensor cores sum up well.
#pragma once

#include "../../cuda/named_barrier.cuh"
#include "../../cuda/tma.cuh"
#include "../../sdpa/warpgroup_softmax.cuh"

namespace sdpa {

// l is the last block of o_. What was added up lies in shared memory, where O leaves, too.
template <typename T, bool kCausal>
class LongSums : public WarpgroupSoftmax<T, kCausal> {
    using Softmax = WarpgroupSoftmax<T, kCausal>;

protected:
    using Softmax::factor_, Softmax::o_;

    // `barrier`: a named barrier of this warpgroup.
    __device__ __forceinline__ LongSums(typename T::Output& kept, int barrier, int keys) : Softmax(0.0f, false, keys), kept_(kept), barrier_(barrier) {}

    // The rows of an item begin: nothing is in o_, nor in shared memory.
    __device__ __forceinline__ void begin_sums() {
        output_is_new_ = true;
        sums_there_ = false;
    }

    // Four of this thread's sums of O, or of l, that were added up before.
    __device__ __forceinline__ float4& sums(int block) { return kept_.sums[block][threadIdx.x % kWarpgroup]; }

    // Adds O and l to what they were before.
    __device__ __forceinline__ void add_sums() {
#pragma unroll
        for (int i = 0; i < T::kOutputColumns / 8; ++i) {
            const float4 four = sums(i);
            o_[4 * i] += four.x;
            o_[4 * i + 1] += four.y;
            o_[4 * i + 2] += four.z;
            o_[4 * i + 3] += four.w;
        }
    }

    // Keeps O and l, and begins new ones.
    __device__ __forceinline__ void add_up() {
        if (!sums_there_) {
            if (threadIdx.x % kWarpgroup == 0) tma::wait_stores_read();
            __syncwarp();
            named_barrier::sync(barrier_, kWarpgroup);  // the item before has left the strip
        } else {
            add_sums();
        }
#pragma unroll
        for (int i = 0; i < T::kOutputColumns / 8; ++i) sums(i) = make_float4(o_[4 * i], o_[4 * i + 1], o_[4 * i + 2], o_[4 * i + 3]);
        output_is_new_ = true;
        sums_there_ = true;
    }

    // Of O and l, with what was added up before if it is there.
    __device__ __forceinline__ void rescale() {
        this->rescale_output();
        if (!sums_there_) return;
#pragma unroll
        for (int i = 0; i < T::kOutputColumns / 8; ++i) {
            const float4 four = sums(i);
            sums(i) = make_float4(four.x * factor_[0], four.y * factor_[0], four.z * factor_[1], four.w * factor_[1]);
        }
    }

    typename T::Output& kept_;
    bool output_is_new_, sums_there_;  // nothing is in o_; something is in shared memory

private:
    int barrier_;
};

}  // namespace sdpa
