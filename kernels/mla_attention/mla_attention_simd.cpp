// Float throughout, products and sums rounded separately; exp is our float64 exp rounded to float.
//   score      scale · dot_lanes(q, c) (kernels/core/lanes.h)
//   segment    own maximum; p, Σp and Σp·c with the list ascending
//   merge      running (maximum, Σ, z) ← segment, segments ascending; z / Σ at the end, one
//   rounding
// The same bits on every instruction set. An item is a row and kMlaHeads of its heads: a segment's
// latents are widened once for all of them.
#include <algorithm>
#include <limits>

#include "kernels/core/act.h"
#include "kernels/core/math.h"
#include "kernels/core/simd_targets.h"
#include "kernels/mla_attention/mla_step.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/mla_attention/mla_attention_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/lanes-inl.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Softmax-weighted sums over a part of the list, not yet divided by the sum of weights.
struct Partial {
  float highest[kMlaHeads];
  float sum[kMlaHeads];
  HWY_ALIGN float z[kMlaHeads * kMaxLatentRank];  // [head][padded rank]
};

HWY_INLINE float exp_float(float x) {
  return static_cast<float>(yoke::kernels::exp64(x));
}

/// z[h][d] = Σ_i weights[h][i] · latent[i][d], i ascending.
template <int kHeads>
HWY_INLINE void weighted_sums(float* HWY_RESTRICT z, const float (*weights)[kAttentionSegment],
                              const float* HWY_RESTRICT latent, int64_t tokens, int64_t width) {
  const DLanes d;
  for (int64_t at = 0; at < width; at += kDotLanes) {
    VLanes sums[kHeads][kLaneVectors];
    HWY_UNROLL(8)
    for (int h = 0; h < kHeads; ++h) {
      HWY_UNROLL(16)
      for (int v = 0; v < kLaneVectors; ++v) sums[h][v] = hn::Zero(d);
    }
    for (int64_t i = 0; i < tokens; ++i) {
      VLanes c[kLaneVectors];
      HWY_UNROLL(16)
      for (int v = 0; v < kLaneVectors; ++v)
        c[v] = hn::Load(d, latent + i * width + at + v * kLaneFloats);
      HWY_UNROLL(8)
      for (int h = 0; h < kHeads; ++h) {
        const VLanes weight = hn::Set(d, weights[h][i]);
        HWY_UNROLL(16)
        for (int v = 0; v < kLaneVectors; ++v) sums[h][v] = add_product(sums[h][v], weight, c[v]);
      }
    }
    HWY_UNROLL(8)
    for (int h = 0; h < kHeads; ++h) {
      HWY_UNROLL(16)
      for (int v = 0; v < kLaneVectors; ++v)
        hn::Store(sums[h][v], d, z + h * width + at + v * kLaneFloats);
    }
  }
}

/// One segment of the list for kHeads heads; q and latent widened and padded.
template <int kHeads>
HWY_INLINE void attend_segment(Partial& part, const float* q, const float* latent, int64_t tokens,
                               float scale, int64_t width) {
  float weights[kHeads][kAttentionSegment];
  for (int h = 0; h < kHeads; ++h) part.highest[h] = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < tokens; ++i) {
    float scores[kHeads];
    dots_in_lanes<kHeads>(scores, q, width, latent + i * width, width);
    for (int h = 0; h < kHeads; ++h) {
      weights[h][i] = scale * scores[h];
      part.highest[h] = std::max(part.highest[h], weights[h][i]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int64_t i = 0; i < tokens; ++i) weights[h][i] -= part.highest[h];
    map_in_double(weights[h], weights[h], tokens, [](VDouble x) HWY_ATTR { return exp64(x); });
    part.sum[h] = 0;
    for (int64_t i = 0; i < tokens; ++i) part.sum[h] += weights[h][i];
  }
  weighted_sums<kHeads>(part.z, weights, latent, tokens, width);
}

template <int kHeads>
HWY_INLINE void merge(Partial& total, const Partial& part, int64_t width) {
  const DLanes d;
  for (int h = 0; h < kHeads; ++h) {
    const float highest = std::max(total.highest[h], part.highest[h]);
    const float old_scale = exp_float(total.highest[h] - highest);
    const float new_scale = exp_float(part.highest[h] - highest);
    total.highest[h] = highest;
    total.sum[h] = total.sum[h] * old_scale + part.sum[h] * new_scale;
    for (int64_t i = 0; i < width; i += kLaneFloats) {
      float* z = total.z + h * width + i;
      const VLanes old_part = hn::Mul(hn::Load(d, z), hn::Set(d, old_scale));
      hn::Store(add_product(old_part, hn::Load(d, part.z + h * width + i), hn::Set(d, new_scale)),
                d, z);
    }
  }
}

