// The one dense product of the CPU: linear, head_linear and the experts of moe_experts all come
// here, so a row's bits are the same wherever it is computed.
#pragma once

#include <cstdint>

#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// Rows of x against rows of one weight matrix. Offsets and strides are in elements. With `items`,
/// row r is row items[r] / x_divisor of x and row items[r] of y.
struct DenseProduct {
  TensorView y;       ///< bf16, f16 or f32
  ConstTensorView x;  ///< bf16 or f32
  ConstTensorView w;  ///< bf16, f16 or f32
  int64_t in = 0;
  int64_t w_offset = 0;  ///< of output 0; outputs follow each other, `in` elements apart
  int64_t x_offset = 0;
  int64_t x_stride = 0;
  int64_t y_offset = 0;
  int64_t y_stride = 0;
  const int32_t* items = nullptr;
  int32_t x_divisor = 1;

  int64_t x_row(int64_t r) const noexcept {
    return x_offset + (items == nullptr ? r : items[r] / x_divisor) * x_stride;
  }
  int64_t y_row(int64_t r) const noexcept {
    return y_offset + (items == nullptr ? r : items[r]) * y_stride;
  }
};

/// y[r][o] = W[o] · x[r] for rows [0, rows) and outputs [out_begin, out_end), rounded once.
///
/// Reduction tree over `in`, on every machine: sections of 1024 inputs, the last one maybe shorter.
/// In a section sixteen partial sums from +0, number l taking the inputs k with k mod 16 = l in
/// ascending order, each with one fused multiply-add in float; then s[l] += s[l + 8] for l < 8, the
/// same with 4, 2 and 1. The sections' sums are added in ascending order. It depends on `in` alone.
/// The target avx512_bf16 has another tree for BF16 by BF16: bf16_dot.h.
/// (Sixteen lanes let one row stream through the weights as they lie in memory; sections let many
/// rows keep their partial sums in the first cache.)
void dense_product(const DenseProduct& p, int64_t rows, int64_t out_begin,
                   int64_t out_end) noexcept;

/// The same for many rows: their inputs are packed once, by dense_pack_row for each, and then read
/// by every thread. The same bits.
///   packed  dense_packed_floats(in, rows) floats
void dense_pack_row(float* packed, int64_t row, int64_t rows, const DenseProduct& p) noexcept;
void dense_product_packed(const DenseProduct& p, const float* packed, int64_t rows,
                          int64_t out_begin, int64_t out_end) noexcept;

constexpr int64_t kDenseSums = 16;
constexpr int64_t kDenseSection = 1024;

/// Sixteens of inputs, the last one filled up with zeros.
constexpr int64_t dense_steps(int64_t in) noexcept {
  return (in + kDenseSums - 1) / kDenseSums;
}
constexpr int64_t dense_packed_floats(int64_t in, int64_t rows) noexcept {
  return dense_steps(in) * kDenseSums * rows;
}
/// Whether packing pays: not for few rows, and not where BF16 needs no packing (bf16_dot.h).
bool packs_rows(const DenseProduct& p, int64_t rows) noexcept;

/// For grain_for: time of one output of `rows` rows.
constexpr int64_t dense_product_ns(int64_t in, int64_t rows) noexcept {
  return in * rows / 8;
}
constexpr int64_t dense_packed_ns(int64_t in, int64_t rows) noexcept {
  return in * rows / 24;
}

}  // namespace yoke::kernels
