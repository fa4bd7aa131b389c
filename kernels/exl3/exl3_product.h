// The stages of an EXL3 product, for exl3_matmul and for the grouped products of
// kernels/moe_experts:
//   1. exl3_transform_input   each row of x, once
//   2. exl3_multiply_block    all rows against 128 columns of Wq; every tile is decoded once
//   3. exl3_store_block       each row's 128 results
// The bits of a row depend on its input and the matrix alone, not on the rows beside it, and are
// the same on every instruction set.
#pragma once

#include <cstdint>

#include "kernels/core/tensor_view.h"
#include "kernels/core/weights.h"

namespace yoke::kernels {

constexpr int64_t kExl3Block = 128;

/// Where a row of a tile stands in the order of the trellis, 0..15: rows 2q, 2q+1, 2q+8, 2q+9 for
/// q = 0..3.
constexpr int64_t exl3_row_place(int64_t row) noexcept {
  return (row & 6) * 2 + (row >> 3) * 2 + (row & 1);
}

/// z = had128(x[x_row] ⊙ suh) as row `row` of `rows`, in groups as kernels/core/row_groups.h, with
/// the inputs of each tile in the order of the trellis. Rounds as exl3.h says; x is [.., in] bf16,
/// f16 or f32. Takes rows · in floats for all rows.
void exl3_transform_input(float* z, int64_t row, int64_t rows, const ConstTensorView& x,
                          int64_t x_row, const Exl3Matrix& w) noexcept;

/// v[r][n] = Σ_k z[r][k] · Wq[k][128·block + n], v [rows, 128] float, z as above.
/// Reduction tree: one chain of fused multiply-adds per (r, n), from +0, over k in the order of the
/// trellis: tiles ascending, inside a tile in the order of exl3_row_place.
void exl3_multiply_block(float* v, const float* z, int64_t rows, const Exl3Matrix& w,
                         int64_t block) noexcept;

/// y[y_row][128·block + n] = had128(v)[n] · svh, rounded to y's type. Overwrites v.
void exl3_store_block(const TensorView& y, int64_t y_row, float* v, const Exl3Matrix& w,
                      int64_t block) noexcept;

/// For grain_for: time of one row's input transform, and of one block of `rows` rows.
constexpr int64_t exl3_transform_ns(int64_t in) noexcept {
  return in;
}
constexpr int64_t exl3_block_ns(int64_t in, int64_t rows) noexcept {
  return in * kExl3Block * (8 + rows) / 32 + rows * kExl3Block;
}

/// Plain versions of the three: for machines without one of the instruction sets, and for tests.
namespace exl3_plain {
void transform_input(float* z, int64_t row, int64_t rows, const ConstTensorView& x, int64_t x_row,
                     const Exl3Matrix& w) noexcept;
void multiply_block(float* v, const float* z, int64_t rows, const Exl3Matrix& w,
                    int64_t block) noexcept;
void store_block(const TensorView& y, int64_t y_row, float* v, const Exl3Matrix& w,
                 int64_t block) noexcept;
}  // namespace exl3_plain

}  // namespace yoke::kernels
