// What __half and __nv_bfloat16 have alike. Included once for each, with macros that say what it is about: GATES_EMULATOR_SCALAR,
// its _RAW form, _PAIR and the bits of _INFINITY. All is done in float, which has more than twice the digits of either: a sum, product,
// quotient or root that is rounded to float and then again is as if it had been rounded once, subnormal numbers included.
#pragma GCC system_header

#define GATES_EMULATOR_OPERATOR(op, name, name2)                                                                                          \
    inline GATES_EMULATOR_SCALAR name(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) { return float(a) op float(b); }                  \
    inline GATES_EMULATOR_SCALAR operator op(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) { return name(a, b); }                     \
    inline GATES_EMULATOR_SCALAR& operator op##=(GATES_EMULATOR_SCALAR& a, GATES_EMULATOR_SCALAR b) { return a = name(a, b); }            \
    inline GATES_EMULATOR_PAIR name2(GATES_EMULATOR_PAIR a, GATES_EMULATOR_PAIR b) { return {name(a.x, b.x), name(a.y, b.y)}; }           \
    inline GATES_EMULATOR_PAIR operator op(GATES_EMULATOR_PAIR a, GATES_EMULATOR_PAIR b) { return name2(a, b); }                          \
    inline GATES_EMULATOR_PAIR& operator op##=(GATES_EMULATOR_PAIR& a, GATES_EMULATOR_PAIR b) { return a = name2(a, b); }
GATES_EMULATOR_OPERATOR(+, __hadd, __hadd2)
GATES_EMULATOR_OPERATOR(-, __hsub, __hsub2)
GATES_EMULATOR_OPERATOR(*, __hmul, __hmul2)
GATES_EMULATOR_OPERATOR(/, __hdiv, __h2div)
#undef GATES_EMULATOR_OPERATOR
inline GATES_EMULATOR_SCALAR __hadd_rn(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) { return __hadd(a, b); }
inline GATES_EMULATOR_SCALAR __hsub_rn(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) { return __hsub(a, b); }
inline GATES_EMULATOR_SCALAR __hmul_rn(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) { return __hmul(a, b); }
inline GATES_EMULATOR_SCALAR __hneg(GATES_EMULATOR_SCALAR a) { return GATES_EMULATOR_SCALAR_RAW{static_cast<unsigned short>(a.__x ^ 0x8000)}; }
inline GATES_EMULATOR_SCALAR __habs(GATES_EMULATOR_SCALAR a) { return GATES_EMULATOR_SCALAR_RAW{static_cast<unsigned short>(a.__x & 0x7fff)}; }
inline GATES_EMULATOR_SCALAR operator-(GATES_EMULATOR_SCALAR a) { return __hneg(a); }
inline GATES_EMULATOR_SCALAR operator+(GATES_EMULATOR_SCALAR a) { return a; }
inline bool __hisnan(GATES_EMULATOR_SCALAR a) { return (a.__x & 0x7fff) > GATES_EMULATOR_INFINITY; }
inline int __hisinf(GATES_EMULATOR_SCALAR a) { return (a.__x & 0x7fff) == GATES_EMULATOR_INFINITY ? (a.__x >> 15 ? -1 : 1) : 0; }
// The number wins over a NaN, and +0 is larger than -0.
inline GATES_EMULATOR_SCALAR __hmax(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) {
    if (__hisnan(a) || __hisnan(b)) return !__hisnan(a) ? a : !__hisnan(b) ? b : GATES_EMULATOR_SCALAR(GATES_EMULATOR_SCALAR_RAW{0x7fff});
    return float(a) > float(b) || (float(a) == float(b) && !(a.__x >> 15)) ? a : b;
}
inline GATES_EMULATOR_SCALAR __hmin(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) {
    if (__hisnan(a) || __hisnan(b)) return !__hisnan(a) ? a : !__hisnan(b) ? b : GATES_EMULATOR_SCALAR(GATES_EMULATOR_SCALAR_RAW{0x7fff});
    return float(a) < float(b) || (float(a) == float(b) && a.__x >> 15) ? a : b;
}
#define GATES_EMULATOR_COMPARE(op, name)                                                                                \
    inline bool name(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) { return float(a) op float(b); }                 \
    inline bool operator op(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) { return name(a, b); }
GATES_EMULATOR_COMPARE(==, __heq)
GATES_EMULATOR_COMPARE(!=, __hneu)
GATES_EMULATOR_COMPARE(<, __hlt)
GATES_EMULATOR_COMPARE(<=, __hle)
GATES_EMULATOR_COMPARE(>, __hgt)
GATES_EMULATOR_COMPARE(>=, __hge)
#undef GATES_EMULATOR_COMPARE
inline bool __hne(GATES_EMULATOR_SCALAR a, GATES_EMULATOR_SCALAR b) { return !__hisnan(a) && !__hisnan(b) && __hneu(a, b); }  // false for a NaN

inline GATES_EMULATOR_PAIR __hmax2(GATES_EMULATOR_PAIR a, GATES_EMULATOR_PAIR b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
inline GATES_EMULATOR_PAIR __hmin2(GATES_EMULATOR_PAIR a, GATES_EMULATOR_PAIR b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
inline GATES_EMULATOR_PAIR __hneg2(GATES_EMULATOR_PAIR a) { return {__hneg(a.x), __hneg(a.y)}; }
inline GATES_EMULATOR_PAIR __habs2(GATES_EMULATOR_PAIR a) { return {__habs(a.x), __habs(a.y)}; }
inline GATES_EMULATOR_PAIR operator-(GATES_EMULATOR_PAIR a) { return __hneg2(a); }
inline GATES_EMULATOR_PAIR __hfma2(GATES_EMULATOR_PAIR a, GATES_EMULATOR_PAIR b, GATES_EMULATOR_PAIR c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline float __low2float(GATES_EMULATOR_PAIR v) { return float(v.x); }
inline float __high2float(GATES_EMULATOR_PAIR v) { return float(v.y); }
inline GATES_EMULATOR_PAIR __lowhigh2highlow(GATES_EMULATOR_PAIR v) { return {v.y, v.x}; }

#define GATES_EMULATOR_MATH(name, name2, function)                                                       \
    inline GATES_EMULATOR_SCALAR name(GATES_EMULATOR_SCALAR a) { return function(float(a)); }            \
    inline GATES_EMULATOR_PAIR name2(GATES_EMULATOR_PAIR a) { return {name(a.x), name(a.y)}; }
GATES_EMULATOR_MATH(hexp, h2exp, expf)
GATES_EMULATOR_MATH(hexp2, h2exp2, exp2f)
GATES_EMULATOR_MATH(hlog, h2log, logf)
GATES_EMULATOR_MATH(hlog2, h2log2, log2f)
GATES_EMULATOR_MATH(hsqrt, h2sqrt, sqrtf)
GATES_EMULATOR_MATH(hrsqrt, h2rsqrt, rsqrtf)
GATES_EMULATOR_MATH(hrcp, h2rcp, 1.0f /)
GATES_EMULATOR_MATH(htanh, h2tanh, tanhf)
GATES_EMULATOR_MATH(hfloor, h2floor, floorf)
GATES_EMULATOR_MATH(hceil, h2ceil, ceilf)
GATES_EMULATOR_MATH(hrint, h2rint, nearbyintf)
#undef GATES_EMULATOR_MATH

#undef GATES_EMULATOR_SCALAR
#undef GATES_EMULATOR_SCALAR_RAW
#undef GATES_EMULATOR_PAIR
#undef GATES_EMULATOR_INFINITY
