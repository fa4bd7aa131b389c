#include "kernels/head_linear/head_linear.h"

#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/linear/dense_product.h"

namespace yoke::kernels {

void head_linear(TensorView y, ConstTensorView x, ConstTensorView w, Stream& stream) noexcept {
  YOKE_CHECK(is_act_type(x.dtype) && is_act_type(y.dtype) && is_float_type(w.dtype),
             "head_linear: wrong type");
  YOKE_CHECK(w.rank() == 3, "head_linear: want w [heads, out, in]");
  const int64_t heads = w.dim(0);
  const int64_t out = w.dim(1);
  const int64_t in = w.dim(2);
  const int64_t rows = x.elements() / (heads * in);
  YOKE_CHECK(x.elements() == rows * heads * in && y.elements() == rows * heads * out,
             "head_linear: want x [rows, heads, in], y [rows, heads, out]");
  ThreadPool* threads = &stream.threads();
  stream.launch("head_linear", [=] {
    threads->for_range(heads, grain_for(out * dense_product_ns(in, rows)),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t h = begin; h < end; ++h) {
                           const DenseProduct product{.y = y,
                                                      .x = x,
                                                      .w = w,
                                                      .in = in,
                                                      .w_offset = h * out * in,
                                                      .x_offset = h * in,
                                                      .x_stride = heads * in,
                                                      .y_offset = h * out,
                                                      .y_stride = heads * out};
                           dense_product(product, rows, 0, out);
                         }
                       });
  });
}

}  // namespace yoke::kernels
