// dense_product for many rows, with the tree of dense_product.h. Weights of 16 or 32 outputs are
// turned so that one vector holds one input of many outputs, sorted by the partial sum they belong
// to; rows are packed the same way once per product. Partial sum l of six rows and the outputs of a
// strip is then one panel (kernels/core/panel-inl.h) over the inputs l, l + 16, ...
//
// Memory of a thread, on its stack: a section of kOutputs outputs turned (260 KiB), the sixteen
// partial sums of one group and strip (6 KiB; AVX-512: 12), and the results so far of a block of
// rows (24 KiB).
#include <algorithm>

#include "kernels/core/row_groups.h"
#include "kernels/core/simd_targets.h"
#include "kernels/linear/bf16_dot.h"
#include "kernels/linear/dense_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/dense_panel_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/float_io-inl.h"
#include "kernels/core/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void pack_row(float*, int64_t, int64_t, const DenseProduct&) {}

void multiply_packed(const DenseProduct& p, const float*, int64_t rows, int64_t out_begin,
                     int64_t out_end) {
  dense_product(p, rows, out_begin, out_end);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kSums = kDenseSums;
constexpr int64_t kSteps = kDenseSection / kSums;  // of a section
using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
/// Outputs of a panel: two vectors at least, so that six rows have twelve independent chains.
constexpr int64_t kStrip = kLanes == 16 ? 32 : 16;
constexpr int kVectors = kStrip / kLanes;
/// Outputs that share a walk over the rows: their turned section fits the second cache.
constexpr int64_t kOutputs = 64;
constexpr int64_t kBlockRows = 16 * kGroupRows;
constexpr int64_t kTile = int64_t{kGroupRows} * kStrip;  // one partial sum of a group

// --- packing ------------------------------------------------------------------------------------

/// Square of lanes: the widest that both stages below can turn.
using DT = hn::CappedTag<float, 8>;
using VT = hn::Vec<DT>;
constexpr int kTurn = static_cast<int>(hn::MaxLanes(DT()));

/// rows[i] lane j becomes rows[j] lane i.
HWY_INLINE void turn(VT (&rows)[kTurn]) {
  const DT d;
  const hn::Repartition<double, DT> dd;
  VT pairs[kTurn];
  HWY_UNROLL(16)
  for (int i = 0; i < kTurn; i += 2) {
    pairs[i] = hn::InterleaveLower(d, rows[i], rows[i + 1]);
    pairs[i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + 1]);
  }
  VT quads[kTurn];
  HWY_UNROLL(16)
  for (int i = 0; i < kTurn; i += 4) {
    HWY_UNROLL(16)
    for (int j = 0; j < 2; ++j) {
      const auto a = hn::BitCast(dd, pairs[i + j]);
      const auto b = hn::BitCast(dd, pairs[i + 2 + j]);
      quads[i + 2 * j] = hn::BitCast(d, hn::InterleaveLower(dd, a, b));
      quads[i + 2 * j + 1] = hn::BitCast(d, hn::InterleaveUpper(dd, a, b));
    }
  }
  HWY_UNROLL(16)
  for (int i = 0; i < 4; ++i) {
    if constexpr (kTurn == 8) {
      rows[i] = hn::ConcatLowerLower(d, quads[i + 4], quads[i]);
      rows[i + 4] = hn::ConcatUpperUpper(d, quads[i + 4], quads[i]);
    } else {
      rows[i] = quads[i];
    }
  }
}

/// to[l · stride + o] = from[o · in + l], for sixteen inputs and kTurn outputs.
template <class W>
HWY_INLINE void turn_block(float* HWY_RESTRICT to, int64_t stride, const W* HWY_RESTRICT from,
                           int64_t in) {
  const DT d;
  HWY_UNROLL(16)
  for (int first = 0; first < static_cast<int>(kSums); first += kTurn) {
    VT v[kTurn];
    HWY_UNROLL(16)
    for (int o = 0; o < kTurn; ++o) v[o] = load_as_float(d, from + o * in + first);
    turn(v);
    HWY_UNROLL(16)
    for (int l = 0; l < kTurn; ++l) hn::Store(v[l], d, to + (first + l) * stride);
  }
}

/// BF16 is turned in pairs of inputs, then widened.
HWY_INLINE void turn_block(float* HWY_RESTRICT to, int64_t stride, const bf16* HWY_RESTRICT from,
                           int64_t in) {
  const DT d;
  const hn::RebindToUnsigned<DT> du;
  const auto odd_mask = hn::Set(du, 0xFFFF0000u);
  HWY_UNROLL(16)
  for (int first = 0; first < static_cast<int>(kSums); first += 2 * kTurn) {
    VT v[kTurn];
    HWY_UNROLL(16)
    for (int o = 0; o < kTurn; ++o)
      v[o] =
          hn::BitCast(d, hn::LoadU(du, reinterpret_cast<const uint32_t*>(from + o * in + first)));
    turn(v);
    HWY_UNROLL(16)
    for (int p = 0; p < kTurn; ++p) {
      const auto pair = hn::BitCast(du, v[p]);
      float* even = to + (first + 2 * p) * stride;
      hn::Store(hn::BitCast(d, hn::ShiftLeft<16>(pair)), d, even);
      hn::Store(hn::BitCast(d, hn::And(pair, odd_mask)), d, even + stride);
    }
  }
}

