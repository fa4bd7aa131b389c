// Intrinsics, because Highway 1.0.3 has no BF16 dot. Everything below the pragma is compiled for
// AVX-512-BF16 and must run only behind uses_bf16_dot().
#include <algorithm>

#include "config/check.h"
#include "kernels/core/cpu.h"
#include "kernels/linear/bf16_dot.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define YOKE_BF16_UNROLL _Pragma("GCC unroll 32")
#if defined(__clang__)
#undef YOKE_BF16_UNROLL
#define YOKE_BF16_UNROLL _Pragma("clang loop unroll(full)")
#pragma clang attribute push(                                                     \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")
#endif

#include "kernels/linear/bf16_dot-inl.h"

namespace yoke::kernels {
namespace {

struct Avx512Bf16 {
  using Bits = __m512bh;
  using Sums = __m512;

  static Sums zero() { return _mm512_setzero_ps(); }
  static Bits load(const bf16* p) { return as_bf16(_mm512_loadu_si512(p)); }
  static Bits load_first(const bf16* p, int64_t count) {
    const auto mask = static_cast<__mmask32>((uint64_t{1} << count) - 1);
    return as_bf16(_mm512_maskz_loadu_epi16(mask, p));
  }
  static Sums dot(Sums sums, Bits a, Bits b) { return _mm512_dpbf16_ps(sums, a, b); }
  static float sum(Sums s) {
    // The forms with a mask: g++ 12 warns of the undefined source inside the others.
    const __m256 eight = _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xFF, s, 0),
                                       _mm512_maskz_extractf32x8_ps(0xFF, s, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }

 private:
  static Bits as_bf16(__m512i bits) {
    Bits b;
    static_assert(sizeof b == sizeof bits);
    __builtin_memcpy(&b, &bits, sizeof b);
    return b;
  }
};

void multiply(const DenseProduct& p, int64_t rows, int64_t out_begin, int64_t out_end) {
  Bf16Dot<Avx512Bf16>::multiply(p, rows, out_begin, out_end);
}

}  // namespace
}  // namespace yoke::kernels

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace yoke::kernels {

bool uses_bf16_dot(const DenseProduct& p) noexcept {
  return p.x.dtype == DType::bf16 && p.w.dtype == DType::bf16 &&
         simd_target() == SimdTarget::avx512_bf16;
}

void bf16_dot_product(const DenseProduct& p, int64_t rows, int64_t out_begin,
                      int64_t out_end) noexcept {
  multiply(p, rows, out_begin, out_end);
}

}  // namespace yoke::kernels

#else  // not x86-64

namespace yoke::kernels {

bool uses_bf16_dot(const DenseProduct&) noexcept {
  return false;
}

void bf16_dot_product(const DenseProduct&, int64_t, int64_t, int64_t) noexcept {
  YOKE_CHECK(false, "bf16_dot_product: not on this machine");
}

}  // namespace yoke::kernels

#endif
