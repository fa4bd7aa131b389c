#pragma once

#include "kernels/core/step_rows.h"
#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

/// Absorbed multi-head latent attention over each row's selected tokens (spec/glm5_next.md 5.4):
///   score[s] = scale · (q[r][h] · c[s]),  p = softmax over the list (float),  z[r][h] = Σ_s
///   p[s]·c[s], rounded once z, q      [rows, heads, rank] act latent    [blocks · block_tokens,
///   rank] act, paged (kv_append wrote this step's rows already) selected  [rows, list] i32
///   ascending positions, count [rows] i32 (index_select)
/// Reduction tree: the list in order, in fixed segments of kAttentionSegment entries, each with its
/// own maximum; segments merge in order. So the bits depend on the list alone. Rows with count 0
/// give zeros. rank is at most kMaxLatentRank.
void mla_attention(TensorView z, ConstTensorView q, ConstTensorView latent,
                   ConstTensorView selected, ConstTensorView count, float scale,
                   const StepRows& rows, Stream& stream) noexcept;

constexpr int kAttentionSegment = 64;
constexpr int64_t kMaxLatentRank = 1024;

}  // namespace yoke::kernels
