#pragma once

#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

struct MoeRouteParams {
  bool normalise = true;  ///< norm_topk_prob
  float scaling = 1.0f;   ///< routed_scaling_factor
};

/// Router choice (spec/glm5_next.md 5.7): s = σ(logits); the k experts with the largest s + bias,
/// ties to the lower index; weight = s / (Σ chosen s + 1e-20) · scaling.
///   ids [rows, k] i32 by descending choice, weights [rows, k] f32, logits [rows, experts] f32,
///   bias [experts] f32 slot [rows] i32 or null: rows with slot -1 (padding) get ids of -1
void moe_route(TensorView ids, TensorView weights, ConstTensorView logits, ConstTensorView bias,
               MoeRouteParams params, const int32_t* slot, Stream& stream) noexcept;

/// The (row, choice) pairs of each expert, for grouped products.
///   offsets [experts + 1] i32, items [rows·k] i32 = row·k + choice, ascending within an expert;
///   pairs with id -1 are left out
void moe_segments(TensorView offsets, TensorView items, ConstTensorView ids,
                  Stream& stream) noexcept;

}  // namespace yoke::kernels