/// Heads [head, head + kHeads) of row r.
template <class Act, int kHeads>
HWY_NOINLINE void attend(const MlaStep& step, int64_t r, int64_t head) {
  const int64_t rank = step.rank;
  const int64_t width = padded_to_lanes(rank);
  const int64_t first_head = (r * step.heads + head) * rank;
  Act* out = step.z.as<Act>() + first_head;
  const int32_t count = step.count.as<int32_t>()[r];
  if (count == 0) {
    std::fill_n(out, kHeads * rank, Act{});
    return;
  }
  HWY_ALIGN float q[kMlaHeads * kMaxLatentRank];
  HWY_ALIGN float latent[kAttentionSegment * kMaxLatentRank];
  for (int h = 0; h < kHeads; ++h)
    widen_padded(q + h * width, step.q.as<Act>() + first_head + h * rank, rank);
  const int32_t* list = step.selected.as<int32_t>() + r * step.selected.dim(1);
  Partial total;
  Partial part;
  const auto attend_from = [&](int32_t first, Partial& to) HWY_ATTR {
    const int32_t tokens = std::min(kAttentionSegment, count - first);
    for (int32_t i = 0; i < tokens; ++i) {
      const int64_t at = step.rows.cache_row(step.rows.slot[r], list[first + i]);
      widen_padded(latent + i * width, step.latent.as<Act>() + at * rank, rank);
    }
    attend_segment<kHeads>(to, q, latent, tokens, step.scale, width);
  };
  attend_from(0, total);
  for (int32_t first = kAttentionSegment; first < count; first += kAttentionSegment) {
    attend_from(first, part);
    merge<kHeads>(total, part, width);
  }
  for (int h = 0; h < kHeads; ++h) {
    const float* z = total.z + h * width;
    const VLanes sum = hn::Set(DLanes(), total.sum[h]);
    int64_t i = 0;
    for (; i + kLaneFloats <= rank; i += kLaneFloats)
      store_rounded(DLanes(), hn::Div(hn::Load(DLanes(), z + i), sum), out + h * rank + i);
    for (; i < rank; ++i) out[h * rank + i] = narrow<Act>(z[i] / total.sum[h]);
  }
}

template <class Act>
void attend_typed(const MlaStep& step, int64_t r, int64_t head) {
  switch (std::min(kMlaHeads, step.heads - head)) {
    case 1:
      return attend<Act, 1>(step, r, head);
    case 2:
      return attend<Act, 2>(step, r, head);
    case 3:
      return attend<Act, 3>(step, r, head);
    default:
      return attend<Act, 4>(step, r, head);
  }
}

void attend_heads(const MlaStep& step, int64_t r, int64_t head) {
  if (step.q.dtype == DType::bf16) {
    attend_typed<bf16>(step, r, head);
  } else {
    attend_typed<float>(step, r, head);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {
namespace {

HWY_EXPORT(attend_heads);

/// Of an item, on average: the lists' entries, each read twice by kMlaHeads heads.
int64_t item_ns(const MlaStep& step, int64_t items) {
  int64_t entries = 0;
  for (int32_t r = 0; r < step.rows.rows; ++r) entries += step.count.as<int32_t>()[r];
  return entries * step.heads * step.rank / 8 / std::max<int64_t>(1, items);
}

}  // namespace

void mla_attention(TensorView z, ConstTensorView q, ConstTensorView latent,
                   ConstTensorView selected, ConstTensorView count, float scale,
                   const StepRows& rows, Stream& stream) noexcept {
  const MlaStep step{z, q, latent, selected, count, scale, rows, q.dim(1), q.dim(2)};
  YOKE_CHECK(step.rank >= 1 && step.rank <= kMaxLatentRank, "mla_attention: latent rank");
  YOKE_CHECK(latent.dim(1) == step.rank && z.shape == q.shape, "mla_attention: shapes differ");
  YOKE_CHECK(z.dtype == q.dtype && latent.dtype == q.dtype, "mla_attention: types differ");
  YOKE_CHECK(q.dtype == DType::bf16 || q.dtype == DType::f32, "mla_attention: wrong type");
  ThreadPool& threads = stream.threads();
  stream.launch("mla_attention", [=, &threads] {
    const int64_t groups = (step.heads + kMlaHeads - 1) / kMlaHeads;
    const int64_t items = int64_t{step.rows.rows} * groups;
    threads.for_range(items, grain_for(item_ns(step, items)), [&](int64_t begin, int64_t end, int) {
      for (int64_t item = begin; item < end; ++item)
        HWY_DYNAMIC_DISPATCH(attend_heads)(step, item / groups, item % groups * kMlaHeads);
    });
  });
}

}  // namespace yoke::kernels
#endif
