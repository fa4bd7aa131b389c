#include "config/check.h"
#include "kernels/exl3/exl3.h"

namespace yoke::kernels {

int64_t exl3_scratch_floats(const Exl3Matrix& w, int64_t rows) noexcept {
  return rows * (w.in + w.out);
}

void exl3_matmul(TensorView y, ConstTensorView x, const Exl3Matrix& w, TensorView scratch,
                 Stream& stream) noexcept {
  YOKE_CHECK(scratch.elements() >= exl3_scratch_floats(w, x.elements() / w.in),
             "exl3_matmul: scratch too small");
  exl3_matmul_ref(y, x, w, stream);
}

}  // namespace yoke::kernels
