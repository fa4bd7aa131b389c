#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, biased variance, row by row, rounded
/// once to y's type.
///   x, y  [rows, n] act; y may alias x      weight, bias [n] bf16, f16 or f32
/// Source: spec/glm5_next.md 5.5 (the indexer's k_norm: a LayerNorm with bias, eps 1e-6).
void layer_norm(TensorView y, ConstTensorView x, ConstTensorView weight, ConstTensorView bias,
                float eps, Stream& stream) noexcept;

/// Plain loops, float64: the definition of correct.
void layer_norm_ref(TensorView y, ConstTensorView x, ConstTensorView weight, ConstTensorView bias,
                    float eps, Stream& stream) noexcept;

}  // namespace yoke::kernels
