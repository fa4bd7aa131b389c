#include "kernels/core/row_math.h"

#include "kernels/core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/core/row_math_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

void exp_floats(float* y, const float* x, int64_t count) {
  map_in_double(y, x, count, [](VDouble v) HWY_ATTR { return exp64(v); });
}

void sigmoid_floats(float* y, const float* x, int64_t count) {
  map_in_double(y, x, count, [](VDouble v) HWY_ATTR { return sigmoid64(v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(exp_floats);
HWY_EXPORT(sigmoid_floats);

void exp_run(float* y, const float* x, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(exp_floats)(y, x, count);
}

void sigmoid_run(float* y, const float* x, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(sigmoid_floats)(y, x, count);
}

}  // namespace yoke::kernels
#endif
