#include "kernels/head_linear/head_linear.h"

namespace yoke::kernels {

void head_linear_ref(TensorView y, ConstTensorView x, ConstTensorView w, Stream& stream) noexcept {
  stream.launch("head_linear_ref", [=] {
    const int64_t heads = w.dim(0);
    const int64_t out = w.dim(1);
    const int64_t in = w.dim(2);
    for (int64_t r = 0; r < x.elements() / (heads * in); ++r) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t o = 0; o < out; ++o) {
          double sum = 0;
          for (int64_t i = 0; i < in; ++i)
            sum += double{load_float(w, (h * out + o) * in + i)} *
                   load_float(x, (r * heads + h) * in + i);
          store_float(y, (r * heads + h) * out + o, static_cast<float>(sum));
        }
      }
    }
  });
}

}  // namespace yoke::kernels
