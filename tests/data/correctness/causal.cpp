// Causal attention in plain C++ with the C ABI of emulator libraries: q [Sq, 64], k and v [Sk, 64], out [Sq, 64] in float.
// An honest launcher, and one for each way to get the mask wrong.
#include <cmath>
#include <cstdint>

#include "../fake_device.h"

// Query i sees the keys 0 to i + shift; `leaks`: keys that it does not see count with a weight of 0, and 0 times NaN is NaN.
static int attend(const float* q, const float* k, const float* v, float* out, int64_t queries, int64_t keys, int64_t shift, bool leaks) {
  ++launches;
  for (int64_t i = 0; i < queries; ++i) {
    double sum = 0, row[64] = {};
    for (int64_t j = 0; j < keys; ++j) {
      const bool seen = j <= i + shift;
      if (!seen && !leaks) continue;
      double score = 0;
      for (int d = 0; d < 64; ++d) score += double(q[i * 64 + d]) * k[j * 64 + d];
      const double weight = seen ? std::exp(score / 8) : 0.0;
      sum += weight;
      for (int d = 0; d < 64; ++d) row[d] += weight * v[j * 64 + d];
    }
    for (int d = 0; d < 64; ++d) out[i * 64 + d] = float(sum > 0 ? row[d] / sum : 0);
  }
  return 0;
}

#define ENTRY(name, shift, leaks)                                                                                       \
  extern "C" int name(float* q, float* k, float* v, float* out, int64_t queries, int64_t keys, void*, char*, int64_t) { \
    return attend(q, k, v, out, queries, keys, shift, leaks);                                                           \
  }
ENTRY(top_left, 0, false)
ENTRY(bottom_right, keys - queries, false)
ENTRY(leaking, 0, true)
