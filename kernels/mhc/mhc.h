// Manifold-constrained hyper-connections: the residual path is S parallel streams
// (spec/glm5_next.md 5.2).
#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

struct MhcWeights {
  ConstTensorView fn;     ///< [2S + S², S·hidden] bf16, f16 or f32
  ConstTensorView base;   ///< [2S + S²] f32
  ConstTensorView scale;  ///< [3] f32
  float rms_eps = 1e-5f;  ///< inside the root of the unweighted RMS
  float hc_eps = 1e-6f;   ///< the additive ε
  int sinkhorn_iterations = 20;
};

/// Coefficients of one site and its input, per row:
///   x     [rows, hidden] act      = Σ_s pre[s]·X_s
///   post  [rows, S] f32, comb [rows, S, S] f32: first index source stream, second destination
///   streams [rows, S, hidden] act
/// S at most 8. Float64 inside: fn · X by mhc_products.h, the mean of squares by SquareSum
/// (kernels/core/row_sums.h), sums over streams in ascending order. post and comb are rounded to
/// float, x once to its type.
void mhc_coefficients(TensorView x, TensorView post, TensorView comb, ConstTensorView streams,
                      const MhcWeights& weights, Stream& stream) noexcept;

/// Plain loops, float64: the definition of correct.
void mhc_coefficients_ref(TensorView x, TensorView post, TensorView comb, ConstTensorView streams,
                          const MhcWeights& weights, Stream& stream) noexcept;

/// streams[j] = post[j]·y + Σ_i comb[i][j]·streams[i], rounded once. In place.
///   streams [rows, S, hidden] act, y [rows, hidden] act or f32
void mhc_mix(TensorView streams, ConstTensorView y, ConstTensorView post, ConstTensorView comb,
             Stream& stream) noexcept;

void mhc_mix_ref(TensorView streams, ConstTensorView y, ConstTensorView post, ConstTensorView comb,
                 Stream& stream) noexcept;

}  // namespace yoke::kernels