/// Floats from one partial sum's turned weights to the next's: not a power of two, or all sixteen
/// would compete for the same lines of the first cache.
constexpr int64_t sum_stride(int64_t steps) {
  return (steps + 1) * kStrip;
}
constexpr int64_t kStripFloats = kSums * sum_stride(kSteps);

/// The section's inputs of a strip of outputs: to[l · sum_stride + step · kStrip + output]. Inputs
/// and outputs that do not exist are 0.
template <class W>
void turn_strip(float* HWY_RESTRICT to, const DenseProduct& p, int64_t output, int64_t out_end,
                int64_t step, int64_t steps) {
  const W* w = static_cast<const W*>(p.w.data) + p.w_offset;
  const int64_t stride = sum_stride(steps);
  const int64_t full_steps = std::min(steps, p.in / kSums - step);
  for (int64_t o = 0; o < kStrip; o += kTurn) {
    const int64_t outputs = std::clamp<int64_t>(out_end - output - o, 0, kTurn);
    const W* from = w + (output + o) * p.in + step * kSums;
    int64_t s = 0;
    for (; outputs == kTurn && s < full_steps; ++s)
      turn_block(to + s * kStrip + o, stride, from + s * kSums, p.in);
    for (; s < steps; ++s) {
      const int64_t inputs = std::min(kSums, p.in - (step + s) * kSums);
      W filled[kTurn * kSums] = {};
      for (int64_t i = 0; i < outputs; ++i)
        std::copy_n(from + i * p.in + s * kSums, inputs, filled + i * kSums);
      turn_block(to + s * kStrip + o, stride, filled, kSums);
    }
  }
}

void pack_row(float* HWY_RESTRICT packed, int64_t row, int64_t rows, const DenseProduct& p) {
  const int64_t steps = dense_steps(p.in);
  const int64_t first = row / kGroupRows * kGroupRows;
  const int64_t size = group_size(rows, first);
  float* group = packed + first * steps * kSums + (row - first);
  const DF d;
  HWY_ALIGN float values[kSums];
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t k = s * kSums;
    if (k + kSums <= p.in) {
      for (int64_t i = 0; i < kSums; i += kLanes) {
        const int64_t at = p.x_row(row) + k + i;
        const VF v = p.x.dtype == DType::bf16
                         ? load_as_float(d, static_cast<const bf16*>(p.x.data) + at)
                         : load_as_float(d, static_cast<const float*>(p.x.data) + at);
        hn::Store(v, d, values + i);
      }
    } else {
      for (int64_t i = 0; i < kSums; ++i)
        values[i] = k + i < p.in ? load_float(p.x, p.x_row(row) + k + i) : 0.0f;
    }
    for (int64_t l = 0; l < kSums; ++l) group[(l * steps + s) * size] = values[l];
  }
}

// --- multiplying --------------------------------------------------------------------------------

/// sums[l][r][o] = the section's partial sum l.
template <int R>
void multiply_group(float* HWY_RESTRICT sums, const float* HWY_RESTRICT x, int64_t x_steps,
                    const float* HWY_RESTRICT w, int64_t steps) {
  const DF d;
  for (int64_t l = 0; l < kSums; ++l) {
    const float* weights = w + l * sum_stride(steps);
    panel<R, kVectors>(d, sums + l * kTile, kStrip, true, x + l * x_steps * R, steps,
                       [&](int64_t k, size_t v) HWY_ATTR {
                         return hn::Load(d,
                                         weights + k * kStrip + static_cast<int64_t>(v) * kLanes);
                       });
  }
}

void multiply_group(int size, float* sums, const float* x, int64_t x_steps, const float* w,
                    int64_t steps) {
  switch (size) {
    case 1:
      return multiply_group<1>(sums, x, x_steps, w, steps);
    case 2:
      return multiply_group<2>(sums, x, x_steps, w, steps);
    case 3:
      return multiply_group<3>(sums, x, x_steps, w, steps);
    case 4:
      return multiply_group<4>(sums, x, x_steps, w, steps);
    case 5:
      return multiply_group<5>(sums, x, x_steps, w, steps);
    default:
      return multiply_group<6>(sums, x, x_steps, w, steps);
  }
}

