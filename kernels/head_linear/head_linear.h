#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// y[r][h] = W[h] · x[r][h]: one small matrix per head (absorbed MLA, spec/glm5_next.md 5.4).
///   y [rows, heads, out] act, x [rows, heads, in] act, w [heads, out, in] bf16, f16 or f32. Sums
///   as kernels/linear (dense).
void head_linear(TensorView y, ConstTensorView x, ConstTensorView w, Stream& stream) noexcept;

/// Plain loops, float64 accumulation: the definition of correct.
void head_linear_ref(TensorView y, ConstTensorView x, ConstTensorView w, Stream& stream) noexcept;

}  // namespace yoke::kernels
