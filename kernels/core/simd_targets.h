// Which instruction sets the _simd.cpp files are compiled for. Each includes this before Highway.
#pragma once

// AVX-512 of Ice Lake and later as a target of its own.
#define HWY_WANT_AVX3_DL
// Every x86-64 machine that matters has AVX2; below it the scalar target runs plain loops. SVE's
// vectors have no size the compiler knows, so they cannot be array elements; NEON serves the same
// machines.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

// Before a loop over an array of vectors with a constant number of turns: only when it is fully
// unrolled do the vectors stay in registers, which -O2 alone does not promise.
#if defined(__clang__)
#define YOKE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define YOKE_UNROLL _Pragma("GCC unroll 32")
#endif
