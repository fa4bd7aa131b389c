#include <cmath>

#include "kernels/layer_norm/layer_norm.h"

namespace yoke::kernels {

void layer_norm_ref(TensorView y, ConstTensorView x, ConstTensorView weight, ConstTensorView bias,
                    float eps, Stream& stream) noexcept {
  stream.launch("layer_norm_ref", [=] {
    const int64_t n = weight.elements();
    for (int64_t r = 0; r < x.elements() / n; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += double{load_float(x, r * n + i)};
      const double mean = sum / static_cast<double>(n);
      double squares = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double d = load_float(x, r * n + i) - mean;
        squares += d * d;
      }
      const double scale =
          1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(eps));
      for (int64_t i = 0; i < n; ++i) {
        const double d = load_float(x, r * n + i) - mean;
        const double w = load_float(weight, i);
        const double b = load_float(bias, i);
        store_float(y, r * n + i, static_cast<float>(d * scale * w + b));
      }
    }
  });
}

}  // namespace yoke::kernels
