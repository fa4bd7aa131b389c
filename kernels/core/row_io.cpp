#include "kernels/core/row_io.h"

#include <algorithm>

namespace yoke::kernels {

void load_floats(float* to, const ConstTensorView& from, int64_t begin, int64_t count) noexcept {
  const auto widen = [](auto x) { return to_float(x); };
  switch (from.dtype) {
    case DType::bf16: {
      const auto* p = static_cast<const bf16*>(from.data) + begin;
      std::transform(p, p + count, to, widen);
      break;
    }
    case DType::f16: {
      const auto* p = static_cast<const f16*>(from.data) + begin;
      std::transform(p, p + count, to, widen);
      break;
    }
    default:
      YOKE_DCHECK(from.dtype == DType::f32, "not a floating-point view");
      std::copy_n(static_cast<const float*>(from.data) + begin, count, to);
      break;
  }
}

void store_floats(const TensorView& to, int64_t begin, const float* from, int64_t count) noexcept {
  switch (to.dtype) {
    case DType::bf16:
      std::transform(from, from + count, static_cast<bf16*>(to.data) + begin,
                     [](float x) { return to_bf16(x); });
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
