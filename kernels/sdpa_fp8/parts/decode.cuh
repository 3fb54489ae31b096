// E4M3 bytes to the elements that a product takes: half for tensor cores, float for FMA.
// Each element is converted once per tile, not once per use.
#pragma once

#include <cstring>

#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace sdpa {

// Two E4M3 bytes to two halves, exactly (every E4M3 value is a half); one instruction on sm_89 and newer.
__device__ __forceinline__ __half2_raw decode_pair(unsigned bytes) {
    return __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes & 0xffffu), __NV_E4M3);
}

// Four E4M3 bytes to four halves, as two registers.
__device__ __forceinline__ uint2 decode_halves(unsigned word) {
    const __half2_raw low = decode_pair(word), high = decode_pair(word >> 16);
    uint2 bits;
    std::memcpy(&bits.x, &low, sizeof bits.x);
    std::memcpy(&bits.y, &high, sizeof bits.y);
    return bits;
}

// 16 bytes to 16 elements at `destination`, which is 16-byte aligned; stores are 16 bytes wide.
__device__ __forceinline__ void store_decoded(uint4 bytes, __half* destination) {
    const uint2 a = decode_halves(bytes.x), b = decode_halves(bytes.y);
    const uint2 c = decode_halves(bytes.z), d = decode_halves(bytes.w);
    reinterpret_cast<uint4*>(destination)[0] = make_uint4(a.x, a.y, b.x, b.y);
    reinterpret_cast<uint4*>(destination)[1] = make_uint4(c.x, c.y, d.x, d.y);
}

__device__ __forceinline__ float4 decode_floats(unsigned word) {
    const float2 low = __half22float2(__half2(decode_pair(word)));
    const float2 high = __half22float2(__half2(decode_pair(word >> 16)));
    return make_float4(low.x, low.y, high.x, high.y);
}

__device__ __forceinline__ void store_decoded(uint4 bytes, float* destination) {
    float4* quads = reinterpret_cast<float4*>(destination);
    quads[0] = decode_floats(bytes.x);
    quads[1] = decode_floats(bytes.y);
    quads[2] = decode_floats(bytes.z);
    quads[3] = decode_floats(bytes.w);
}

}  // namespace sdpa
