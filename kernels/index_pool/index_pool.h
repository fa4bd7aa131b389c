#pragma once

#include "kernels/core/step_rows.h"
#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

constexpr int kMaxPoolTokens = 16;

/// Appends the step's raw index rows and computes the key of each pool that this step completes
/// (spec/glm5_next.md 5.5):
///   w_j[d] = softmax over j of (gate[p·m + j][d] + ape[j][d]),  pool[p][d] = Σ_j w_j[d] · key[p·m
///   + j][d], rounded once keys, gates  [rows, dim] act: ik (after LayerNorm) and ig of this step
///   ape          [m, dim] bf16, f16 or f32; m = tokens per pool, at most kMaxPoolTokens
///   raw_keys, raw_gates  [slots, ring, dim] act: row t of a sequence lives at t mod ring; ring ≥ m
///   + window pools        [blocks · block_tokens / m, dim] act: pool p of a slot stands at
///   cache_row(slot, p·m) / m
/// Rows of a pool before this step's first row come from the ring; the newest `ring` rows of the
/// step are then written to it. A pool that re-opens after a roll-back is simply computed again.
void index_pool(TensorView pools, TensorView raw_keys, TensorView raw_gates, ConstTensorView keys,
                ConstTensorView gates, ConstTensorView ape, const StepRows& rows,
                Stream& stream) noexcept;

}  // namespace yoke::kernels
