#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/exl3/exl3.h"
#include "kernels/exl3/exl3_product.h"

namespace yoke::kernels {

int64_t exl3_scratch_floats(const Exl3Matrix& w, int64_t rows) noexcept {
  return rows * (w.in + w.out);
}

void exl3_matmul(TensorView y, ConstTensorView x, const Exl3Matrix& w, TensorView scratch,
                 Stream& stream) noexcept {
  YOKE_CHECK(is_float_type(x.dtype) && is_act_type(y.dtype) && scratch.dtype == DType::f32,
             "exl3_matmul: wrong type");
  YOKE_CHECK(w.in > 0 && w.in % kExl3Block == 0 && w.out > 0 && w.out % kExl3Block == 0 &&
                 w.bits >= 1 && w.bits <= 8,
             "exl3_matmul: matrix is not [128·a, 128·b] of 1 to 8 bits");
  const int64_t rows = x.elements() / w.in;
  YOKE_CHECK(x.elements() == rows * w.in && y.elements() == rows * w.out,
             "exl3_matmul: want x [rows, in], y [rows, out]");
  YOKE_CHECK(scratch.elements() >= exl3_scratch_floats(w, rows), "exl3_matmul: scratch too small");
  ThreadPool* threads = &stream.threads();
  stream.launch("exl3_matmul", [=] {
    float* tiles = scratch.as<float>();
    float* sums = tiles + rows * w.in;
    threads->for_range(rows, grain_for(exl3_transform_ns(w.in)),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t r = begin; r < end; ++r)
                           exl3_transform_input(tiles, r, rows, x, r, w);
                       });
    threads->for_range(w.out / kExl3Block, grain_for(exl3_block_ns(w.in, rows)),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t b = begin; b < end; ++b) {
                           float* v = sums + b * rows * kExl3Block;
                           exl3_multiply_block(v, tiles, rows, w, b);
                           for (int64_t r = 0; r < rows; ++r)
                             exl3_store_block(y, r, v + r * kExl3Block, w, b);
                         }
                       });
  });
}

}  // namespace yoke::kernels
