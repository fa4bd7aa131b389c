// Float, the mean of squares by dot_lanes (kernels/core/lanes.h), σ in float64 rounded to float.
// The same bits on every instruction set.
#include <algorithm>
#include <cmath>

#include "kernels/core/act.h"
#include "kernels/core/row_io.h"
#include "kernels/core/simd_targets.h"
#include "kernels/kda/kda.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kda/kda_output_norm_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/lanes-inl.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// y = o · scale · weight · σ(gate) for a chunk. `gate` holds whole vectors; y may alias o.
template <class Act>
HWY_INLINE void gated_chunk(Act* y, const Act* o, float* HWY_RESTRICT gate,
                            const float* HWY_RESTRICT weight, float scale, int64_t count) {
  const DLanes d;
  map_in_double(gate, gate, count, [](VDouble x) HWY_ATTR { return sigmoid64(x); });
  int64_t i = 0;
  for (; i + kLaneFloats <= count; i += kLaneFloats) {
    const VLanes scaled = hn::Mul(load_as_float(d, o + i), hn::Set(d, scale));
    const VLanes weighted = hn::Mul(scaled, hn::LoadU(d, weight + i));
    store_rounded(d, hn::Mul(weighted, hn::LoadU(d, gate + i)), y + i);
  }
  for (; i < count; ++i) y[i] = narrow<Act>(widen(o[i]) * scale * weight[i] * gate[i]);
}

/// One head of one row. `weight` as floats.
template <class Act>
HWY_INLINE void norm_head(const TensorView& y, const ConstTensorView& o,
                          const ConstTensorView& gate, const float* weight, int64_t dim, float eps,
                          int64_t item) {
  const Act* in = o.as<Act>() + item * dim;
  const float mean = dot_in_lanes(in, in, dim) / static_cast<float>(dim);
  const float scale = 1.0f / std::sqrt(mean + eps);
  float gates[kRowChunk];
  for (int64_t begin = 0; begin < dim; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, dim - begin);
    load_floats(gates, gate, item * dim + begin, count);
    gated_chunk(y.as<Act>() + item * dim + begin, in + begin, gates, weight + begin, scale, count);
  }
}

void norm_heads(const TensorView& y, const ConstTensorView& o, const ConstTensorView& gate,
                const float* weight, int64_t dim, float eps, int64_t item) {
  if (o.dtype == DType::bf16) {
    norm_head<bf16>(y, o, gate, weight, dim, eps, item);
  } else {
    norm_head<float>(y, o, gate, weight, dim, eps, item);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {

HWY_EXPORT(norm_heads);

void kda_output_norm(TensorView y, ConstTensorView o, ConstTensorView gate, ConstTensorView weight,
                     float eps, Stream& stream) noexcept {
  const int64_t dim = weight.dim(0);
  const int64_t width = o.dim(1);
  YOKE_CHECK(width % dim == 0 && dim <= kMaxKdaDim, "kda_output_norm: width is not heads · d");
  YOKE_CHECK(y.shape == o.shape && gate.shape == o.shape, "kda_output_norm: shapes differ");
  YOKE_CHECK(y.dtype == o.dtype && gate.dtype == o.dtype, "kda_output_norm: types differ");
  ThreadPool& threads = stream.threads();
  stream.launch("kda_output_norm", [=, &threads] {
    threads.for_range(o.dim(0) * (width / dim), grain_for(3 * dim),
                      [&](int64_t begin, int64_t end, int) {
                        float weights[kMaxKdaDim];
                        load_floats(weights, weight, 0, dim);
                        for (int64_t item = begin; item < end; ++item)
                          HWY_DYNAMIC_DISPATCH(norm_heads)(y, o, gate, weights, dim, eps, item);
                      });
  });
}

}  // namespace yoke::kernels
#endif
