#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// y[i] = x[index[i]]; index -1 gives a row of zeros.
///   y [n, width], x [rows, width], one type; index [n] i32
void gather_rows(TensorView y, ConstTensorView x, ConstTensorView index, Stream& stream) noexcept;

}  // namespace yoke::kernels
