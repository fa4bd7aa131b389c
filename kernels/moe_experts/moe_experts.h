#pragma once

#include <span>

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"
#include "kernels/core/weights.h"

namespace yoke::kernels {

/// One matrix per expert: y[item] = W[expert of item] · x[item / x_divisor].
///   offsets, items as moe_segments gives them      weights: one per expert, equal shapes
///   y [rows·k, out] act or f32, written at the items' places only
///   x [rows, in] with x_divisor = k (the same row for each choice), or [rows·k, in] with x_divisor
///   = 1
/// Arithmetic of a row as kernels/linear, whatever else is in its group.
///   scratch: grouped_linear_scratch_floats(...) floats
void grouped_linear(TensorView y, ConstTensorView x, int32_t x_divisor, ConstTensorView offsets,
                    ConstTensorView items, std::span<const LinearWeight> weights,
                    TensorView scratch, Stream& stream) noexcept;

/// Gathers each expert's rows and calls linear_ref or exl3_matmul_ref: the definition of correct.
void grouped_linear_ref(TensorView y, ConstTensorView x, int32_t x_divisor, ConstTensorView offsets,
                        ConstTensorView items, std::span<const LinearWeight> weights,
                        Stream& stream) noexcept;

/// Floats of scratch for at most `items` (row, choice) pairs on `threads` threads.
int64_t grouped_linear_scratch_floats(std::span<const LinearWeight> weights, int64_t items,
                                      int threads) noexcept;

/// y[r] = Σ_j weights[r][j] · slots[r][j], in ascending j, + shared[r]; float64 sums, rounded once.
///   y, shared [rows, hidden] act (each bf16 or f32), slots [rows, k, hidden] f32
///   weights [rows, k] f32, ids [rows, k] i32: choices with id -1 are left out
void moe_combine(TensorView y, ConstTensorView slots, ConstTensorView weights, ConstTensorView ids,
                 ConstTensorView shared, Stream& stream) noexcept;

void moe_combine_ref(TensorView y, ConstTensorView slots, ConstTensorView weights,
                     ConstTensorView ids, ConstTensorView shared, Stream& stream) noexcept;

}  // namespace yoke::kernels
