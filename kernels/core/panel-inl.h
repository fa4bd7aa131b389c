// The inner loop of every product: a few rows times a few dozen outputs, one chain of fmas per
// (row, output) over ascending k. Compiled once per instruction set. Which rows share a call, and
// how k is cut into calls, changes no bit: a chain is stored and taken up again.
#if defined(YOKE_KERNELS_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef YOKE_KERNELS_PANEL_INL_H_
#undef YOKE_KERNELS_PANEL_INL_H_
#else
#define YOKE_KERNELS_PANEL_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/core/row_groups.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

namespace hn = hwy::HWY_NAMESPACE;

/// acc[r][v·lanes + i] += Σ_k a[k][r] · b(k, v)[i].
///   R   rows, interleaved: a[k·R + r] (kernels/core/row_groups.h)
///   V   vectors of outputs; R · V accumulators must fit the registers: 12 of 16, or 24 of 32
///   b   b(k, v) is the vector v of weights of input k
///   acc [R][acc_stride]; `fresh` starts the chains at +0 instead of reading it
template <int R, int V, class D, class Weights>
HWY_INLINE void panel(D d, float* HWY_RESTRICT acc, size_t acc_stride, bool fresh,
                      const float* HWY_RESTRICT a, int64_t k_count, const Weights& b) {
  const size_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[R][V];
  HWY_UNROLL(6)
  for (size_t r = 0; r < R; ++r) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < V; ++v)
      sum[r][v] = fresh ? hn::Zero(d) : hn::LoadU(d, acc + r * acc_stride + v * lanes);
  }
  for (int64_t k = 0; k < k_count; ++k, a += R) {
    if constexpr (V > R) {  // the fewer of the two factors stay in registers
      hn::Vec<D> x[R];
      HWY_UNROLL(6)
      for (size_t r = 0; r < R; ++r) x[r] = hn::Set(d, a[r]);
      HWY_UNROLL(8)
      for (size_t v = 0; v < V; ++v) {
        const hn::Vec<D> w = b(k, v);
        HWY_UNROLL(6)
        for (size_t r = 0; r < R; ++r) sum[r][v] = hn::MulAdd(x[r], w, sum[r][v]);
      }
    } else {
      hn::Vec<D> w[V];
      HWY_UNROLL(8)
      for (size_t v = 0; v < V; ++v) w[v] = b(k, v);
      HWY_UNROLL(6)
      for (size_t r = 0; r < R; ++r) {
        const hn::Vec<D> x = hn::Set(d, a[r]);
        HWY_UNROLL(8)
        for (size_t v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(x, w[v], sum[r][v]);
      }
    }
  }
  HWY_UNROLL(6)
  for (size_t r = 0; r < R; ++r) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < V; ++v) hn::StoreU(sum[r][v], d, acc + r * acc_stride + v * lanes);
  }
}

#endif  // not scalar

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#endif  // per target
