// dot_lanes (lanes.h) in vectors of any width: the same products and sums, so the same bits.
// Compiled once per instruction set.
#if defined(YOKE_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef YOKE_KERNELS_LANES_INL_H_
#undef YOKE_KERNELS_LANES_INL_H_
#else
#define YOKE_KERNELS_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/core/act.h"
#include "kernels/core/float_io-inl.h"
#include "kernels/core/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DLanes = hn::CappedTag<float, kDotLanes>;
using VLanes = hn::Vec<DLanes>;
constexpr int kLaneFloats = static_cast<int>(hn::MaxLanes(DLanes()));
constexpr int kLaneVectors = kDotLanes / kLaneFloats;

/// sums + a·b, product and sum rounded separately.
HWY_INLINE VLanes add_product(VLanes sums, VLanes a, VLanes b) {
  return hn::Add(sums, hn::Mul(a, b));
}

/// 16 → 8 → 4 → 2 → 1, the upper half onto the lower.
HWY_INLINE float sum_of_lanes(const VLanes (&sums)[kLaneVectors]) {
  const DLanes d;
  VLanes left[kLaneVectors];
  HWY_UNROLL(16)
  for (int v = 0; v < kLaneVectors; ++v) left[v] = sums[v];
  HWY_UNROLL(4)
  for (int half = kLaneVectors / 2; half > 0; half /= 2) {
    HWY_UNROLL(8)
    for (int v = 0; v < half; ++v) left[v] = hn::Add(left[v], left[v + half]);
  }
  HWY_ALIGN float lanes[kLaneFloats];
  hn::Store(left[0], d, lanes);
  HWY_UNROLL(4)
  for (int half = kLaneFloats / 2; half > 0; half /= 2) {
    HWY_UNROLL(8)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

/// Σ a[i]·b[i], as dot_lanes. The rest beyond sixteens is filled up with zeros.
template <class A, class B>
HWY_INLINE float dot_in_lanes(const A* HWY_RESTRICT a, const B* HWY_RESTRICT b, int64_t n) {
  const DLanes d;
  VLanes sums[kLaneVectors];
  HWY_UNROLL(16)
  for (int v = 0; v < kLaneVectors; ++v) sums[v] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kDotLanes <= n; i += kDotLanes) {
    HWY_UNROLL(16)
    for (int v = 0; v < kLaneVectors; ++v)
      sums[v] = add_product(sums[v], load_as_float(d, a + i + v * kLaneFloats),
                            load_as_float(d, b + i + v * kLaneFloats));
  }
  if (i < n) {
    A rest_a[kDotLanes] = {};
    B rest_b[kDotLanes] = {};
    for (int64_t l = 0; i + l < n; ++l) {
      rest_a[l] = a[i + l];
      rest_b[l] = b[i + l];
    }
    HWY_UNROLL(16)
    for (int v = 0; v < kLaneVectors; ++v)
      sums[v] = add_product(sums[v], load_as_float(d, rest_a + v * kLaneFloats),
                            load_as_float(d, rest_b + v * kLaneFloats));
  }
  return sum_of_lanes(sums);
}

/// Elements up to the next multiple of kDotLanes.
constexpr int64_t padded_to_lanes(int64_t n) {
  return (n + kDotLanes - 1) / kDotLanes * kDotLanes;
}

/// x widened, zeros up to padded_to_lanes(n).
template <class T>
HWY_INLINE void widen_padded(float* HWY_RESTRICT to, const T* HWY_RESTRICT x, int64_t n) {
  const DLanes d;
  int64_t i = 0;
  for (; i + kLaneFloats <= n; i += kLaneFloats) hn::Store(load_as_float(d, x + i), d, to + i);
  for (; i < n; ++i) to[i] = widen(x[i]);
  for (; i < padded_to_lanes(n); ++i) to[i] = 0;
}

/// dots[r] = Σ a[r·stride + i]·b[i], each as dot_lanes; n and stride are multiples of kDotLanes,
/// both inputs aligned and padded with zeros.
template <int kRows>
HWY_INLINE void dots_in_lanes(float* HWY_RESTRICT dots, const float* HWY_RESTRICT a, int64_t stride,
                              const float* HWY_RESTRICT b, int64_t n) {
  const DLanes d;
  VLanes sums[kRows][kLaneVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kLaneVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  for (int64_t i = 0; i < n; i += kDotLanes) {
    HWY_UNROLL(16)
    for (int v = 0; v < kLaneVectors; ++v) {
      const VLanes y = hn::Load(d, b + i + v * kLaneFloats);
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r)
        sums[r][v] = add_product(sums[r][v], hn::Load(d, a + r * stride + i + v * kLaneFloats), y);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) dots[r] = sum_of_lanes(sums[r]);
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#endif  // per target
