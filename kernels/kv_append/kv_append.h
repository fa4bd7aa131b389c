#pragma once

#include "kernels/core/step_rows.h"
#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// cache[row of (slot, position)] = x[r]; padding rows write nothing.
///   cache [blocks · block_tokens, n] act, x [rows, n] act
void kv_append(TensorView cache, ConstTensorView x, const StepRows& rows, Stream& stream) noexcept;

}  // namespace yoke::kernels
