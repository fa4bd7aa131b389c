// The stages of an EXL3 product, for exl3_matmul and for the grouped products of
// kernels/moe_experts:
//   1. exl3_transform_input   each row of x, once
//   2. exl3_multiply_block    all rows against 128 columns of Wq; every tile is decoded once
//   3. exl3_store_block       each row's 128 results
// The bits of a row depend on its input and the matrix alone, not on the rows beside it.
#pragma once

#include <cstdint>

#include "kernels/core/tensor_view.h"
#include "kernels/core/weights.h"

namespace yoke::kernels {

constexpr int64_t kExl3Block = 128;

/// z = had128(x[x_row] ⊙ suh) as row `row` of `rows` in tile order [in/16][rows][16], where the 16
/// inputs 16·t + i of a tile stand in the order 0 2 4 6, 1 3 5 7, 8 10 12 14, 9 11 13 15: the order
/// in which a tile's stream holds its rows. Rounds as exl3.h says; x is [.., in] bf16, f16 or f32.
void exl3_transform_input(float* tiles, int64_t row, int64_t rows, const ConstTensorView& x,
                          int64_t x_row, const Exl3Matrix& w) noexcept;

/// v[r][n] = Σ_k z[r][k] · Wq[k][128·block + n], v [rows, 128] float, tiles as above.
///
/// Reduction tree over k, for every SIMD target: segments of 256 (the last may have 128) are summed
/// from left to right, the first one to 0. Within a segment there are four partial sums: number q
/// takes the inputs whose place in a tile is 2q, 2q+1, 2q+8, 2q+9, in this order, tile after tile,
/// each with one fused multiply-add; the segment is (sum 0 + sum 1) + (sum 2 + sum 3).
/// On machines without a SIMD target: float64, from left to right.
void exl3_multiply_block(float* v, const float* tiles, int64_t rows, const Exl3Matrix& w,
                         int64_t block) noexcept;

/// y[y_row][128·block + n] = had128(v)[n] · svh, rounded to y's type. Overwrites v.
void exl3_store_block(const TensorView& y, int64_t y_row, float* v, const Exl3Matrix& w,
                      int64_t block) noexcept;

}  // namespace yoke::kernels
