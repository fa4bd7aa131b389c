// Float throughout, products and sums rounded separately; exp is our float64 exp rounded to float.
//   score      scale · dot_lanes(q, c) (kernels/core/lanes.h)
//   segment    own maximum; p, Σp and Σp·c with the list ascending
//   merge      running (maximum, Σ, z) ← segment, segments ascending; z / Σ at the end, one
//   rounding
// One implementation serves as reference.
#include "kernels/mla_attention/mla_attention.h"

#include <algorithm>
#include <limits>

#include "kernels/core/act.h"
#include "kernels/core/lanes.h"
#include "kernels/core/math.h"

namespace yoke::kernels {
namespace {

constexpr int64_t kWidth = 16;  // z is padded to a multiple, so inner loops have a constant length

float exp_float(float x) {
  return static_cast<float>(exp64(x));
}

/// Softmax-weighted sum over a part of the list, not yet divided by the sum of weights.
struct Partial {
  float highest = -std::numeric_limits<float>::infinity();
  float sum = 0;
  alignas(64) float z[kMaxLatentRank];
};

/// z += weight · c
template <class Act>
void add_scaled(float* z, float weight, const Act* c, int64_t rank) {
  int64_t d = 0;
  for (; d + kWidth <= rank; d += kWidth) {
    for (int64_t i = 0; i < kWidth; ++i) z[d + i] += weight * widen(c[d + i]);
  }
  for (; d < rank; ++d) z[d] += weight * widen(c[d]);
}

template <class Act>
void attend_segment(Partial& part, const Act* q, const Act* const* latent, int64_t tokens,
                    float scale, int64_t rank) {
  float weight[kAttentionSegment];
  part.highest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < tokens; ++i) {
    weight[i] = scale * dot_lanes(q, latent[i], rank);
    part.highest = std::max(part.highest, weight[i]);
  }
  part.sum = 0;
  std::fill_n(part.z, rank, 0.0f);
  for (int64_t i = 0; i < tokens; ++i) {
    const float p = exp_float(weight[i] - part.highest);
    part.sum += p;
    add_scaled(part.z, p, latent[i], rank);
  }
}

void merge(Partial& total, const Partial& part, int64_t rank) {
  const float highest = std::max(total.highest, part.highest);
  const float old_scale = exp_float(total.highest - highest);
  const float new_scale = exp_float(part.highest - highest);
  total.highest = highest;
  total.sum = total.sum * old_scale + part.sum * new_scale;
  for (int64_t d = 0; d < rank; ++d) total.z[d] = total.z[d] * old_scale + part.z[d] * new_scale;
}

struct Step {
  TensorView z;
  ConstTensorView q, latent, selected, count;
  float scale;
  StepRows rows;
  int64_t heads, rank;
};

template <class Act>
void attend(const Step& step, int64_t r, int64_t head) {
  const int64_t rank = step.rank;
  Act* out = step.z.as<Act>() + (r * step.heads + head) * rank;
  const int32_t count = step.count.as<int32_t>()[r];
  if (count == 0) {
    std::fill_n(out, rank, Act{});
    return;
  }
  const Act* q = step.q.as<Act>() + (r * step.heads + head) * rank;
  const int32_t* list = step.selected.as<int32_t>() + r * step.selected.dim(1);
  Partial total;
  Partial part;
  for (int32_t first = 0; first < count; first += kAttentionSegment) {
    const int32_t tokens = std::min(kAttentionSegment, count - first);
    const Act* latent[kAttentionSegment];
    for (int32_t i = 0; i < tokens; ++i)
      latent[i] =
          step.latent.as<Act>() + step.rows.cache_row(step.rows.slot[r], list[first + i]) * rank;
    if (first == 0) {
      attend_segment(total, q, latent, tokens, step.scale, rank);
    } else {
      attend_segment(part, q, latent, tokens, step.scale, rank);
      merge(total, part, rank);
    }
  }
  for (int64_t d = 0; d < rank; ++d) out[d] = narrow<Act>(total.z[d] / total.sum);
}

}  // namespace

void mla_attention(TensorView z, ConstTensorView q, ConstTensorView latent,
                   ConstTensorView selected, ConstTensorView count, float scale,
                   const StepRows& rows, Stream& stream) noexcept {
  const Step step{z, q, latent, selected, count, scale, rows, q.dim(1), q.dim(2)};
  YOKE_CHECK(step.rank >= 1 && step.rank <= kMaxLatentRank, "mla_attention: latent rank");
  YOKE_CHECK(latent.dim(1) == step.rank && z.shape == q.shape, "mla_attention: shapes differ");
  YOKE_CHECK(z.dtype == q.dtype && latent.dtype == q.dtype, "mla_attention: types differ");
  ThreadPool& threads = stream.threads();
  stream.launch("mla_attention", [=, &threads] {
    const int64_t items = int64_t{step.rows.rows} * step.heads;
    threads.for_range(items, 1, [&](int64_t begin, int64_t end, int) {
      dispatch_act(step.q.dtype, [&](auto act) {
        for (int64_t item = begin; item < end; ++item)
          attend<decltype(act)>(step, item / step.heads, item % step.heads);
      });
    });
  });
}

}  // namespace yoke::kernels
