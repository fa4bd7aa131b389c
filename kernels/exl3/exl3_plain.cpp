#include <algorithm>
#include <cmath>

#include "kernels/core/row_groups.h"
#include "kernels/core/row_io.h"
#include "kernels/exl3/exl3.h"
#include "kernels/exl3/exl3_packed.h"
#include "kernels/exl3/exl3_product.h"
#include "kernels/exl3/hadamard.h"

namespace yoke::kernels::exl3_plain {
namespace {

float round_to_f16(float x) {
  return to_float(to_f16(x));
}

/// A tile's weights, row by row in the order of the trellis.
void decode_tile(float weights[16][16], const Exl3Matrix& w, int64_t tk, int64_t tn) {
  uint16_t words[128];
  uint16_t states[256];
  exl3_tile_words(words, w, tk, tn);
  exl3_tile_states(states, words, w.bits);
  for (int i = 0; i < 256; ++i) {
    const int position = exl3_tile_position(i);
    weights[exl3_row_place(position / 16)][position % 16] =
        to_float(exl3_codebook_value(w.codebook, states[i]));
  }
}

}  // namespace

void transform_input(float* z, int64_t row, int64_t rows, const ConstTensorView& x, int64_t x_row,
                     const Exl3Matrix& w) noexcept {
  const bool rounded = x.dtype != DType::f32;
  const int64_t first = row / kGroupRows * kGroupRows;
  const int64_t size = group_size(rows, first);
  float* group = z + first * w.in + (row - first);
  float block[kExl3Block];
  float scales[kExl3Block];
  for (int64_t begin = 0; begin < w.in; begin += kExl3Block) {
    load_floats(block, x, x_row * w.in + begin, kExl3Block);
    load_floats(scales, {w.suh, DType::f16, {w.in}}, begin, kExl3Block);
    for (int64_t i = 0; i < kExl3Block; ++i)
      block[i] = rounded ? round_to_f16(round_to_f16(block[i]) * scales[i]) : block[i] * scales[i];
    hadamard128(block);
    for (int64_t i = 0; i < kExl3Block; ++i) {
      const float value = block[i] * kHadamardScale;
      const int64_t k = begin + i / 16 * 16 + exl3_row_place(i % 16);
      group[k * size] = rounded ? round_to_f16(value) : value;
    }
  }
}

void multiply_block(float* v, const float* z, int64_t rows, const Exl3Matrix& w,
                    int64_t block) noexcept {
  std::fill_n(v, rows * kExl3Block, 0.0f);
  float weights[16][16];
  for (int64_t tk = 0; tk < w.in / 16; ++tk) {
    for (int64_t column = 0; column < kExl3Block; column += 16) {
      decode_tile(weights, w, tk, (block * kExl3Block + column) / 16);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t first = r / kGroupRows * kGroupRows;
        const int64_t size = group_size(rows, first);
        const float* inputs = z + first * w.in + tk * 16 * size + (r - first);
        float* sums = v + r * kExl3Block + column;
        for (int64_t k = 0; k < 16; ++k) {
          for (int64_t n = 0; n < 16; ++n)
            sums[n] = std::fma(inputs[k * size], weights[k][n], sums[n]);
        }
      }
    }
  }
}

void store_block(const TensorView& y, int64_t y_row, float* v, const Exl3Matrix& w,
                 int64_t block) noexcept {
  hadamard128(v);
  float scales[kExl3Block];
  load_floats(scales, {w.svh, DType::f16, {w.out}}, block * kExl3Block, kExl3Block);
  for (int64_t i = 0; i < kExl3Block; ++i) v[i] = v[i] * kHadamardScale * scales[i];
  store_floats(y, y_row * w.out + block * kExl3Block, v, kExl3Block);
}

}  // namespace yoke::kernels::exl3_plain
