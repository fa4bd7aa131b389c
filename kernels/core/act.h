// Element access by type for op templates: one body serves bf16 and float activations and all
// weight types.
#pragma once

#include <utility>

#include "config/check.h"
#include "kernels/core/types.h"

namespace yoke::kernels {

constexpr float widen(bf16 x) noexcept {
  return to_float(x);
}
constexpr float widen(f16 x) noexcept {
  return to_float(x);
}
constexpr float widen(float x) noexcept {
  return x;
}

/// Rounds to T, nearest even.
template <class T>
constexpr T narrow(float x) noexcept;
template <>
constexpr bf16 narrow<bf16>(float x) noexcept {
  return to_bf16(x);
}
template <>
constexpr f16 narrow<f16>(float x) noexcept {
  return to_f16(x);
}
template <>
constexpr float narrow<float>(float x) noexcept {
  return x;
}

/// Calls `f(T{})` with T the activation type: bf16 or float. Anything else is a bug.
template <class F>
void dispatch_act(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bf16:
      return f(bf16{});
    case DType::f32:
      return f(float{});
    default:
      YOKE_CHECK(false, "activations are bf16 or f32");
  }
}

}  // namespace yoke::kernels
