// bfloat16 arithmetic, each result beside the others: see tests/test_emulator_numbers.py.
#include <cuda_bf16.h>

#define LAUNCH extern "C" int

__global__ void arithmetic(const nv_bfloat16* a, const nv_bfloat16* b, const nv_bfloat16* c, nv_bfloat16* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = a[i] + b[i];
    out[n + i] = a[i] - b[i];
    out[2 * n + i] = a[i] * b[i];
    out[3 * n + i] = a[i] / b[i];
    out[4 * n + i] = __hfma(a[i], b[i], c[i]);
    const nv_bfloat162 x = __halves2bfloat162(a[i], b[i]), y = __lowhigh2highlow(x);
    out[5 * n + i] = __low2bfloat16(__hfma2(x, y, __float2bfloat162_rn(0.0f) - __bfloat162bfloat162(c[i])));
    out[6 * n + i] = __high2bfloat16(__hmul2(y, x) + __hsub2(x, x));
    out[7 * n + i] = __hmax(a[i], b[i]);
    out[8 * n + i] = __hmin(a[i], b[i]);
    out[9 * n + i] = hsqrt(a[i]);
    out[10 * n + i] = hrcp(a[i]);
    out[11 * n + i] = hexp(a[i]);
    out[12 * n + i] = hlog(a[i]);
    out[13 * n + i] = __habs(__hneg(a[i]));
    out[14 * n + i] = nv_bfloat16(float(a[i] < b[i]) + 2 * float(__hneu(a[i], b[i])) + 4 * float(__hisnan(a[i])));
    out[15 * n + i] = __low2float(-x);
}
__global__ void conversions(const double* in, nv_bfloat16* nearest, nv_bfloat16* to_zero, nv_bfloat16* down, nv_bfloat16* up, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    nearest[i] = in[i];
    to_zero[i] = __float2bfloat16_rz(in[i]);
    down[i] = __float2bfloat16_rd(in[i]);
    up[i] = __float2bfloat16_ru(in[i]);
}
LAUNCH run_arithmetic(const nv_bfloat16* a, const nv_bfloat16* b, const nv_bfloat16* c, nv_bfloat16* out, int n) {
    arithmetic<<<(n + 255) / 256, 256>>>(a, b, c, out, n);
    return cudaGetLastError();
}
LAUNCH run_conversions(const double* in, nv_bfloat16* nearest, nv_bfloat16* to_zero, nv_bfloat16* down, nv_bfloat16* up, int n) {
    conversions<<<(n + 255) / 256, 256>>>(in, nearest, to_zero, down, up, n);
    return cudaGetLastError();
}
