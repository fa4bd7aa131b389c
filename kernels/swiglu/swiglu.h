#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// y = silu(min(gate, limit)) ⊙ clamp(up, -limit, limit), rounded once; limit = +inf: no clamp.
///   y, gate, up [rows, n] act; y may alias gate or up (same type)
/// silu in float64; a NaN in gate or up gives NaN.
/// Source: spec/glm5_next.md 5.6 (the gate has an upper clamp only, before silu).
void swiglu(TensorView y, ConstTensorView gate, ConstTensorView up, float limit,
            Stream& stream) noexcept;

/// Plain loops, float64: the definition of correct.
void swiglu_ref(TensorView y, ConstTensorView gate, ConstTensorView up, float limit,
                Stream& stream) noexcept;

}  // namespace yoke::kernels
