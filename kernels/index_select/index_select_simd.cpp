// Scores are float: each dot product by dot_lanes (kernels/core/lanes.h), the sum over heads in
// ascending order, products and sums rounded separately. The choice is a total order (score, then
// lower pool; a NaN score is below every number), so that every rank and every run agrees. The same
// bits on every instruction set.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/core/act.h"
#include "kernels/core/simd_targets.h"
#include "kernels/index_select/index_select.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/index_select/index_select_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

/// Heads whose dot products with a key are taken together.
constexpr int64_t kScoreHeads = 4;

/// scores[p] += Σ_h weight[h] · max(0, dim^(-1/2) · q[h] · key[p]) over kHeads heads from `head`
/// on.
template <class Act, int kHeads>
HWY_NOINLINE void add_scores(float* scores, int64_t num_pools, int64_t r, int64_t head,
                             const ConstTensorView& iq, const ConstTensorView& iw,
                             const ConstTensorView& pools, int32_t pool_tokens,
                             const StepRows& rows) {
  const int64_t heads = iq.dim(1);
  const int64_t dim = iq.dim(2);
  const int64_t width = padded_to_lanes(dim);
  const float head_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(heads)));
  const float dim_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  HWY_ALIGN float query[kHeads * kMaxIndexDim];
  HWY_ALIGN float key[kMaxIndexDim];
  float weights[kHeads];
  for (int64_t h = 0; h < kHeads; ++h) {
    widen_padded(query + h * width, iq.as<Act>() + (r * heads + head + h) * dim, dim);
    weights[h] = load_float(iw, r * heads + head + h) * head_scale;
  }
  for (int64_t p = 0; p < num_pools; ++p) {
    const int64_t at = rows.cache_row(rows.slot[r], p * pool_tokens) / pool_tokens;
    widen_padded(key, pools.as<Act>() + at * dim, dim);
    float dots[kHeads];
    dots_in_lanes<kHeads>(dots, query, width, key, width);
    for (int h = 0; h < kHeads; ++h) {
      const float match = dim_scale * dots[h];
      scores[p] += weights[h] * (match > 0 ? match : 0.0f);
    }
  }
}

template <class Act>
HWY_INLINE void score_typed(float* scores, int64_t num_pools, int64_t r, const ConstTensorView& iq,
                            const ConstTensorView& iw, const ConstTensorView& pools,
                            int32_t pool_tokens, const StepRows& rows) {
  std::fill_n(scores, num_pools, 0.0f);
  int64_t h = 0;
  for (; h + kScoreHeads <= iq.dim(1); h += kScoreHeads)
    add_scores<Act, kScoreHeads>(scores, num_pools, r, h, iq, iw, pools, pool_tokens, rows);
  for (; h < iq.dim(1); ++h)
    add_scores<Act, 1>(scores, num_pools, r, h, iq, iw, pools, pool_tokens, rows);
  for (int64_t p = 0; p < num_pools; ++p) {
    if (std::isnan(scores[p])) scores[p] = -std::numeric_limits<float>::infinity();
  }
}