/// totals[r][o] (+)= the tree over the sixteen partial sums.
void add_section(float* HWY_RESTRICT totals, bool fresh, const float* HWY_RESTRICT sums, int size) {
  const DF d;
  for (int64_t r = 0; r < size; ++r) {
    for (int64_t o = 0; o < kStrip; o += kLanes) {
      VF s[kSums];
      HWY_UNROLL(16)
      for (int64_t l = 0; l < kSums; ++l) s[l] = hn::Load(d, sums + l * kTile + r * kStrip + o);
      HWY_UNROLL(16)
      for (int64_t half = kSums / 2; half > 0; half /= 2) {
        HWY_UNROLL(16)
        for (int64_t l = 0; l < half; ++l) s[l] = hn::Add(s[l], s[l + half]);
      }
      float* total = totals + r * kOutputs + o;
      hn::Store(fresh ? s[0] : hn::Add(hn::Load(d, total), s[0]), d, total);
    }
  }
}

void store_row(const DenseProduct& p, const float* totals, int64_t row, int64_t output,
               int64_t count) {
  const DF d;
  const int64_t at = p.y_row(row) + output;
  int64_t o = 0;
  for (; o + kLanes <= count && p.y.dtype != DType::f16; o += kLanes) {
    const VF v = hn::Load(d, totals + o);
    if (p.y.dtype == DType::bf16) {
      store_rounded(d, v, static_cast<bf16*>(p.y.data) + at + o);
    } else {
      store_rounded(d, v, static_cast<float*>(p.y.data) + at + o);
    }
  }
  for (; o < count; ++o) store_float(p.y, at + o, totals[o]);
}

template <class W>
void multiply_outputs(const DenseProduct& p, const float* HWY_RESTRICT packed, int64_t rows,
                      int64_t output, int64_t out_end) {
  HWY_ALIGN float weights[kOutputs / kStrip * kStripFloats];
  HWY_ALIGN float sums[kSums * kTile];
  HWY_ALIGN float totals[kBlockRows * kOutputs];
  const int64_t all_steps = dense_steps(p.in);
  int64_t turned = -1;  // the step whose section `weights` holds
  for (int64_t block = 0; block < rows; block += kBlockRows) {
    const int64_t block_end = std::min(rows, block + kBlockRows);
    for (int64_t step = 0; step < all_steps; step += kSteps) {
      const int64_t steps = std::min(kSteps, all_steps - step);
      if (turned != step) {
        for (int64_t o = output; o < out_end; o += kStrip)
          turn_strip<W>(weights + (o - output) / kStrip * kStripFloats, p, o, out_end, step, steps);
        turned = step;
      }
      for (int64_t first = block; first < block_end; first += kGroupRows) {
        const int size = group_size(rows, first);
        const float* x = packed + first * all_steps * kSums + step * size;
        for (int64_t o = output; o < out_end; o += kStrip) {
          multiply_group(size, sums, x, all_steps, weights + (o - output) / kStrip * kStripFloats,
                         steps);
          add_section(totals + (first - block) * kOutputs + (o - output), step == 0, sums, size);
        }
      }
    }
    for (int64_t r = block; r < block_end; ++r)
      store_row(p, totals + (r - block) * kOutputs, r, output, out_end - output);
  }
}

template <class W>
void multiply_strips(const DenseProduct& p, const float* packed, int64_t rows, int64_t out_begin,
                     int64_t out_end) {
  for (int64_t o = out_begin; o < out_end; o += kOutputs)
    multiply_outputs<W>(p, packed, rows, o, std::min(out_end, o + kOutputs));
}

void multiply_packed(const DenseProduct& p, const float* packed, int64_t rows, int64_t out_begin,
                     int64_t out_end) {
  switch (p.w.dtype) {
    case DType::bf16:
      return multiply_strips<bf16>(p, packed, rows, out_begin, out_end);
    case DType::f16:
      return multiply_strips<f16>(p, packed, rows, out_begin, out_end);
    default:
      return multiply_strips<float>(p, packed, rows, out_begin, out_end);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

bool packs_rows(const DenseProduct& p, int64_t rows) noexcept {
  return rows >= kGroupRows && !uses_bf16_dot(p);
}

HWY_EXPORT(pack_row);
HWY_EXPORT(multiply_packed);

void dense_pack_row(float* packed, int64_t row, int64_t rows, const DenseProduct& p) noexcept {
  HWY_DYNAMIC_DISPATCH(pack_row)(packed, row, rows, p);
}

void dense_product_packed(const DenseProduct& p, const float* packed, int64_t rows,
                          int64_t out_begin, int64_t out_end) noexcept {
  if (rows > 0) HWY_DYNAMIC_DISPATCH(multiply_packed)(p, packed, rows, out_begin, out_end);
}

}  // namespace yoke::kernels
#endif
