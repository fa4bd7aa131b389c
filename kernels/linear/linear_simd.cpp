// dense_product: small tiles of rows × outputs, each element with its own sixteen partial sums, so
// that the tile's shape is a matter of speed alone.
#include <algorithm>
#include <cstring>

#include "kernels/core/simd_targets.h"
#include "kernels/linear/dense_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/linear_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void multiply(const DenseProduct& p, int64_t rows, int64_t out_begin, int64_t out_end) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = out_begin; o < out_end; ++o) {
      double sum = 0;
      for (int64_t k = 0; k < p.in; ++k)
        sum += double{load_float(p.w, p.w_offset + o * p.in + k)} * load_float(p.x, p.x_row(r) + k);
      store_float(p.y, p.y_row(r) + o, static_cast<float>(sum));
    }
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSums = 16;
using DF = hn::CappedTag<float, kSums>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kVectors = kSums / kLanes;

HWY_INLINE VF load(const float* p) {
  return hn::LoadU(DF(), p);
}
HWY_INLINE VF load(const bf16* p) {
  const hn::RebindToUnsigned<DF> du32;
  const hn::Rebind<uint16_t, DF> du16;
  const auto bits = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(du32, bits)));
}
HWY_INLINE VF load(const f16* p) {
  const hn::Rebind<hwy::float16_t, DF> d16;
  return hn::PromoteTo(DF(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}

/// The tree's last four levels.
template <class D, class V>
HWY_INLINE float sum_of_lanes(D d, V v) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return sum_of_lanes(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    const V pair = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(pair, hn::Shuffle2301(pair)));
  }
}

HWY_INLINE float sum_of_partials(VF* sums) {
  if constexpr (kVectors == 4) {
    sums[0] = hn::Add(sums[0], sums[2]);
    sums[1] = hn::Add(sums[1], sums[3]);
  }
  if constexpr (kVectors >= 2) sums[0] = hn::Add(sums[0], sums[1]);
  return sum_of_lanes(DF(), sums[0]);
}

/// sums[r·outputs + o] = W[o] · x[r] for one tile.
template <int kRows, int kOutputs, class X, class W>
HWY_INLINE void multiply_tile(float* results, const X* const* x, const W* const* w, int64_t in) {
  VF sums[kRows][kOutputs][kVectors];
  HWY_UNROLL(12)
  for (int i = 0; i < kRows * kOutputs * kVectors; ++i)
    sums[i / (kOutputs * kVectors)][i / kVectors % kOutputs][i % kVectors] = hn::Zero(DF());

  const auto step = [&](const X* const* xs, const W* const* ws, int64_t k) HWY_ATTR {
    HWY_UNROLL(12)
    for (int v = 0; v < kVectors; ++v) {
      VF inputs[kRows];
      HWY_UNROLL(12)
      for (int r = 0; r < kRows; ++r) inputs[r] = load(xs[r] + k + v * kLanes);
      HWY_UNROLL(12)
      for (int o = 0; o < kOutputs; ++o) {
        const VF weights = load(ws[o] + k + v * kLanes);
        HWY_UNROLL(12)
        for (int r = 0; r < kRows; ++r)
          sums[r][o][v] = hn::MulAdd(weights, inputs[r], sums[r][o][v]);
      }
    }
  };
  int64_t k = 0;
  for (; k + kSums <= in; k += kSums) step(x, w, k);
  if (k < in) {
    // The rest, padded with zeros: adding +0 to a partial sum leaves it, but for the sign of a
    // zero.
    X x_rest[kRows][kSums] = {};
    W w_rest[kOutputs][kSums] = {};
    const X* x_at[kRows];
    const W* w_at[kOutputs];
    for (int r = 0; r < kRows; ++r) {
      std::copy(x[r] + k, x[r] + in, x_rest[r]);
      x_at[r] = x_rest[r];
    }
    for (int o = 0; o < kOutputs; ++o) {
      std::copy(w[o] + k, w[o] + in, w_rest[o]);
      w_at[o] = w_rest[o];
    }
    step(x_at, w_at, 0);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o) results[r * kOutputs + o] = sum_of_partials(sums[r][o]);
  }
}

template <int kRows, int kOutputs, class X, class W>
HWY_INLINE void multiply_and_store(const DenseProduct& p, int64_t row, int64_t output) {
  const X* x[kRows];
  const W* w[kOutputs];
  for (int r = 0; r < kRows; ++r) x[r] = static_cast<const X*>(p.x.data) + p.x_row(row + r);
  for (int o = 0; o < kOutputs; ++o)
    w[o] = static_cast<const W*>(p.w.data) + p.w_offset + (output + o) * p.in;
  float results[kRows * kOutputs];
  multiply_tile<kRows, kOutputs>(results, x, w, p.in);
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o)
      store_float(p.y, p.y_row(row + r) + output + o, results[r * kOutputs + o]);
  }
}

/// Outputs in tiles of kOutputs, the rest one by one.
template <int kRows, int kOutputs, class X, class W>
HWY_NOINLINE void multiply_rows(const DenseProduct& p, int64_t row, int64_t begin, int64_t end) {
  int64_t o = begin;
  for (; o + kOutputs <= end; o += kOutputs) multiply_and_store<kRows, kOutputs, X, W>(p, row, o);
  for (; o < end; ++o) multiply_and_store<kRows, 1, X, W>(p, row, o);
}

/// Tiles of 1×4, 2×2 and 3×2 keep 8 to 12 vectors of sums in AVX2's sixteen registers and enough
/// independent sums to hide the latency of a multiply-add.
template <class X, class W>
void multiply_typed(const DenseProduct& p, int64_t rows, int64_t out_begin, int64_t out_end) {
  // So many outputs that their weights stay in a level-2 cache while all rows pass.
  const int64_t chunk = std::max<int64_t>(4, (int64_t{128} << 10) / (p.in * sizeof(W)) / 4 * 4);
  for (int64_t begin = out_begin; begin < out_end; begin += chunk) {
    const int64_t end = std::min(out_end, begin + chunk);
    int64_t r = 0;
    for (; rows - r >= 3 && rows - r != 4; r += 3) multiply_rows<3, 2, X, W>(p, r, begin, end);
    for (; rows - r >= 2; r += 2) multiply_rows<2, 2, X, W>(p, r, begin, end);
    if (r < rows) multiply_rows<1, 4, X, W>(p, r, begin, end);
  }
}

template <class X>
void multiply_x(const DenseProduct& p, int64_t rows, int64_t out_begin, int64_t out_end) {
  switch (p.w.dtype) {
    case DType::bf16:
      return multiply_typed<X, bf16>(p, rows, out_begin, out_end);
    case DType::f16:
      return multiply_typed<X, f16>(p, rows, out_begin, out_end);
    default:
      return multiply_typed<X, float>(p, rows, out_begin, out_end);
  }
}

void multiply(const DenseProduct& p, int64_t rows, int64_t out_begin, int64_t out_end) {
  if (p.x.dtype == DType::bf16) {
    multiply_x<bf16>(p, rows, out_begin, out_end);
  } else {
    multiply_x<float>(p, rows, out_begin, out_end);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(multiply);

void dense_product(const DenseProduct& p, int64_t rows, int64_t out_begin,
                   int64_t out_end) noexcept {
  if (rows > 0) HWY_DYNAMIC_DISPATCH(multiply)(p, rows, out_begin, out_end);
}

}  // namespace yoke::kernels
#endif
