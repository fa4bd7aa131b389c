#include "kernels/linear/linear.h"

#include "kernels/exl3/exl3.h"

namespace yoke::kernels {

void linear(TensorView y, ConstTensorView x, const LinearWeight& weight, TensorView scratch,
            Stream& stream) noexcept {
  if (weight.is_exl3()) {
    exl3_matmul(y, x, weight.exl3, scratch, stream);
  } else {
    linear_ref(y, x, weight.dense, stream);
  }
}

}  // namespace yoke::kernels
