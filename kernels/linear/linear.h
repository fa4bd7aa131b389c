#pragma once

#include <cstdint>

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"
#include "kernels/core/weights.h"

namespace yoke::kernels {

/// Floats of scratch that linear takes for `rows` rows.
int64_t linear_scratch_floats(const LinearWeight& weight, int64_t rows) noexcept;

/// y[r] = W · x[r], dense or EXL3 weight, sums in float, rounded once to y's type.
///   x  [rows, in] bf16 or f32      y  [rows, out] bf16 or f32; must not alias x
///   scratch: linear_scratch_floats(weight, rows) floats. Dense weights do without; many rows are
///   then slower.
/// Reduction tree: dense_product.h for dense weights, kernels/exl3 for EXL3. It depends on `in`
/// only, never on rows or threads.
void linear(TensorView y, ConstTensorView x, const LinearWeight& weight, TensorView scratch,
            Stream& stream) noexcept;

/// Dense only; plain loops, float64 accumulation: the definition of correct.
void linear_ref(TensorView y, ConstTensorView x, ConstTensorView weight, Stream& stream) noexcept;

}  // namespace yoke::kernels
