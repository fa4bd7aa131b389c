#include "kernels/core/row_sums.h"

#include <algorithm>

#include "kernels/core/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/core/row_sums_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE VDouble load_double(const float* from) {
  return hn::PromoteTo(DDouble(), hn::LoadU(DNarrow(), from));
}

void add_scaled_run(double* HWY_RESTRICT sums, double factor, const float* HWY_RESTRICT values,
                    int64_t count) {
  const DDouble d;
  const VDouble f = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + kDoubleLanes <= count; i += kDoubleLanes)
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Mul(f, load_double(values + i))), d, sums + i);
  for (; i < count; ++i) sums[i] += factor * double{values[i]};
}

void round_run(float* HWY_RESTRICT to, const double* HWY_RESTRICT sums, int64_t count) {
  const DDouble d;
  const DNarrow narrow;
  int64_t i = 0;
  for (; i + kDoubleLanes <= count; i += kDoubleLanes)
    hn::StoreU(hn::DemoteTo(narrow, hn::LoadU(d, sums + i)), narrow, to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(sums[i]);
}

void add_squares(double* HWY_RESTRICT lanes, const float* HWY_RESTRICT x, int64_t count) {
  const DDouble d;
  constexpr int kVectors = 16 / static_cast<int>(kDoubleLanes);
  VDouble sums[kVectors];
  HWY_UNROLL(16)
  for (int v = 0; v < kVectors; ++v) sums[v] = hn::Load(d, lanes + v * kDoubleLanes);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    HWY_UNROLL(16)
    for (int v = 0; v < kVectors; ++v) {
      const VDouble values = load_double(x + i + v * kDoubleLanes);
      sums[v] = hn::Add(sums[v], hn::Mul(values, values));
    }
  }
  HWY_UNROLL(16)
  for (int v = 0; v < kVectors; ++v) hn::Store(sums[v], d, lanes + v * kDoubleLanes);
  for (int l = 0; i < count; ++i, ++l) lanes[l] += double{x[i]} * double{x[i]};
}

void scale_run(float* HWY_RESTRICT values, double scale, const float* HWY_RESTRICT weights,
               int64_t count) {
  const DDouble d;
  const DNarrow narrow;
  const VDouble s = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + kDoubleLanes <= count; i += kDoubleLanes) {
    const VDouble scaled = hn::Mul(hn::Mul(load_double(values + i), s), load_double(weights + i));
    hn::StoreU(hn::DemoteTo(narrow, scaled), narrow, values + i);
  }
  for (; i < count; ++i)
    values[i] = static_cast<float>(double{values[i]} * scale * double{weights[i]});
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(add_scaled_run);
HWY_EXPORT(round_run);
HWY_EXPORT(add_squares);
HWY_EXPORT(scale_run);

void add_scaled(double* sums, double factor, const float* values, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(add_scaled_run)(sums, factor, values, count);
}

void round_sums(float* to, const double* sums, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(round_run)(to, sums, count);
}

void SquareSum::add(const float* x, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(add_squares)(lanes_, x, count);
}

double SquareSum::total() const noexcept {
  double lanes[16];
  std::copy_n(lanes_, 16, lanes);
  for (int half = 8; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

void scale_row(float* values, double scale, const float* weights, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(scale_run)(values, scale, weights, count);
}

}  // namespace yoke::kernels
#endif
