#include "kernels/moe_route/moe_route.h"

#include <algorithm>
#include <limits>

#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/core/row_math.h"

namespace yoke::kernels {
namespace {

constexpr int64_t kMaxChoices = 64;

struct Choice {
  float value;  // s + bias
  float score;  // s
  int32_t expert;
};

/// Keeps `best` sorted by descending value; a later expert never passes an equal earlier one.
void insert(Choice* best, int64_t& filled, int64_t k, Choice c) {
  if (filled == k && !(c.value > best[k - 1].value)) return;
  int64_t at = filled < k ? filled++ : k - 1;
  for (; at > 0 && c.value > best[at - 1].value; --at) best[at] = best[at - 1];
  best[at] = c;
}

void route_row(int32_t* ids, float* weights, const float* logits, const float* bias,
               int64_t experts, int64_t k, MoeRouteParams params) {
  Choice best[kMaxChoices];
  int64_t filled = 0;
  float scores[kRowChunk];
  for (int64_t begin = 0; begin < experts; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, experts - begin);
    sigmoid_run(scores, logits + begin, count);
    for (int64_t i = 0; i < count; ++i) {
      float value = scores[i] + bias[begin + i];
      if (value != value) value = -std::numeric_limits<float>::infinity();  // NaN: last
      insert(best, filled, k, {value, scores[i], static_cast<int32_t>(begin + i)});
    }
  }
  double sum = 1e-20;
  for (int64_t j = 0; j < k; ++j) sum += double{best[j].score};
  for (int64_t j = 0; j < k; ++j) {
    ids[j] = best[j].expert;
    const double share = params.normalise ? best[j].score / sum : double{best[j].score};
    weights[j] = static_cast<float>(share * double{params.scaling});
  }
}

}  // namespace

void moe_route(TensorView ids, TensorView weights, ConstTensorView logits, ConstTensorView bias,
               MoeRouteParams params, const int32_t* slot, Stream& stream) noexcept {
  YOKE_CHECK(ids.dtype == DType::i32 && weights.dtype == DType::f32 && logits.dtype == DType::f32 &&
                 bias.dtype == DType::f32,
             "moe_route: wrong type");
  YOKE_CHECK(ids.rank() == 2 && logits.rank() == 2 && ids.shape == weights.shape &&
                 ids.dim(0) == logits.dim(0) && bias.elements() == logits.dim(1),
             "moe_route: want ids and weights [rows, k], logits [rows, experts], bias [experts]");
  YOKE_CHECK(ids.dim(1) <= std::min(kMaxChoices, logits.dim(1)), "moe_route: k is too large");
  ThreadPool* threads = &stream.threads();
  stream.launch("moe_route", [=] {
    const int64_t k = ids.dim(1);
    const int64_t experts = logits.dim(1);
    threads->for_range(ids.dim(0), grain_for(experts * 10), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        int32_t* row_ids = ids.as<int32_t>() + r * k;
        float* row_weights = weights.as<float>() + r * k;
        if (slot != nullptr && slot[r] < 0) {
          std::fill_n(row_ids, k, -1);
          std::fill_n(row_weights, k, 0.0f);
        } else {
          route_row(row_ids, row_weights, logits.as<float>() + r * experts, bias.as<float>(),
                    experts, k, params);
        }
      }
    });
  });
}

void moe_segments(TensorView offsets, TensorView items, ConstTensorView ids,
                  Stream& stream) noexcept {
  YOKE_CHECK(offsets.dtype == DType::i32 && items.dtype == DType::i32 && ids.dtype == DType::i32,
             "moe_segments: wrong type");
  YOKE_CHECK(offsets.elements() >= 2 && items.elements() == ids.elements(),
             "moe_segments: want offsets [experts + 1], items and ids of one size");
  stream.launch("moe_segments", [=] {
    const int64_t experts = offsets.elements() - 1;
    const int64_t pairs = ids.elements();
    const int32_t* id = ids.as<int32_t>();
    int32_t* first = offsets.as<int32_t>();
    int32_t* item = items.as<int32_t>();
    // Count, sum up, place: a stable counting sort. While placing, first[e] is the next free place
    // of expert e, which ends as the first place of e + 1: shift by one afterwards.
    std::fill_n(first, experts + 1, 0);
    for (int64_t i = 0; i < pairs; ++i) {
      YOKE_DCHECK(id[i] < experts, "moe_segments: id beyond the experts");
      if (id[i] >= 0) ++first[id[i] + 1];
    }
    for (int64_t e = 0; e < experts; ++e) first[e + 1] += first[e];
    const int32_t placed = first[experts];
    for (int64_t i = 0; i < pairs; ++i) {
      if (id[i] >= 0) item[first[id[i]]++] = static_cast<int32_t>(i);
    }
    for (int64_t e = experts; e > 0; --e) first[e] = first[e - 1];
    first[0] = 0;
    std::fill(item + placed, item + pairs, -1);
  });
}

}  // namespace yoke::kernels
