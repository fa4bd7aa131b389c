#include "kernels/mhc/mhc_products.h"

#include <algorithm>

#include "kernels/core/row_io.h"
#include "kernels/core/simd_targets.h"
#include "kernels/mhc/mhc_site.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/mhc/mhc_products_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/float_io-inl.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kPartSums = 8;
constexpr int kPartVectors = static_cast<int>(kPartSums / kDoubleLanes);
static_assert(kRowChunk % kPartSums == 0);

/// sums[r · kPartSums + l] of kOutputs outputs, `sums_stride` apart, take up a chunk's inputs.
///   f [kRows][kRowChunk] double, zeros up to a multiple of kPartSums      w [kOutputs], w_stride
template <int kRows, int kOutputs, class W>
HWY_INLINE void multiply_chunk(double* HWY_RESTRICT sums, int64_t sums_stride,
                               const double* HWY_RESTRICT f, const W* HWY_RESTRICT w,
                               int64_t w_stride, int64_t count) {
  const DDouble d;
  VDouble part[kOutputs][kRows][kPartVectors];
  HWY_UNROLL(4)
  for (int o = 0; o < kOutputs; ++o) {
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(8)
      for (int v = 0; v < kPartVectors; ++v)
        part[o][r][v] = hn::Load(d, sums + o * sums_stride + r * kPartSums + v * kDoubleLanes);
    }
  }
  const auto step = [&](const W* weights, int64_t stride, const double* inputs) HWY_ATTR {
    HWY_UNROLL(4)
    for (int o = 0; o < kOutputs; ++o) {
      HWY_UNROLL(8)
      for (int v = 0; v < kPartVectors; ++v) {
        const VDouble weight =
            hn::PromoteTo(d, load_as_float(DNarrow(), weights + o * stride + v * kDoubleLanes));
        HWY_UNROLL(4)
        for (int r = 0; r < kRows; ++r)
          part[o][r][v] =
              fused(weight, hn::Load(d, inputs + r * kRowChunk + v * kDoubleLanes), part[o][r][v]);
      }
    }
  };
  int64_t k = 0;
  for (; k + kPartSums <= count; k += kPartSums) step(w + k, w_stride, f + k);
  if (k < count) {
    W rest[kOutputs * kPartSums] = {};
    for (int64_t o = 0; o < kOutputs; ++o)
      std::copy_n(w + o * w_stride + k, count - k, rest + o * kPartSums);
    step(rest, kPartSums, f + k);
  }
  HWY_UNROLL(4)
  for (int o = 0; o < kOutputs; ++o) {
    HWY_UNROLL(4)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(8)
      for (int v = 0; v < kPartVectors; ++v)
        hn::Store(part[o][r][v], d, sums + o * sums_stride + r * kPartSums + v * kDoubleLanes);
    }
  }
}

HWY_INLINE double sum_of_parts(const double* parts) {
  double s[kPartSums];
  std::copy_n(parts, kPartSums, s);
  for (int64_t half = kPartSums / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) s[l] += s[l + half];
  }
  return s[0];
}

template <int kRows, class W>
HWY_NOINLINE void multiply_rows(double* products, const ConstTensorView& streams, const W* fn,
                                int64_t outputs, int64_t width, int64_t first) {
  HWY_ALIGN float narrow[kRowChunk];
  HWY_ALIGN double f[kRows * kRowChunk];
  HWY_ALIGN double sums[kMhcMaxProducts * kRows * kPartSums];
  constexpr int64_t kStride = kRows * kPartSums;
  std::fill_n(sums, outputs * kStride, 0.0);
  for (int64_t begin = 0; begin < width; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, width - begin);
    for (int64_t r = 0; r < kRows; ++r) {
      load_floats(narrow, streams, (first + r) * width + begin, count);
      std::fill(narrow + count, narrow + (count + kPartSums - 1) / kPartSums * kPartSums, 0.0f);
      for (int64_t i = 0; i < count; i += kDoubleLanes)
        hn::Store(hn::PromoteTo(DDouble(), hn::Load(DNarrow(), narrow + i)), DDouble(),
                  f + r * kRowChunk + i);
    }
    int64_t o = 0;
    for (; o + 2 <= outputs; o += 2)
      multiply_chunk<kRows, 2>(sums + o * kStride, kStride, f, fn + o * width + begin, width,
                               count);
    if (o < outputs)
      multiply_chunk<kRows, 1>(sums + o * kStride, kStride, f, fn + o * width + begin, width,
                               count);
  }
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t o = 0; o < outputs; ++o)
      products[r * outputs + o] = sum_of_parts(sums + o * kStride + r * kPartSums);
  }
}

template <class W>
void multiply_typed(double* products, const ConstTensorView& streams, const ConstTensorView& fn,
                    int64_t first, int64_t rows) {
  const W* w = fn.as<W>();
  switch (rows) {
    case 1:
      return multiply_rows<1, W>(products, streams, w, fn.dim(0), fn.dim(1), first);
    case 2:
      return multiply_rows<2, W>(products, streams, w, fn.dim(0), fn.dim(1), first);
    default:
      return multiply_rows<3, W>(products, streams, w, fn.dim(0), fn.dim(1), first);
  }
}

void multiply(double* products, const ConstTensorView& streams, const ConstTensorView& fn,
              int64_t first, int64_t rows) {
  switch (fn.dtype) {
    case DType::bf16:
      return multiply_typed<bf16>(products, streams, fn, first, rows);
    case DType::f16:
      return multiply_typed<f16>(products, streams, fn, first, rows);
    default:
      return multiply_typed<float>(products, streams, fn, first, rows);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(multiply);

void mhc_products(double* products, const ConstTensorView& streams, const ConstTensorView& fn,
                  int64_t first, int64_t rows) noexcept {
  HWY_DYNAMIC_DISPATCH(multiply)(products, streams, fn, first, rows);
}

}  // namespace yoke::kernels
#endif
