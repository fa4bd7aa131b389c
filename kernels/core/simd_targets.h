// Which instruction sets the _simd.cpp files are compiled for. Each includes this before Highway.
#pragma once

// AVX-512 of Ice Lake and later as a target of its own.
#define HWY_WANT_AVX3_DL
// Every x86-64 machine that matters has AVX2; below it the scalar target runs plain loops. SVE's
// vectors have no size the compiler knows, so they cannot be array elements; NEON serves the same
// machines.
// Sanitizer builds define YOKE_NO_AVX512: instrumented vector code takes minutes to compile per
// target, and the targets share their source.
#ifdef YOKE_NO_AVX512
#define YOKE_LEFT_OUT_TARGETS (HWY_AVX3 | HWY_AVX3_DL)
#else
#define YOKE_LEFT_OUT_TARGETS 0
#endif
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | YOKE_LEFT_OUT_TARGETS)
