#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// y[r] = table[ids[r]], rounded to y's type.
///   y      [rows, hidden] act (bf16 or f32)      table  [vocab, hidden] bf16, f16 or f32
///   ids    [rows] i32; below 0 or not below vocab: a row of zeros
///   zero_at_position_0: when not null, [rows] i32 positions; rows at position 0 become zeros
///   (MTP, spec/glm5_next.md 5.9)
void embed(TensorView y, ConstTensorView ids, ConstTensorView table,
           const int32_t* zero_at_position_0, Stream& stream) noexcept;

/// The definition of correct.
void embed_ref(TensorView y, ConstTensorView ids, ConstTensorView table,
               const int32_t* zero_at_position_0, Stream& stream) noexcept;

/// The same row copied to all residual streams: y [rows, streams, hidden] (spec/glm5_next.md 5.1).
void embed_streams(TensorView y, ConstTensorView ids, ConstTensorView table,
                   Stream& stream) noexcept;

}  // namespace yoke::kernels
