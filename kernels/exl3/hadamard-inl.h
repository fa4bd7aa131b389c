// The 128-point transform and what stands around it, compiled once per instruction set. The same
// additions in the same order as hadamard.h.
#if defined(YOKE_KERNELS_HADAMARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef YOKE_KERNELS_HADAMARD_INL_H_
#undef YOKE_KERNELS_HADAMARD_INL_H_
#else
#define YOKE_KERNELS_HADAMARD_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/core/float_io-inl.h"
#include "kernels/exl3/hadamard.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128

namespace hn = hwy::HWY_NAMESPACE;

using DHad = hn::CappedTag<float, 8>;
using VHad = hn::Vec<DHad>;
constexpr int kHadLanes = static_cast<int>(hn::MaxLanes(DHad()));
constexpr int kHadVectors = kHadamardBlock / kHadLanes;

/// (a, b) -> (a + b, a - b) for lanes `stride` apart: `swapped` has the partners, and a - b is
/// b's negative plus a.
HWY_INLINE VHad lane_butterfly(VHad v, VHad swapped, VHad negative_zero_in_b) {
  return hn::Add(swapped, hn::Xor(v, negative_zero_in_b));
}

/// -0 in the lanes i with (i & stride) != 0.
template <int stride>
HWY_INLINE VHad second_lanes() {
  const DHad d;
  const hn::RebindToUnsigned<DHad> du;
  const auto i = hn::Iota(du, 0);
  const auto second = hn::Ne(hn::And(i, hn::Set(du, stride)), hn::Zero(du));
  return hn::BitCast(d, hn::IfThenElseZero(second, hn::Set(du, 0x80000000u)));
}

/// The transform and the factor 1/sqrt(128), in place.
HWY_INLINE void hadamard_block(float* HWY_RESTRICT x, bool round_to_half) {
  const DHad d;
  const VHad second1 = second_lanes<1>();
  const VHad second2 = second_lanes<2>();
  VHad v[kHadVectors];
  HWY_UNROLL(32)
  for (int i = 0; i < kHadVectors; ++i) {
    v[i] = hn::LoadU(d, x + i * kHadLanes);
    v[i] = lane_butterfly(v[i], hn::Shuffle2301(v[i]), second1);
    v[i] = lane_butterfly(v[i], hn::Shuffle1032(v[i]), second2);
    if constexpr (kHadLanes == 8)
      v[i] = lane_butterfly(v[i], hn::ConcatLowerUpper(d, v[i], v[i]), second_lanes<4>());
  }
  HWY_UNROLL(5)
  for (int stride = 1; stride < kHadVectors; stride *= 2) {
    HWY_UNROLL(32)
    for (int i = 0; i < kHadVectors; ++i) {
      if ((i & stride) != 0) continue;
      const VHad a = v[i];
      const VHad b = v[i + stride];
      v[i] = hn::Add(a, b);
      v[i + stride] = hn::Sub(a, b);
    }
  }
  const VHad scale = hn::Set(d, kHadamardScale);
  HWY_UNROLL(32)
  for (int i = 0; i < kHadVectors; ++i) {
    v[i] = hn::Mul(v[i], scale);
    hn::StoreU(round_to_half ? through_half(d, v[i]) : v[i], d, x + i * kHadLanes);
  }
}

/// x ⊙ suh; 16-bit inputs go through fp16 before and after.
template <class T>
HWY_INLINE void scaled_input(float* HWY_RESTRICT to, const T* HWY_RESTRICT x,
                             const f16* HWY_RESTRICT suh) {
  const DHad d;
  for (int i = 0; i < kHadamardBlock; i += kHadLanes) {
    const VHad scale = load_as_float(d, suh + i);
    if constexpr (sizeof(T) == 4) {
      hn::StoreU(hn::Mul(load_as_float(d, x + i), scale), d, to + i);
    } else {
      const VHad half = through_half(d, load_as_float(d, x + i));
      hn::StoreU(through_half(d, hn::Mul(half, scale)), d, to + i);
    }
  }
}

/// v ⊙ svh, rounded to T.
template <class T>
HWY_INLINE void scaled_output(T* HWY_RESTRICT to, const float* HWY_RESTRICT v,
                              const f16* HWY_RESTRICT svh) {
  const DHad d;
  for (int i = 0; i < kHadamardBlock; i += kHadLanes)
    store_rounded(d, hn::Mul(hn::LoadU(d, v + i), load_as_float(d, svh + i)), to + i);
}

#endif  // not scalar

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#endif  // per target
