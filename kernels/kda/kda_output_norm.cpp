// Float, the mean of squares by dot_lanes (kernels/core/lanes.h). One implementation serves as
// reference.
#include <cmath>

#include "kernels/core/act.h"
#include "kernels/core/lanes.h"
#include "kernels/core/math.h"
#include "kernels/kda/kda.h"

namespace yoke::kernels {

void kda_output_norm(TensorView y, ConstTensorView o, ConstTensorView gate, ConstTensorView weight,
                     float eps, Stream& stream) noexcept {
  const int64_t dim = weight.dim(0);
  const int64_t width = o.dim(1);
  YOKE_CHECK(width % dim == 0, "kda_output_norm: width is not heads · d");
  YOKE_CHECK(y.shape == o.shape && gate.shape == o.shape, "kda_output_norm: shapes differ");
  YOKE_CHECK(y.dtype == o.dtype && gate.dtype == o.dtype, "kda_output_norm: types differ");
  ThreadPool& threads = stream.threads();
  stream.launch("kda_output_norm", [=, &threads] {
    threads.for_range(o.dim(0) * (width / dim), 4, [&](int64_t begin, int64_t end, int) {
      dispatch_act(o.dtype, [&](auto act) {
        using Act = decltype(act);
        for (int64_t item = begin; item < end; ++item) {
          const Act* in = o.as<Act>() + item * dim;
          const Act* gates = gate.as<Act>() + item * dim;
          Act* out = y.as<Act>() + item * dim;
          const float mean = dot_lanes(in, in, dim) / static_cast<float>(dim);
          const float scale = 1.0f / std::sqrt(mean + eps);
          for (int64_t i = 0; i < dim; ++i) {
            const float open = static_cast<float>(sigmoid64(widen(gates[i])));
            out[i] = narrow<Act>(widen(in[i]) * scale * load_float(weight, i) * open);
          }
        }
      });
    });
  });
}

}  // namespace yoke::kernels