void score_pools(float* scores, int64_t num_pools, int64_t r, const ConstTensorView& iq,
                 const ConstTensorView& iw, const ConstTensorView& pools, int32_t pool_tokens,
                 const StepRows& rows) {
  if (iq.dtype == DType::bf16) {
    score_typed<bf16>(scores, num_pools, r, iq, iw, pools, pool_tokens, rows);
  } else {
    score_typed<float>(scores, num_pools, r, iq, iw, pools, pool_tokens, rows);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {
namespace {

HWY_EXPORT(score_pools);

struct Step {
  TensorView selected, count;
  ConstTensorView iq, iw, pools;
  IndexSelectParams params;
  TensorView scratch;
  StepRows rows;
};

/// The `top` best of `num_pools` pools, ascending. A heap of the best so far with the worst on top;
/// pools come in ascending order, so an equal score never displaces an earlier pool.
void choose_pools(int32_t* chosen, int64_t top, const float* scores, int64_t num_pools) {
  const auto better = [scores](int32_t a, int32_t b) {
    return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
  };
  std::iota(chosen, chosen + top, 0);
  std::make_heap(chosen, chosen + top, better);
  for (int64_t p = top; p < num_pools; ++p) {
    if (!better(static_cast<int32_t>(p), chosen[0])) continue;
    std::pop_heap(chosen, chosen + top, better);
    chosen[top - 1] = static_cast<int32_t>(p);
    std::push_heap(chosen, chosen + top, better);
  }
  std::sort(chosen, chosen + top);
}

/// Of a row, on average: its pools' scores, and some for its list.
int64_t row_ns(const Step& step) {
  const StepRows& rows = step.rows;
  int64_t pools = 0;
  for (int32_t r = 0; r < rows.rows; ++r) {
    const int32_t pools_of_row =
        rows.slot[r] < 0 ? 0 : (rows.position[r] + 1) / step.params.pool_tokens;
    if (pools_of_row > step.params.top_pools) pools += pools_of_row;
  }
  const int64_t ns_per_pool = step.iq.dim(1) * step.iq.dim(2) / 4;
  return pools * ns_per_pool / std::max(1, rows.rows) + step.selected.dim(1) / 2;
}

void select_row(const Step& step, int64_t r, int thread) {
  const int64_t width = step.selected.dim(1);
  int32_t* list = step.selected.as<int32_t>() + r * width;
  int32_t n = 0;
  if (step.rows.slot[r] >= 0) {
    const int32_t visible = step.rows.position[r] + 1;
    const int32_t m = step.params.pool_tokens;
    const int32_t num_pools = visible / m;
    if (num_pools <= step.params.top_pools) {
      for (; n < visible; ++n) list[n] = n;
    } else {
      const int64_t line = step.scratch.dim(1);
      YOKE_DCHECK(num_pools + step.params.top_pools <= line, "index_select: scratch too small");
      float* scores = static_cast<float*>(step.scratch.data) + thread * line;
      // Float-sized words that hold either kind; the two parts never overlap.
      int32_t* chosen = reinterpret_cast<int32_t*>(scores + num_pools);
      index_scores(scores, num_pools, r, step.iq, step.iw, step.pools, m, step.rows);
      choose_pools(chosen, step.params.top_pools, scores, num_pools);
      for (int32_t i = 0; i < step.params.top_pools; ++i) {
        for (int32_t j = 0; j < m; ++j) list[n++] = chosen[i] * m + j;
      }
      for (int32_t t = num_pools * m; t < visible; ++t) list[n++] = t;
    }
  }
  std::fill(list + n, list + width, -1);
  step.count.as<int32_t>()[r] = n;
}

}  // namespace

void index_scores(float* scores, int64_t num_pools, int64_t row, ConstTensorView iq,
                  ConstTensorView iw, ConstTensorView pools, int32_t pool_tokens,
                  const StepRows& rows) noexcept {
  YOKE_CHECK(iq.dim(2) <= kMaxIndexDim, "index_scores: head size");
  HWY_DYNAMIC_DISPATCH(score_pools)(scores, num_pools, row, iq, iw, pools, pool_tokens, rows);
}

void index_select(TensorView selected, TensorView count, ConstTensorView iq, ConstTensorView iw,
                  ConstTensorView pools, IndexSelectParams params, TensorView scratch,
                  const StepRows& rows, Stream& stream) noexcept {
  const Step step{selected, count, iq, iw, pools, params, scratch, rows};
  ThreadPool& threads = stream.threads();
  YOKE_CHECK(params.top_pools >= 1 && params.pool_tokens >= 1, "index_select: parameters");
  YOKE_CHECK(
      selected.dim(1) == int64_t{params.top_pools} * params.pool_tokens + params.pool_tokens - 1,
      "index_select: list width");
  YOKE_CHECK(iw.dim(1) == iq.dim(1) && pools.dim(1) == iq.dim(2) && pools.dtype == iq.dtype,
             "index_select: shapes or types differ");
  YOKE_CHECK(scratch.dim(0) >= threads.threads(), "index_select: a scratch line per thread");
  stream.launch("index_select", [=, &threads] {
    threads.for_range(step.rows.rows, grain_for(row_ns(step)),
                      [&](int64_t begin, int64_t end, int thread) {
                        for (int64_t r = begin; r < end; ++r) select_row(step, r, thread);
                      });
  });
}

}  // namespace yoke::kernels
#endif
