// Vector types, dim3 and the CUDA function qualifiers, as g++ is to see them.
#pragma once
#pragma GCC system_header

// What nvcc's own headers include for the host, and no more: a name that a kernel has from here alone, nvcc would not know.
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>  // u_int64_t and its kin
#include <time.h>

#include <type_traits>
#include <utility>

// __global__, __shared__, __launch_bounds__, __forceinline__ and __noinline__ are left to gates/emulator/translate.py.
#define __host__
#define __device__
#define __constant__
#define __managed__
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))

// Default arguments that tell a function where it was called.
#define GATES_EMULATOR_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

#define GATES_EMULATOR_VECTOR(T, name, bytes2, bytes4)                                  \
    struct name##1 { T x; };                                                            \
    struct __attribute__((aligned(bytes2))) name##2 { T x, y; };                        \
    struct name##3 { T x, y, z; };                                                      \
    struct __attribute__((aligned(bytes4))) name##4 { T x, y, z, w; };                  \
    constexpr name##1 make_##name##1(T x) { return {x}; }                               \
    constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                       \
    constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }               \
    constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

// Alignments of CUDA's vector types (CUDA C++ Programming Guide, "Built-in Vector Types").
GATES_EMULATOR_VECTOR(signed char, char, 2, 4)
GATES_EMULATOR_VECTOR(unsigned char, uchar, 2, 4)
GATES_EMULATOR_VECTOR(short, short, 4, 8)
GATES_EMULATOR_VECTOR(unsigned short, ushort, 4, 8)
GATES_EMULATOR_VECTOR(int, int, 8, 16)
GATES_EMULATOR_VECTOR(unsigned int, uint, 8, 16)
GATES_EMULATOR_VECTOR(long, long, 16, 16)
GATES_EMULATOR_VECTOR(unsigned long, ulong, 16, 16)
GATES_EMULATOR_VECTOR(long long, longlong, 16, 16)
GATES_EMULATOR_VECTOR(unsigned long long, ulonglong, 16, 16)
GATES_EMULATOR_VECTOR(float, float, 8, 16)
GATES_EMULATOR_VECTOR(double, double, 16, 16)
#undef GATES_EMULATOR_VECTOR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
