#include <algorithm>

#include "kernels/core/math.h"
#include "kernels/swiglu/swiglu.h"

namespace yoke::kernels {

void swiglu_ref(TensorView y, ConstTensorView gate, ConstTensorView up, float limit,
                Stream& stream) noexcept {
  stream.launch("swiglu_ref", [=] {
    for (int64_t i = 0; i < y.elements(); ++i) {
      const double g = std::min(load_float(gate, i), limit);
      const double u = std::clamp(load_float(up, i), -limit, limit);
      store_float(y, i, static_cast<float>(silu64(g) * u));
    }
  });
}

}  // namespace yoke::kernels
