#include <algorithm>

#include "kernels/core/row_io.h"
#include "kernels/core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/core/row_io_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/float_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DFloat = hn::CappedTag<float, 16>;
constexpr auto kFloatLanes = static_cast<int64_t>(hn::MaxLanes(DFloat()));

template <class T>
void widen_run(float* HWY_RESTRICT to, const T* HWY_RESTRICT from, int64_t count) {
  const DFloat d;
  int64_t i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes)
    hn::StoreU(load_as_float(d, from + i), d, to + i);
  for (; i < count; ++i) to[i] = to_float(from[i]);
}

void load_run(float* to, const ConstTensorView& from, int64_t begin, int64_t count) {
  if (from.dtype == DType::bf16) {
    widen_run(to, static_cast<const bf16*>(from.data) + begin, count);
  } else {
    widen_run(to, static_cast<const f16*>(from.data) + begin, count);
  }
}

void store_run(bf16* HWY_RESTRICT to, const float* HWY_RESTRICT from, int64_t count) {
  const DFloat d;
  int64_t i = 0;
  for (; i + kFloatLanes <= count; i += kFloatLanes)
    store_rounded(d, hn::LoadU(d, from + i), to + i);
  for (; i < count; ++i) to[i] = to_bf16(from[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(load_run);
HWY_EXPORT(store_run);

void load_floats(float* to, const ConstTensorView& from, int64_t begin, int64_t count) noexcept {
  if (from.dtype == DType::f32) {
    std::copy_n(static_cast<const float*>(from.data) + begin, count, to);
  } else {
    YOKE_DCHECK(from.dtype == DType::bf16 || from.dtype == DType::f16, "not a float view");
    HWY_DYNAMIC_DISPATCH(load_run)(to, from, begin, count);
  }
}

void store_floats(const TensorView& to, int64_t begin, const float* from, int64_t count) noexcept {
  switch (to.dtype) {
    case DType::bf16:
      HWY_DYNAMIC_DISPATCH(store_run)(static_cast<bf16*>(to.data) + begin, from, count);
      break;
    case DType::f16:
      std::transform(from, from + count, static_cast<f16*>(to.data) + begin,
                     [](float x) { return to_f16(x); });
      break;
    default:
      YOKE_DCHECK(to.dtype == DType::f32, "not a floating-point view");
      std::copy_n(from, count, static_cast<float*>(to.data) + begin);
      break;
  }
}

}  // namespace yoke::kernels
#endif
