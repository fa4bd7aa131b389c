// Depthwise: channels are independent, so work is split by (sequence, channel block) and each item
// reads, then advances, its own part of the history. Arithmetic per output: u = Σ_j weight·input in
// float, ascending j (oldest input first), products and sums rounded separately; silu in float64,
// rounded to float, then to the activation type. The same bits on every instruction set.
#include <algorithm>
#include <cstring>

#include "kernels/core/act.h"
#include "kernels/core/simd_targets.h"
#include "kernels/short_conv/short_conv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/short_conv/short_conv_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/lanes-inl.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// y[c] = silu(Σ_j taps[j][c] · lines[j][c]) for the first `width` channels of a block.
template <class Act>
HWY_INLINE void convolve_typed(Act* HWY_RESTRICT y, const Act* const* lines,
                               const float* HWY_RESTRICT taps, int kernel, int64_t width) {
  const DLanes d;
  HWY_ALIGN float sums[kConvChannelBlock];
  int64_t c = 0;
  for (; c + kLaneFloats <= width; c += kLaneFloats) {
    VLanes sum = hn::Zero(d);
    for (int j = 0; j < kernel; ++j)
      sum = add_product(sum, hn::LoadU(d, taps + j * kConvChannelBlock + c),
                        load_as_float(d, lines[j] + c));
    hn::Store(sum, d, sums + c);
  }
  for (; c < width; ++c) {
    sums[c] = 0;
    for (int j = 0; j < kernel; ++j)
      sums[c] += taps[j * kConvChannelBlock + c] * widen(lines[j][c]);
  }
  map_in_double(sums, sums, width, [](VDouble u) HWY_ATTR { return silu64(u); });
  for (c = 0; c + kLaneFloats <= width; c += kLaneFloats)
    store_rounded(d, hn::Load(d, sums + c), y + c);
  for (; c < width; ++c) y[c] = narrow<Act>(sums[c]);
}

void convolve_bf16(bf16* y, const bf16* const* lines, const float* taps, int kernel,
                   int64_t width) {
  convolve_typed(y, lines, taps, kernel, width);
}
void convolve_f32(float* y, const float* const* lines, const float* taps, int kernel,
                  int64_t width) {
  convolve_typed(y, lines, taps, kernel, width);
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {
namespace {

HWY_EXPORT(convolve_bf16);
HWY_EXPORT(convolve_f32);

void convolve_line(bf16* y, const bf16* const* lines, const float* taps, int kernel,
                   int64_t width) {
  HWY_DYNAMIC_DISPATCH(convolve_bf16)(y, lines, taps, kernel, width);
}
void convolve_line(float* y, const float* const* lines, const float* taps, int kernel,
                   int64_t width) {
  HWY_DYNAMIC_DISPATCH(convolve_f32)(y, lines, taps, kernel, width);
}

/// One sequence and one block of channels. Input lines are addressed by their row relative to the
/// step's first row: below 0 come the replayed pending rows, then the history.
template <class Act>
struct Block {
  const SequenceRows& sequence;
  const Act* x;        // the sequence's first row, at the block's first channel
  int64_t row_stride;  // channels
  Act* history;        // [kernel - 1] lines
  Act* pending;        // [window] lines
  const Act* zeros;
  int kernel;

  const Act* line(int64_t row) const {
    if (row >= 0) return x + row * row_stride;
    if (sequence.start_position == 0) return zeros;
    const int64_t before = row + sequence.replay;
    return before >= 0 ? pending + before * row_stride
                       : history + (before + kernel - 1) * row_stride;
  }

  void convolve(Act* y, const float* taps, int64_t width) const {
    const Act* lines[kMaxConvKernel];
    for (int64_t r = 0; r < sequence.rows; ++r) {
      for (int j = 0; j < kernel; ++j) lines[j] = line(r - (kernel - 1) + j);
      convolve_line(y + r * row_stride, lines, taps, kernel, width);
    }
  }

  /// History after the replayed and the committed rows; each line comes from a later one or from
  /// another buffer, so ascending order never reads what was already overwritten.
  void advance(int64_t width) const {
    const size_t bytes = static_cast<size_t>(width) * sizeof(Act);
    for (int j = 0; j < kernel - 1; ++j) {
      const Act* from = line(sequence.commit - (kernel - 1) + j);
      if (from != history + j * row_stride) std::memcpy(history + j * row_stride, from, bytes);
    }
    for (int64_t r = sequence.commit; r < sequence.rows; ++r)
      std::memcpy(pending + (r - sequence.commit) * row_stride, line(r), bytes);
  }
};

}  // namespace

void short_conv(TensorView y, ConstTensorView x, ConstTensorView weight, TensorView history,
                TensorView pending, const StepRows& rows, Stream& stream) noexcept {
  const int64_t channels = x.dim(1);
  const int kernel = static_cast<int>(weight.dim(1));
  YOKE_CHECK(kernel >= 1 && kernel <= kMaxConvKernel, "short_conv: kernel size");
  YOKE_CHECK(weight.dim(0) == channels && y.dim(1) == channels, "short_conv: channels differ");
  YOKE_CHECK(history.dim(1) == kernel - 1 && history.dim(2) == channels, "short_conv: history");
  YOKE_CHECK(pending.dim(2) == channels, "short_conv: pending");
  YOKE_CHECK(y.dtype == x.dtype && history.dtype == x.dtype && pending.dtype == x.dtype,
             "short_conv: types differ");
  ThreadPool& threads = stream.threads();
  stream.launch("short_conv", [=, &threads] {
    const int64_t blocks = (channels + kConvChannelBlock - 1) / kConvChannelBlock;
    // Of an item whose sequence has an average share of the rows, at 4 ns per channel.
    const int64_t item_ns = rows.rows * kConvChannelBlock * 4 / rows.max_sequences;
    threads.for_range(
        rows.max_sequences * blocks, grain_for(item_ns), [&](int64_t begin, int64_t end, int) {
          dispatch_act(x.dtype, [&](auto act) {
            using Act = decltype(act);
            const Act zeros[kConvChannelBlock] = {};
            for (int64_t item = begin; item < end; ++item) {
              // Sequences vary fastest: unused entries then spread over all threads.
              const SequenceRows& sequence = rows.sequences[item % rows.max_sequences];
              if (sequence.slot < 0) continue;
              YOKE_DCHECK(
                  std::max(sequence.replay, sequence.rows - sequence.commit) <= pending.dim(1),
                  "short_conv: more window rows than pending holds");
              const int64_t first = item / rows.max_sequences * kConvChannelBlock;
              const int64_t width = std::min(kConvChannelBlock, channels - first);
              float taps[kMaxConvKernel * kConvChannelBlock];
              for (int j = 0; j < kernel; ++j) {
                for (int64_t c = 0; c < width; ++c)
                  taps[j * kConvChannelBlock + c] = load_float(weight, (first + c) * kernel + j);
              }
              const int64_t at = sequence.first_row * channels + first;
              const Block<Act> block{
                  sequence,
                  x.as<Act>() + at,
                  channels,
                  history.as<Act>() + sequence.slot * (kernel - 1) * channels + first,
                  pending.as<Act>() + sequence.slot * pending.dim(1) * channels + first,
                  zeros,
                  kernel};
              block.convolve(y.as<Act>() + at, taps, width);
              block.advance(width);
            }
          });
        });
  });
}

}  // namespace yoke::kernels
#endif
