// Scores are float: each dot product by dot_lanes (kernels/core/lanes.h), the sum over heads in
// ascending order, products and sums rounded separately. The choice is a total order (score, then
// lower pool; a NaN score is below every number), so that every rank and every run agrees. One
// implementation serves as reference.
#include "kernels/index_select/index_select.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/core/act.h"
#include "kernels/core/lanes.h"

namespace yoke::kernels {
namespace {

struct Step {
  TensorView selected, count;
  ConstTensorView iq, iw, pools;
  IndexSelectParams params;
  TensorView scratch;
  StepRows rows;
};

template <class Act>
void score_pools(float* scores, int64_t num_pools, int64_t r, ConstTensorView iq,
                 ConstTensorView iw, ConstTensorView pools, int32_t pool_tokens,
                 const StepRows& rows) {
  const int64_t heads = iq.dim(1);
  const int64_t dim = iq.dim(2);
  const float head_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(heads)));
  const float dim_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
  const Act* query = iq.as<Act>() + r * heads * dim;
  for (int64_t p = 0; p < num_pools; ++p) {
    const int64_t at = rows.cache_row(rows.slot[r], p * pool_tokens) / pool_tokens;
    const Act* key = pools.as<Act>() + at * dim;
    float score = 0;
    for (int64_t h = 0; h < heads; ++h) {
      const float match = dim_scale * dot_lanes(query + h * dim, key, dim);
      const float weight = load_float(iw, r * heads + h) * head_scale;
      score += weight * (match > 0 ? match : 0.0f);
    }
    scores[p] = std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  }
}

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
  dispatch_act(iq.dtype, [&](auto act) {
    score_pools<decltype(act)>(scores, num_pools, row, iq, iw, pools, pool_tokens, rows);
  });
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
    threads.for_range(step.rows.rows, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = begin; r < end; ++r) select_row(step, r, thread);
    });
  });
}

}  // namespace yoke::kernels
