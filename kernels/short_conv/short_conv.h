#pragma once

#include "kernels/core/step_rows.h"
#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

constexpr int kMaxConvKernel = 8;
constexpr int64_t kConvChannelBlock = 64;  // channels of one item of work

/// Causal depthwise convolution with silu, for all sequences of a step:
///   u[t] = Σ_j weight[c][j] · x[t - (k-1) + j],  y = silu(u); inputs before position 0 are 0.
///   x, y     [rows, channels] act; y must not alias x; the sum and silu are float, y is rounded
///   once weight   [channels, k] bf16, f16 or f32; k at most kMaxConvKernel history  [slots, k - 1,
///   channels] act: the newest committed raw inputs of each slot, oldest first pending  [slots,
///   window, channels] act: raw inputs of the window rows of the last step
/// Per sequence: the history advances by `replay` pending rows, then by the `commit` rows of this
/// step; the remaining rows go to `pending` from index 0. Padding rows leave everything alone
/// (their y is unspecified). Source: spec/glm5_next.md 5.3; roll-back: spec/speculative.md 7.
void short_conv(TensorView y, ConstTensorView x, ConstTensorView weight, TensorView history,
                TensorView pending, const StepRows& rows, Stream& stream) noexcept;

}  // namespace yoke::kernels
