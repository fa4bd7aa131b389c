// dense_product: small tiles of rows × outputs, each element with its own sixteen partial sums, so
// that the tile's shape is a matter of speed alone.
#include <algorithm>
#include <cmath>

#include "kernels/core/simd_targets.h"
#include "kernels/linear/bf16_dot.h"
#include "kernels/linear/dense_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/linear_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

/// One section, by the tree.
float multiply_section(const DenseProduct& p, int64_t r, int64_t o, int64_t begin, int64_t end) {
  float sums[kDenseSums] = {};
  for (int64_t k = begin; k < end; ++k) {
    float& sum = sums[k % kDenseSums];
    sum =
        std::fma(load_float(p.w, p.w_offset + o * p.in + k), load_float(p.x, p.x_row(r) + k), sum);
  }
  for (int64_t half = kDenseSums / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

void multiply(const DenseProduct& p, int64_t rows, int64_t out_begin, int64_t out_end) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = out_begin; o < out_end; ++o) {
      float sum = multiply_section(p, r, o, 0, std::min(p.in, kDenseSection));
      for (int64_t k = kDenseSection; k < p.in; k += kDenseSection)
        sum += multiply_section(p, r, o, k, std::min(p.in, k + kDenseSection));
      store_float(p.y, p.y_row(r) + o, sum);
    }
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kSums = kDenseSums;
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
HWY_INLINE float sum_of_lanes([[maybe_unused]] D d, V v) {
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

/// Enough to hide the memory's latency at its full rate (Zen 3, 18 GB/s: about 900 ns).
constexpr int64_t kPrefetchBytes = int64_t{16} << 10;

/// results[r·outputs + o] = the section's W[o] · x[r] for one tile. The section starts at
/// input `section`.
template <int kRows, int kOutputs, class X, class W>
HWY_INLINE void multiply_section(float* results, const X* const* x, const W* const* w, int64_t in,
                                 int64_t section) {
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
  for (; k + kSums <= in; k += kSums) {
    if constexpr (kRows == 1) {
      // Weights that are read once stream through the second cache in the order of memory, which
      // keeps up with it better than one stream per output.
      const W* later = w[0] + (kOutputs - 1) * section + k * kOutputs;
      HWY_UNROLL(12)
      for (int64_t byte = 0; byte < kOutputs * kSums * int64_t{sizeof(W)}; byte += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(later) + kPrefetchBytes + byte, 0, 2);
    }
    step(x, w, k);
  }
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

/// totals[r·stride + o] (+)= the section from input k on, for one tile.
template <int kRows, int kOutputs, class X, class W>
HWY_INLINE void add_section(float* totals, int64_t stride, const DenseProduct& p, int64_t row,
                            int64_t output, int64_t k) {
  const X* x[kRows];
  const W* w[kOutputs];
  for (int r = 0; r < kRows; ++r) x[r] = static_cast<const X*>(p.x.data) + p.x_row(row + r) + k;
  for (int o = 0; o < kOutputs; ++o)
    w[o] = static_cast<const W*>(p.w.data) + p.w_offset + (output + o) * p.in + k;
  float results[kRows * kOutputs];
  multiply_section<kRows, kOutputs>(results, x, w, std::min(p.in - k, kDenseSection), k);
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOutputs; ++o) {
      float& total = totals[r * stride + o];
      total = k == 0 ? results[r * kOutputs + o] : total + results[r * kOutputs + o];
    }
  }
}

/// Outputs in tiles of kOutputs, the rest one by one. One row walks along whole rows of weights, as
/// they stream best; several rows take the next section of kPass outputs at a time, so that their
/// own section stays in the first cache.
template <int kRows, int kOutputs, class X, class W>
HWY_NOINLINE void multiply_rows(const DenseProduct& p, int64_t row, int64_t begin, int64_t end) {
  constexpr int64_t kPass = kRows == 1 ? kOutputs : 16;
  float totals[kRows * kPass];
  for (int64_t first = begin; first < end; first += kPass) {
    const int64_t count = std::min(kPass, end - first);
    for (int64_t k = 0; k < p.in; k += kDenseSection) {
      int64_t o = 0;
      for (; o + kOutputs <= count; o += kOutputs)
        add_section<kRows, kOutputs, X, W>(totals + o, kPass, p, row, first + o, k);
      for (; o < count; ++o) add_section<kRows, 1, X, W>(totals + o, kPass, p, row, first + o, k);
    }
    for (int r = 0; r < kRows; ++r) {
      for (int64_t o = 0; o < count; ++o)
        store_float(p.y, p.y_row(row + r) + first + o, totals[r * kPass + o]);
    }
  }
}

/// Tiles of 1×2, 2×2, 3×2, 4×1 and 5×1 keep 4 to 12 vectors of sums in AVX2's sixteen registers:
/// enough independent sums to hide the latency of a multiply-add.
template <class X, class W>
void multiply_typed(const DenseProduct& p, int64_t rows, int64_t out_begin, int64_t out_end) {
  // So many outputs that their weights stay in a level-2 cache while all rows pass.
  const int64_t chunk =
      std::max<int64_t>(4, (int64_t{128} << 10) / (p.in * int64_t{sizeof(W)}) / 4 * 4);
  for (int64_t begin = out_begin; begin < out_end; begin += chunk) {
    const int64_t end = std::min(out_end, begin + chunk);
    int64_t r = 0;
    for (; rows - r >= 6 || rows - r == 3; r += 3) multiply_rows<3, 2, X, W>(p, r, begin, end);
    switch (rows - r) {
      case 5:
        multiply_rows<5, 1, X, W>(p, r, begin, end);
        break;
      case 4:
        multiply_rows<4, 1, X, W>(p, r, begin, end);
        break;
      case 2:
        multiply_rows<2, 2, X, W>(p, r, begin, end);
        break;
      case 1:
        multiply_rows<1, 2, X, W>(p, r, begin, end);
        break;
      default:
        break;
    }
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
  if (uses_bf16_dot(p)) return bf16_dot_product(p, rows, out_begin, out_end);
  if (rows > 0) HWY_DYNAMIC_DISPATCH(multiply)(p, rows, out_begin, out_end);
}

}  // namespace yoke::kernels
#endif
