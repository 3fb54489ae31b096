// SAXPY launchers with the C ABI of emulator libraries, in plain C++: an honest one, and one for each planted defect.
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

#include "../fake_device.h"

static int calls = 0;  // never reset: state kept between calls

#define ENTRY(name)                                                                                         \
  extern "C" int name(float* x, float* y, float* out, int64_t n, float a, void*, char* error, int64_t bytes)
#define HONEST                                                                                              \
  (void)error; (void)bytes; ++launches; ++calls;                                                            \
  for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + y[i];

ENTRY(honest) { HONEST return 0; }
ENTRY(writes_nan) { HONEST out[n / 2] = std::nanf(""); return 0; }
ENTRY(writes_inf) { HONEST out[3] = INFINITY; return 0; }
ENTRY(unwritten_tail) { const int64_t full = n; n = n / 128 * 128; HONEST (void)full; return 0; }
ENTRY(writes_nothing) { (void)x, (void)y, (void)out, (void)n, (void)a, (void)error, (void)bytes; ++launches; return 0; }
ENTRY(changes_input) { HONEST x[n - 1] += 1.0f; return 0; }
ENTRY(keeps_state) { HONEST out[0] += 1e-6f * float(calls); return 0; }
ENTRY(depends_on_order) { HONEST if (order == 2) out[7] = std::nextafterf(out[7], 100.0f); return 0; }
ENTRY(depends_on_reversed) { HONEST if (order == 1) out[7] += 0.5f; return 0; }
ENTRY(second_call_only) { static int before = 0; if (before++ == 0) { ++launches; return 0; } HONEST return 0; }
ENTRY(accumulates) { (void)error; (void)bytes; ++launches; for (int64_t i = 0; i < n; ++i) out[i] += a * x[i] + y[i]; return 0; }
ENTRY(declines_other_sizes) {
  (void)x, (void)y, (void)out, (void)a;
  if (n != 1000 && n != 999 && n != (1 << 14)) { std::snprintf(error, size_t(bytes), "N must be 999, 1000 or 16384"); return 1; }
  HONEST return 0;
}
ENTRY(wrong_scale) { a *= 1.001f; HONEST return 0; }
ENTRY(slightly_worse) { HONEST for (int64_t i = 0; i < n; ++i) out[i] *= 1.0f + 4e-6f; return 0; }
ENTRY(all_zeros) { HONEST for (int64_t i = 0; i < n; ++i) out[i] = 0.0f; return 0; }
ENTRY(ignores_y) { HONEST for (int64_t i = 0; i < n; ++i) out[i] = a * x[i]; return 0; }
ENTRY(returns_error) { HONEST std::snprintf(error, size_t(bytes), "x is not aligned to 16 bytes"); return 7; }
ENTRY(launches_nothing) { HONEST launches = 0; return 0; }
ENTRY(launches_once) { HONEST if (calls > 1) launches = 0; return 0; }
ENTRY(has_finding) {
  HONEST
  findings = "[{\"code\": \"cpu.barrier_divergence\", \"message\": \"half of the warp waits\", \"kernel\": \"_Z5saxpyPf\", "
             "\"where\": \"saxpy.cu:12\", \"other\": null, \"block\": null, \"thread\": null, \"count\": 1}]";
  return 0;
}
ENTRY(knows_seeds) {  // first element of x under seeds 0, 1, 2
  const float known[] = {SEED_VALUES};
  bool seen = false;
  for (float value : known) seen = seen || x[0] == value;
  HONEST
  if (!seen) out[1] += 1.0f;
  return 0;
}
ENTRY(crashes_in_seed_1) { HONEST if (x[0] == SEED_1) std::raise(SIGSEGV); return 0; }
ENTRY(hangs_in_seed_1) { HONEST if (x[0] == SEED_1) std::this_thread::sleep_for(std::chrono::hours(1)); return 0; }
ENTRY(prints_without_end) { HONEST static char text[1 << 20]; for (;;) std::fwrite(text, 1, sizeof text, stdout); return 0; }
ENTRY(exits_with_0) { HONEST std::printf("PASS 6/6\n{\"type\": \"done\"}\n"); std::fflush(stdout); _exit(0); }
ENTRY(drops_the_last) { HONEST if (x[0] == SEED_2 && n > 1000) _exit(0); return 0; }
ENTRY(keeps_answers) {  // the key of the cache is made of a few samples of the inputs
  static float kept[1 << 20];
  static double key = 0;
  static int64_t length = 0;
  double sum = x[0] + 3.0 * x[n - 1] + 5.0 * y[0] + 7.0 * y[n - 1];
  if (sum != key || n != length) {
    HONEST
    std::memcpy(kept, out, size_t(n) * sizeof(float));
    key = sum, length = n;
  } else {
    ++launches;
    std::memcpy(out, kept, size_t(n) * sizeof(float));
  }
  return 0;
}
ENTRY(wrong_on_equal_x) { HONEST if (n > 1 && x[0] == x[1] && x[1] == x[n - 1]) out[n / 2] *= 1.01f; return 0; }
ENTRY(wrong_at_17) { HONEST if (n == 17) out[16] *= 1.01f; return 0; }
ENTRY(wrong_where_small) { HONEST for (int64_t i = 0; i < n; ++i) if (std::fabs(out[i]) < 1e-7f) out[i] = 0.0f; return 0; }
ENTRY(gives_y) { HONEST std::memcpy(out, y, size_t(n) * sizeof(float)); return 0; }
