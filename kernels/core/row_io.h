// Runs of elements of any activation or weight type as floats: one switch per run instead of one
// per element.
#pragma once

#include <cstdint>

#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// Elements that row ops hold on the stack at a time.
constexpr int64_t kRowChunk = 256;

/// to[i] = from[begin + i], widened; from is bf16, f16 or f32.
void load_floats(float* to, const ConstTensorView& from, int64_t begin, int64_t count) noexcept;

/// to[begin + i] = from[i], rounded to the view's type (bf16, f16 or f32).
void store_floats(const TensorView& to, int64_t begin, const float* from, int64_t count) noexcept;

constexpr bool is_float_type(DType dtype) noexcept {
  return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
}
/// Types of activations: f16 appears in weights and caches of others only.
constexpr bool is_act_type(DType dtype) noexcept {
  return dtype == DType::bf16 || dtype == DType::f32;
}

}  // namespace yoke::kernels
