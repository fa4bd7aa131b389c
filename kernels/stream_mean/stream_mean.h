#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// y[r] = mean over s of streams[r][s], summed in ascending s, rounded once
/// (spec/glm5_next.md 5.1).
///   y [rows, hidden] act      streams [rows, S, hidden] act
void stream_mean(TensorView y, ConstTensorView streams, Stream& stream) noexcept;

/// Plain loops, float64: the definition of correct.
void stream_mean_ref(TensorView y, ConstTensorView streams, Stream& stream) noexcept;

}  // namespace yoke::kernels
