// A stand-in for the emulator's runtime in plain C++, for launchers whose "kernels" are loops over memory of the host.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static int launches = 0;
static int64_t order = 0;  // as gates.emulator.control gives it: 0, 1 + 3 seed, 2 + 3 seed
static const char* findings = "[]";

extern "C" const char* gates_cpu_launches(void) {
  return launches ? "[{\"kernel\": \"_Z5saxpyPf\", \"grid\": [1, 1, 1], \"block\": [128, 1, 1], \"dynamic_smem_bytes\": 0, "
                    "\"static_smem_bytes\": 0, \"opt_in_smem_bytes\": 0, \"max_threads\": 0, \"error\": \"\", \"warp_instructions\": 1}]"
                  : "[]";
}
extern "C" const char* gates_cpu_findings(void) { return findings; }
extern "C" const char* gates_cpu_allocations(void) { return "[]"; }
extern "C" uint64_t gates_cpu_launches_left_out(void) { return 0; }
extern "C" void gates_cpu_reset(void) { launches = 0; findings = "[]"; }
extern "C" void gates_cpu_begin_call(void*, const uint64_t*, uint64_t) {}
extern "C" void gates_cpu_end_call(void) {}
extern "C" int gates_cpu_configure(const char* key, int64_t value) {
  if (std::strcmp(key, "seed") == 0) order = value % 3;
  return 0;
}
extern "C" int cudaMalloc(void** made, size_t bytes) { return (*made = std::malloc(bytes)) == nullptr; }
extern "C" int cudaFree(void* memory) { std::free(memory); return 0; }
extern "C" int cudaMemcpy(void* to, const void* from, size_t bytes, int) { std::memcpy(to, from, bytes); return 0; }
extern "C" int cudaDeviceSynchronize(void) { return 0; }
extern "C" int cudaStreamCreate(void** stream) { return *stream = stream, 0; }
extern "C" const char* cudaGetErrorString(int) { return "an error"; }
