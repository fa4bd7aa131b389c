#include "kernels/exl3/exl3_product.h"

#include "kernels/core/row_io.h"
#include "kernels/exl3/hadamard.h"

namespace yoke::kernels {
namespace {

float round_to_f16(float x) {
  return to_float(to_f16(x));
}

/// Place of input i of a tile in its 16 floats.
constexpr int64_t tile_place(int64_t i) {
  return (i & 1) * 4 + (i >> 3) * 8 + (i >> 1 & 3);
}

}  // namespace

void exl3_transform_input(float* tiles, int64_t row, int64_t rows, const ConstTensorView& x,
                          int64_t x_row, const Exl3Matrix& w) noexcept {
  const bool rounded = x.dtype != DType::f32;
  float z[kExl3Block];
  float scales[kExl3Block];
  for (int64_t begin = 0; begin < w.in; begin += kExl3Block) {
    load_floats(z, x, x_row * w.in + begin, kExl3Block);
    load_floats(scales, {w.suh, DType::f16, {w.in}}, begin, kExl3Block);
    for (int64_t i = 0; i < kExl3Block; ++i)
      z[i] = rounded ? round_to_f16(round_to_f16(z[i]) * scales[i]) : z[i] * scales[i];
    hadamard128(z);
    for (int64_t i = 0; i < kExl3Block; ++i) {
      const float value = z[i] * kHadamardScale;
      const int64_t k = begin + i;
      tiles[(k / 16 * rows + row) * 16 + tile_place(k % 16)] =
          rounded ? round_to_f16(value) : value;
    }
  }
}

void exl3_store_block(const TensorView& y, int64_t y_row, float* v, const Exl3Matrix& w,
                      int64_t block) noexcept {
  hadamard128(v);
  float scales[kExl3Block];
  load_floats(scales, {w.svh, DType::f16, {w.out}}, block * kExl3Block, kExl3Block);
  for (int64_t i = 0; i < kExl3Block; ++i) v[i] = v[i] * kHadamardScale * scales[i];
  store_floats(y, y_row * w.out + block * kExl3Block, v, kExl3Block);
}

}  // namespace yoke::kernels
