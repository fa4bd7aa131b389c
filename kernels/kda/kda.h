// Kimi Delta Attention in recurrent form for every row (spec/glm5_next.md 5.3, design.md 5).
#pragma once

#include <optional>

#include "kernels/core/step_rows.h"
#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// Log-decay and write strength:
///   g[r][h·d+i] = lower_bound · σ( exp(a_log[h]) · (z[r][h·d+i] + dt_bias[h·d+i]) )
///   (without lower_bound: -exp(a_log[h]) · softplus(z + dt_bias))      beta[r][h] = σ(b[r][h])
///   g [rows, heads·d] f32, beta [rows, heads] f32, z [rows, heads·d] act, b [rows, heads] act or
///   f32 a_log [heads] f32, dt_bias [heads·d] f32
void kda_gate(TensorView g, TensorView beta, ConstTensorView z, ConstTensorView b,
              ConstTensorView a_log, ConstTensorView dt_bias, std::optional<float> lower_bound,
              Stream& stream) noexcept;

/// Largest head size of the recurrence: its rows are staged in arrays of this length.
constexpr int64_t kMaxKdaDim = 256;

/// Per-slot memory of one KDA layer.
struct KdaState {
  TensorView state;         ///< [slots, heads, d (key), d (value)] f32
  TensorView pending_k;     ///< [slots, window, heads·d] act: inputs of the last window's rows
  TensorView pending_v;     ///< [slots, window, heads·d] act
  TensorView pending_g;     ///< [slots, window, heads·d] f32
  TensorView pending_beta;  ///< [slots, window, heads] f32
};

/// The recurrence, per head, all in float; d is at most kMaxKdaDim:
///   q ← q / sqrt(Σq² + 1e-6) · d^(-1/2);  k ← k / sqrt(Σk² + 1e-6)
///   S ← diag(e^g) S;  u = kᵀS;  S ← S + k ⊗ (beta·(v - u));  o = qᵀS
///   o, q, k, v [rows, heads·d] act (o rounded once), g [rows, heads·d] f32, beta [rows, heads] f32
/// Per sequence: S is loaded (zero at start_position 0), `replay` pending rows are applied, then
/// the `commit` rows of this step, then S is stored; window rows go on from there in registers:
/// their outputs are the ones serial decoding would give, their inputs go to the pending buffers, S
/// stays as stored. Sums over the key dimension: see kda_recurrence.cpp.
void kda_recurrence(TensorView o, ConstTensorView q, ConstTensorView k, ConstTensorView v,
                    ConstTensorView g, ConstTensorView beta, const KdaState& state,
                    const StepRows& rows, Stream& stream) noexcept;

/// y[r][h] = o · rsqrt(mean_d o² + eps) · weight · σ(gate), per head, rounded once.
///   y, o, gate [rows, heads·d] act, weight [d] bf16, f16 or f32; y may alias o
void kda_output_norm(TensorView y, ConstTensorView o, ConstTensorView gate, ConstTensorView weight,
                     float eps, Stream& stream) noexcept;

}  // namespace yoke::kernels
