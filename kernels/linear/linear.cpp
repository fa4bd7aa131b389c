#include "kernels/linear/linear.h"

#include <algorithm>

#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/exl3/exl3.h"
#include "kernels/linear/bf16_dot.h"
#include "kernels/linear/dense_product.h"

namespace yoke::kernels {
namespace {

void multiply(const DenseProduct& product, int64_t rows, int64_t out, ThreadPool& threads) {
  threads.for_range(
      out, grain_for(dense_product_ns(product.in, rows)),
      [&](int64_t begin, int64_t end, int) { dense_product(product, rows, begin, end); });
}

/// Many rows: packed once, then read by all threads.
void multiply_packed(const DenseProduct& product, int64_t rows, int64_t out, float* packed,
                     ThreadPool& threads) {
  threads.for_range(rows, grain_for(product.in), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) dense_pack_row(packed, r, rows, product);
  });
  // Whole strips of outputs, so that none is turned by two threads.
  constexpr int64_t kOutputs = 64;
  const int64_t strip_ns = kOutputs * dense_packed_ns(product.in, rows);
  threads.for_range((out + kOutputs - 1) / kOutputs, grain_for(strip_ns),
                    [&](int64_t begin, int64_t end, int) {
                      dense_product_packed(product, packed, rows, begin * kOutputs,
                                           std::min(out, end * kOutputs));
                    });
}

void linear_dense(TensorView y, ConstTensorView x, ConstTensorView weight, TensorView scratch,
                  Stream& stream) {
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
  const bool has_scratch = scratch && scratch.elements() >= dense_packed_floats(in, rows);
  stream.launch("linear", [=] {
    if (has_scratch && packs_rows(product, rows)) {
      multiply_packed(product, rows, out, scratch.as<float>(), *threads);
    } else if (has_scratch && !uses_bf16_dot(product)) {
      DenseProduct widened = product;  // the same values, read more cheaply
      widened.x = {scratch.data, DType::f32, {rows, in}};
      load_floats(scratch.as<float>(), x, 0, rows * in);
      multiply(widened, rows, out, *threads);
    } else {
      multiply(product, rows, out, *threads);
    }
  });
}

}  // namespace

int64_t linear_scratch_floats(const LinearWeight& weight, int64_t rows) noexcept {
  return weight.is_exl3() ? exl3_scratch_floats(weight.exl3, rows)
                          : dense_packed_floats(weight.in(), rows);
}

void linear(TensorView y, ConstTensorView x, const LinearWeight& weight, TensorView scratch,
            Stream& stream) noexcept {
  if (weight.is_exl3()) {
    exl3_matmul(y, x, weight.exl3, scratch, stream);
  } else {
    linear_dense(y, x, weight.dense, scratch, stream);
  }
}

}  // namespace yoke::kernels
