#include <algorithm>

#include "config/check.h"
#include "kernels/exl3/exl3.h"
#include "kernels/exl3/exl3_packed.h"
#include "kernels/exl3/hadamard.h"

namespace yoke::kernels {
namespace {

/// Wq's columns [first, first + 128) as rows of y, widened.
void decode_columns(float* y, const Exl3Matrix& w, int64_t first) {
  uint16_t words[128];
  uint16_t states[256];
  for (int64_t tk = 0; tk < w.in / 16; ++tk) {
    for (int64_t tn = first / 16; tn < (first + kHadamardBlock) / 16; ++tn) {
      exl3_tile_words(words, w, tk, tn);
      exl3_tile_states(states, words, w.bits);
      for (int i = 0; i < 256; ++i) {
        const int position = exl3_tile_position(i);
        y[(tn * 16 + position % 16) * w.in + tk * 16 + position / 16] =
            to_float(exl3_codebook_value(w.codebook, states[i]));
      }
    }
  }
}

/// The butterflies of hadamard128 between 128 rows of `width` floats.
void hadamard_rows(float* rows, int64_t width) {
  for (int stride = 1; stride < kHadamardBlock; stride *= 2) {
    for (int i = 0; i < kHadamardBlock; ++i) {
      if ((i & stride) != 0) continue;
      float* a = rows + i * width;
      float* b = rows + (i + stride) * width;
      for (int64_t k = 0; k < width; ++k) {
        const float sum = a[k] + b[k];
        b[k] = a[k] - b[k];
        a[k] = sum;
      }
    }
  }
}

/// diag(suh)·Hk from the left, then Hn·diag(svh) from the right, on a block of 128 columns of W,
/// which are rows of y.
void transform_columns(float* y, const Exl3Matrix& w, int64_t first) {
  float* block = y + first * w.in;
  for (int64_t n = 0; n < kHadamardBlock; ++n) {
    float* column = block + n * w.in;
    for (int64_t k = 0; k < w.in; k += kHadamardBlock) hadamard128(column + k);
    for (int64_t k = 0; k < w.in; ++k) column[k] = column[k] * kHadamardScale * to_float(w.suh[k]);
  }
  hadamard_rows(block, w.in);
  for (int64_t n = 0; n < kHadamardBlock; ++n) {
    const float scale = to_float(w.svh[first + n]);
    float* column = block + n * w.in;
    for (int64_t k = 0; k < w.in; ++k) column[k] = column[k] * kHadamardScale * scale;
  }
}

}  // namespace

void exl3_dense_weight(TensorView y, const Exl3Matrix& w, Stream& stream) {
  YOKE_CHECK(y.dtype == DType::f32 && y.rank() == 2 && y.dim(0) == w.out && y.dim(1) == w.in,
             "exl3_dense_weight: want y [out, in] f32");
  ThreadPool* threads = &stream.threads();
  stream.launch("exl3_dense_weight", [=] {
    threads->for_range(w.out / kHadamardBlock, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t b = begin; b < end; ++b) {
        decode_columns(y.as<float>(), w, b * kHadamardBlock);
        transform_columns(y.as<float>(), w, b * kHadamardBlock);
      }
    });
  });
}

}  // namespace yoke::kernels
