#include "kernels/linear/linear.h"

namespace yoke::kernels {

void linear_ref(TensorView y, ConstTensorView x, ConstTensorView weight, Stream& stream) noexcept {
  stream.launch("linear_ref", [=] {
    const int64_t out = weight.dim(0);
    const int64_t in = weight.dim(1);
    for (int64_t r = 0; r < x.elements() / in; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < in; ++i)
          sum += double{load_float(weight, o * in + i)} * load_float(x, r * in + i);
        store_float(y, r * out + o, static_cast<float>(sum));
      }
    }
  });
}

}  // namespace yoke::kernels
