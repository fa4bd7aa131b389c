// Dot products with a fixed reduction tree that vector units of any width can follow.
#pragma once

#include <cstdint>

#include "kernels/core/act.h"

namespace yoke::kernels {

/// Partial sums of a dot product; 16 floats are one AVX-512 or four SSE/NEON registers.
constexpr int kDotLanes = 16;

/// Σ a[i]·b[i] in float. Tree: element i goes to lane i mod 16, in ascending i, product and sum
/// rounded separately; then the upper half of the lanes is added to the lower half, 16 → 8 → 4 → 2
/// → 1. The bits depend on n and the values alone.
template <class A, class B>
inline float dot_lanes(const A* a, const B* b, int64_t n) noexcept {
  float lanes[kDotLanes] = {};
  int64_t i = 0;
  for (; i + kDotLanes <= n; i += kDotLanes) {
    for (int l = 0; l < kDotLanes; ++l) lanes[l] += widen(a[i + l]) * widen(b[i + l]);
  }
  for (int l = 0; i < n; ++i, ++l) lanes[l] += widen(a[i]) * widen(b[i]);
  for (int half = kDotLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

}  // namespace yoke::kernels
