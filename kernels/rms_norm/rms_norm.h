#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// y = x / sqrt(mean(x²) + eps) * weight, row by row (over the last dimension), rounded once to y's
/// type.
///   x, y  [rows, n] act (bf16 or f32); y may alias x      weight [n] bf16, f16 or f32
/// Float64 inside; the sum of squares is SquareSum of kernels/core/row_sums.h.
/// Source: spec/glm5_next.md 5.0 (eps inside the root).
void rms_norm(TensorView y, ConstTensorView x, ConstTensorView weight, float eps,
              Stream& stream) noexcept;

/// Plain loops, float64: the definition of correct.
void rms_norm_ref(TensorView y, ConstTensorView x, ConstTensorView weight, float eps,
                  Stream& stream) noexcept;

}  // namespace yoke::kernels
