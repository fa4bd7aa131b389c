// Per element: float arithmetic around our float64 exp, each of e^a_log and the sigmoid rounded to
// float once. The same bits on every instruction set.
#include <algorithm>

#include "config/check.h"
#include "kernels/core/math.h"
#include "kernels/core/row_io.h"
#include "kernels/core/row_math.h"
#include "kernels/core/simd_targets.h"
#include "kernels/kda/kda.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kda/kda_gate_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace yoke::kernels {
namespace HWY_NAMESPACE {

/// g[i] = bound · σ(rate · (z[i] + bias[i])); `g` may be `z`.
void bounded_decay(float* g, const float* z, const float* bias, int64_t count, float rate,
                   float bound) {
  for (int64_t i = 0; i < count; ++i) g[i] = rate * (z[i] + bias[i]);
  map_in_double(g, g, count, [](VDouble x) HWY_ATTR { return sigmoid64(x); });
  for (int64_t i = 0; i < count; ++i) g[i] *= bound;
}

}  // namespace HWY_NAMESPACE
}  // namespace yoke::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace yoke::kernels {
namespace {

HWY_EXPORT(bounded_decay);

/// g may be z.
void log_decay(float* g, const float* z, const float* bias, int64_t count, float rate,
               std::optional<float> lower_bound) {
  if (lower_bound) {
    HWY_DYNAMIC_DISPATCH(bounded_decay)(g, z, bias, count, rate, *lower_bound);
    return;
  }
  for (int64_t i = 0; i < count; ++i) g[i] = -rate * static_cast<float>(softplus64(z[i] + bias[i]));
}

}  // namespace

void kda_gate(TensorView g, TensorView beta, ConstTensorView z, ConstTensorView b,
              ConstTensorView a_log, ConstTensorView dt_bias, std::optional<float> lower_bound,
              Stream& stream) noexcept {
  const int64_t rows = z.dim(0);
  const int64_t width = z.dim(1);
  const int64_t heads = a_log.dim(0);
  YOKE_CHECK(width % heads == 0 && dt_bias.dim(0) == width, "kda_gate: widths differ");
  YOKE_CHECK(g.dim(0) == rows && g.dim(1) == width, "kda_gate: shape of g");
  YOKE_CHECK(beta.dim(0) == rows && beta.dim(1) == heads && b.dim(1) == heads,
             "kda_gate: shape of beta");
  ThreadPool& threads = stream.threads();
  stream.launch("kda_gate", [=, &threads] {
    const int64_t dim = width / heads;
    threads.for_range(rows, grain_for(3 * width), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        float* strength = beta.as<float>() + row * heads;
        load_floats(strength, b, row * heads, heads);
        sigmoid_run(strength, strength, heads);
        float* out = g.as<float>() + row * width;
        load_floats(out, z, row * width, width);
        for (int64_t head = 0; head < heads; ++head) {
          const float rate = static_cast<float>(exp64(a_log.as<float>()[head]));
          log_decay(out + head * dim, out + head * dim, dt_bias.as<float>() + head * dim, dim, rate,
                    lower_bound);
        }
      }
    });
  });
}

}  // namespace yoke::kernels
#endif
