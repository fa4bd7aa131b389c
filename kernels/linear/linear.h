#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"
#include "kernels/core/weights.h"

namespace yoke::kernels {

/// y[r] = W · x[r], dense or EXL3 weight, sums in float, rounded once to y's type.
///   x  [rows, in] bf16 or f32      y  [rows, out] bf16 or f32; must not alias x
///   scratch: exl3_scratch_floats(weight, rows) floats when the weight is EXL3, else unused
/// Reduction tree: dense_product.h for dense weights, kernels/exl3 for EXL3. It depends on `in`
/// only, never on rows or threads.
void linear(TensorView y, ConstTensorView x, const LinearWeight& weight, TensorView scratch,
            Stream& stream) noexcept;

/// Dense only; plain loops, float64 accumulation: the definition of correct.
void linear_ref(TensorView y, ConstTensorView x, ConstTensorView weight, Stream& stream) noexcept;

}  // namespace yoke::kernels
