// Conversions, one element a thread, and device functions: the kernels of test_emulator_numbers.py.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cmath>

#define LAUNCH extern "C" int

__device__ int place() { return blockIdx.x * blockDim.x + threadIdx.x; }

__global__ void decode(float* e4m3, float* e5m2) {
    const auto code = static_cast<__nv_fp8_storage_t>(threadIdx.x);
    e4m3[code] = __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
    __nv_fp8_e5m2 value;
    value.__x = code;
    e5m2[code] = static_cast<float>(value);
}
__global__ void decode_pairs(const unsigned short* in, float2* out) {
    out[place()] = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(in[place()], __NV_E4M3)));
}
__global__ void encode(const float* in, unsigned char* e4m3, unsigned char* e5m2, unsigned char* e4m3_unsaturated, int n) {
    if (place() >= n) return;
    e4m3[place()] = __nv_fp8_e4m3(in[place()]).__x;
    e5m2[place()] = __nv_cvt_float_to_fp8(in[place()], __NV_NOSAT, __NV_E5M2);
    e4m3_unsaturated[place()] = __nv_cvt_float_to_fp8(in[place()], __NV_NOSAT, __NV_E4M3);
}
__global__ void round_half(const float* in, half* nearest, half* to_zero, half* up, __nv_bfloat16* brain, int n) {
    if (place() >= n) return;
    nearest[place()] = __float2half(in[place()]);
    to_zero[place()] = __float2half_rz(in[place()]);
    up[place()] = __float2half_ru(in[place()]);
    brain[place()] = __float2bfloat16(in[place()]);
}
__global__ void half_arithmetic(const half* a, const half* b, half* out, int n) {
    const int i = place();
    if (i >= n) return;
    out[i] = a[i] + b[i];
    out[n + i] = a[i] * b[i];
    out[2 * n + i] = a[i] / b[i];
    out[3 * n + i] = __hfma(a[i], b[i], a[i]);
    const half2 pair = __hsub2(__halves2half2(a[i], b[i]), __half2half2(b[i]));
    out[4 * n + i] = __low2half(pair);
}
__global__ void functions(float* out) {
    int i = 0;
    out[i++] = __expf(1.0f);
    out[i++] = exp2f(3.0f);
    out[i++] = __fdividef(1.0f, 4.0f);
    out[i++] = rsqrtf(16.0f);
    out[i++] = __fmul_rn(3.0f, 0.5f);
    out[i++] = fmaxf(NAN, 2.0f);
    out[i++] = max(3, 5u) + min(2.0f, 1.0f);
    out[i++] = __float2int_rn(2.5f) * 10 + __float2int_rz(-2.7f);
    out[i++] = __float2int_rn(NAN) + (__float2int_rn(1e20f) == 2147483647);
    out[i++] = __uint_as_float(0x40490fdbu);
    out[i++] = __popc(0xf0f0u) * 100 + __clz(1) + __ffs(8);
    out[i++] = __brev(1u) == 0x80000000u && __byte_perm(0x33221100u, 0x77665544u, 0x7520u) == 0x77552200u;
    out[i++] = __ldg(out) == out[0] && __saturatef(-1.0f) == 0.0f && __dp4a(0x01020304, 0x01010101, 5) == 15;
    out[i++] = std::isnan(sqrtf(-1.0f)) && isinf(INFINITY) && fabsf(-2.0f) == 2.0f;
    const uint4 vector = make_uint4(1, 2, 3, 4);
    out[i++] = vector.x + vector.w + sizeof(int4) + alignof(float2) + warpSize;
}

LAUNCH run_decode(float* e4m3, float* e5m2) { decode<<<1, 256>>>(e4m3, e5m2); return cudaGetLastError(); }
LAUNCH run_decode_pairs(const unsigned short* in, float2* out) { decode_pairs<<<64, 1024>>>(in, out); return cudaGetLastError(); }
LAUNCH run_encode(const float* in, unsigned char* a, unsigned char* b, unsigned char* c, int n) {
    encode<<<(n + 255) / 256, 256>>>(in, a, b, c, n);
    return cudaGetLastError();
}
LAUNCH run_round_half(const float* in, half* nearest, half* to_zero, half* up, __nv_bfloat16* brain, int n) {
    round_half<<<(n + 255) / 256, 256>>>(in, nearest, to_zero, up, brain, n);
    return cudaGetLastError();
}
LAUNCH run_half_arithmetic(const half* a, const half* b, half* out, int n) {
    half_arithmetic<<<(n + 255) / 256, 256>>>(a, b, out, n);
    return cudaGetLastError();
}
LAUNCH run_functions(float* out) { functions<<<1, 1>>>(out); return cudaGetLastError(); }
