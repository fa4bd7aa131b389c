#include <cmath>

#include "kernels/rms_norm/rms_norm.h"

namespace yoke::kernels {

void rms_norm_ref(TensorView y, ConstTensorView x, ConstTensorView weight, float eps,
                  Stream& stream) noexcept {
  stream.launch("rms_norm_ref", [=] {
    const int64_t n = weight.elements();
    for (int64_t r = 0; r < x.elements() / n; ++r) {
      double squares = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double v = load_float(x, r * n + i);
        squares += v * v;
      }
      const double scale =
          1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(eps));
      for (int64_t i = 0; i < n; ++i) {
        const double v = load_float(x, r * n + i);
        const double w = load_float(weight, i);
        store_float(y, r * n + i, static_cast<float>(v * scale * w));
      }
    }
  });
}

}  // namespace yoke::kernels
