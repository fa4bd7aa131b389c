#pragma once

#include "kernels/core/step_rows.h"
#include "kernels/core/stream.h"
#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

struct IndexSelectParams {
  int32_t top_pools = 0;    ///< index_topk / index_kpool
  int32_t pool_tokens = 0;  ///< index_kpool
};

/// Largest head size: a key is staged in an array of this length.
constexpr int64_t kMaxIndexDim = 4096;

/// The tokens each row attends to, ascending: the top pools by score among those complete at the
/// row's position, and the visible incomplete tail (spec/glm5_next.md 5.5). Ties: lower pool first.
///   score_p = Σ_h iw[h] · heads^(-1/2) · max(0, dim^(-1/2) · iq_h · pool_p), float
///   selected [rows, top_pools·pool_tokens + pool_tokens - 1] i32 positions; entries past the count
///   are -1 count    [rows] i32; 0 for padding rows iq [rows, heads, dim] act, iw [rows, heads] f32
///   or act, pools as in index_pool.h scratch  [threads, max pools per sequence + top_pools]
///   f32-sized words, one line per thread
/// While no more pools are complete than top_pools, all are taken and nothing is scored: the same
/// list.
void index_select(TensorView selected, TensorView count, ConstTensorView iq, ConstTensorView iw,
                  ConstTensorView pools, IndexSelectParams params, TensorView scratch,
                  const StepRows& rows, Stream& stream) noexcept;

/// The scores that index_select compares at row `row`: scores[p] for p < num_pools, all complete.
/// For tests that look at ties.
void index_scores(float* scores, int64_t num_pools, int64_t row, ConstTensorView iq,
                  ConstTensorView iw, ConstTensorView pools, int32_t pool_tokens,
                  const StepRows& rows) noexcept;

}  // namespace yoke::kernels
