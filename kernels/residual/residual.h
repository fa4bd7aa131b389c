#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// x += y, element by element, rounded once to x's type: the plain residual of the MTP layer
/// (spec/glm5_next.md 5.9).
///   x, y [rows, n] act
void residual_add(TensorView x, ConstTensorView y, Stream& stream) noexcept;

/// The definition of correct.
void residual_add_ref(TensorView x, ConstTensorView y, Stream& stream) noexcept;

/// y[r] = a[r] followed by b[r]: y [rows, na + nb], a [rows, na], b [rows, nb], one type.
void concat_columns(TensorView y, ConstTensorView a, ConstTensorView b, Stream& stream) noexcept;

}  // namespace yoke::kernels
