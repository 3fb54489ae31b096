// A launcher on the host with the kernels' C ABI: y[i] = 2 x[i]. FAULT plants a defect.
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

static int64_t calls = 0;

extern "C" int scale(const float* x, float* y, int64_t count, void*, char* error, int64_t error_bytes) {
    ++calls;
#if FAULT == 3
    std::snprintf(error, error_bytes, "x: misaligned");
    return 7;
#endif
    if (FAULT == 4) return 0;  // the work is done elsewhere: nothing is written
    if (FAULT == 5) count /= 2;  // the other half is still under way when the launch is over
#if FAULT == 6
    static std::map<const float*, std::vector<float>> stored;  // the answer that was right for this buffer once
    std::vector<float>& answer = stored[x];
    if (answer.empty()) for (int64_t i = 0; i < count; ++i) answer.push_back(2.0f * x[i]);
    for (int64_t i = 0; i < count; ++i) y[i] = answer[i];
    return 0;
#endif
    for (int64_t i = 0; i < count; ++i) y[i] = 2.0f * x[i];
    if (FAULT == 1 && calls > 11) y[0] += 1.0f;  // right at first, wrong later
    if (FAULT == 2) y[count - 1] = 0.0f / 0.0f;
    return 0;
}
