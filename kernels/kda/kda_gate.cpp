// Per element: float arithmetic around our float64 exp, each of e^a_log and the sigmoid rounded to
// float once. One implementation serves as reference.
#include "kernels/core/act.h"
#include "kernels/core/math.h"
#include "kernels/kda/kda.h"

namespace yoke::kernels {
namespace {

float log_decay(float rate, float z, std::optional<float> lower_bound) {
  if (lower_bound) return *lower_bound * static_cast<float>(sigmoid64(rate * z));
  return -rate * static_cast<float>(softplus64(z));
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
    threads.for_range(rows * heads, 2, [&](int64_t begin, int64_t end, int) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t head = item % heads;
        const float rate = static_cast<float>(exp64(a_log.as<float>()[head]));
        const float* bias = dt_bias.as<float>() + head * dim;
        float* out = g.as<float>() + item * dim;
        for (int64_t i = 0; i < dim; ++i)
          out[i] = log_decay(rate, load_float(z, item * dim + i) + bias[i], lower_bound);
        beta.as<float>()[item] = static_cast<float>(sigmoid64(load_float(b, item)));
      }
    });
  });
}

}  // namespace yoke::kernels
