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
  int64_t heads, dim;
};

template <class Act>
void score_pools(float* scores, const Step& step, int64_t r, int64_t num_pools) {
  const float head_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(step.heads)));
  const float dim_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(step.dim)));
  const Act* query = step.iq.as<Act>() + r * step.heads * step.dim;
  for (int64_t p = 0; p < num_pools; ++p) {
    const int64_t at = step.rows.cache_row(step.rows.slot[r], p * step.params.pool_tokens) /
                       step.params.pool_tokens;
    const Act* key = step.pools.as<Act>() + at * step.dim;
    float score = 0;
    for (int64_t h = 0; h < step.heads; ++h) {
      const float match = dim_scale * dot_lanes(query + h * step.dim, key, step.dim);
      const float weight = load_float(step.iw, r * step.heads + h) * head_scale;
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
      dispatch_act(step.iq.dtype,
                   [&](auto act) { score_pools<decltype(act)>(scores, step, r, num_pools); });
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

void index_select(TensorView selected, TensorView count, ConstTensorView iq, ConstTensorView iw,
                  ConstTensorView pools, IndexSelectParams params, TensorView scratch,
                  const StepRows& rows, Stream& stream) noexcept {
  const Step step{selected, count, iq, iw, pools, params, scratch, rows, iq.dim(1), iq.dim(2)};
  ThreadPool& threads = stream.threads();
  YOKE_CHECK(params.top_pools >= 1 && params.pool_tokens >= 1, "index_select: parameters");
  YOKE_CHECK(
      selected.dim(1) == int64_t{params.top_pools} * params.pool_tokens + params.pool_tokens - 1,
      "index_select: list width");
  YOKE_CHECK(iw.dim(1) == step.heads && pools.dim(1) == step.dim && pools.dtype == iq.dtype,
             "index_select: shapes or types differ");
  YOKE_CHECK(scratch.dim(0) >= threads.threads(), "index_select: a scratch line per thread");
  stream.launch("index_select", [=, &threads] {
    threads.for_range(step.rows.rows, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = begin; r < end; ++r) select_row(step, r, thread);
    });
  });
}

}  // namespace yoke::kernels
