#include "kernels/linear/linear.h"

#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/exl3/exl3.h"
#include "kernels/linear/dense_product.h"

namespace yoke::kernels {
namespace {

void linear_dense(TensorView y, ConstTensorView x, ConstTensorView weight, Stream& stream) {
  YOKE_CHECK(is_act_type(x.dtype) && is_act_type(y.dtype) && is_float_type(weight.dtype),
             "linear: wrong type");
  YOKE_CHECK(weight.rank() == 2, "linear: want weight [out, in]");
  const int64_t out = weight.dim(0);
  const int64_t in = weight.dim(1);
  const int64_t rows = in > 0 ? x.elements() / in : 0;
  YOKE_CHECK(x.elements() == rows * in && y.elements() == rows * out,
             "linear: want x [rows, in], y [rows, out]");
  const DenseProduct product{
      .y = y, .x = x, .w = weight, .in = in, .x_stride = in, .y_stride = out};
  ThreadPool* threads = &stream.threads();
  stream.launch("linear", [=] {
    threads->for_range(
        out, grain_for(dense_product_ns(in, rows)),
        [&](int64_t begin, int64_t end, int) { dense_product(product, rows, begin, end); });
  });
}

}  // namespace

void linear(TensorView y, ConstTensorView x, const LinearWeight& weight, TensorView scratch,
            Stream& stream) noexcept {
  if (weight.is_exl3()) {
    exl3_matmul(y, x, weight.exl3, scratch, stream);
  } else {
    linear_dense(y, x, weight.dense, stream);
  }
}

}  // namespace yoke::kernels
