#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// y = silu(min(gate, limit)) ⊙ clamp(up, -limit, limit), rounded once; limit = +inf: no clamp.
///   y, gate, up [rows, n] act; y may alias gate or up
/// Source: spec/glm5_next.md 5.6 (the gate has an upper clamp only, before silu).
void swiglu(TensorView y, ConstTensorView gate, ConstTensorView up, float limit,
            Stream& stream) noexcept;

}  // namespace yoke::kernels
