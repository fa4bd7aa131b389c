#include "kernels/mhc/mhc.h"

#include <algorithm>
#include <cmath>

#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/core/row_sums.h"
#include "kernels/mhc/mhc_mix_chunk.h"
#include "kernels/mhc/mhc_products.h"
#include "kernels/mhc/mhc_site.h"

namespace yoke::kernels {
namespace {

double mean_square(const ConstTensorView& streams, int64_t width, int64_t row) {
  float f[kRowChunk];
  SquareSum squares;
  for (int64_t begin = 0; begin < width; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, width - begin);
    load_floats(f, streams, row * width + begin, count);
    squares.add(f, count);
  }
  return squares.total() / static_cast<double>(width);
}

/// out = Σ_s factors[s]·X_s, ascending.
void weighted_sum(const TensorView& x, const ConstTensorView& streams, const double* factors,
                  int64_t row) {
  const int64_t s_count = streams.dim(1);
  const int64_t hidden = streams.dim(2);
  float values[kRowChunk];
  double sums[kRowChunk];
  for (int64_t begin = 0; begin < hidden; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, hidden - begin);
    std::fill_n(sums, count, 0.0);
    for (int64_t s = 0; s < s_count; ++s) {
      load_floats(values, streams, (row * s_count + s) * hidden + begin, count);
      add_scaled(sums, factors[s], values, count);
    }
    round_sums(values, sums, count);
    store_floats(x, row * hidden + begin, values, count);
  }
}

void coefficients_row(const TensorView& x, const TensorView& post, const TensorView& comb,
                      const ConstTensorView& streams, const MhcWeights& weights, double* products,
                      int64_t row) {
  const int s_count = static_cast<int>(streams.dim(1));
  const int64_t outputs = weights.fn.dim(0);
  const double mean = mean_square(streams, weights.fn.dim(1), row);
  const double scale = 1.0 / std::sqrt(mean + double{weights.rms_eps});
  for (int64_t o = 0; o < outputs; ++o) products[o] *= scale;

  const MhcSite site = mhc_site(products, s_count, weights);
  float* post_row = post.as<float>() + row * s_count;
  float* comb_row = comb.as<float>() + row * s_count * s_count;
  for (int s = 0; s < s_count; ++s) post_row[s] = static_cast<float>(site.post[s]);
  for (int i = 0; i < s_count * s_count; ++i) comb_row[i] = static_cast<float>(site.comb[i]);
  weighted_sum(x, streams, site.pre, row);
}

void mix_row(const TensorView& streams, const ConstTensorView& y, const float* post,
             const float* comb, int64_t row) {
  const int64_t s_count = streams.dim(1);
  const int64_t hidden = streams.dim(2);
  float from[kMhcMaxStreams][kRowChunk];
  float out[kMhcMaxStreams][kRowChunk];
  float added[kRowChunk] = {};  // whole vectors are read, also in a chunk's rest
  std::fill_n(from[0], s_count * kRowChunk, 0.0f);
  for (int64_t begin = 0; begin < hidden; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, hidden - begin);
    load_floats(added, y, row * hidden + begin, count);
    for (int64_t i = 0; i < s_count; ++i)
      load_floats(from[i], streams, (row * s_count + i) * hidden + begin, count);
    mhc_mix_chunk(out[0], from[0], added, post, comb, s_count, count);
    for (int64_t j = 0; j < s_count; ++j)
      store_floats(streams, (row * s_count + j) * hidden + begin, out[j], count);
  }
}

}  // namespace

void mhc_coefficients(TensorView x, TensorView post, TensorView comb, ConstTensorView streams,
                      const MhcWeights& weights, Stream& stream) noexcept {
  YOKE_CHECK(streams.rank() == 3 && streams.dim(1) >= 1 && streams.dim(1) <= kMhcMaxStreams,
             "mhc: want streams [rows, S <= 8, hidden]");
  const int64_t rows = streams.dim(0);
  const int64_t s_count = streams.dim(1);
  const int64_t outputs = 2 * s_count + s_count * s_count;
  YOKE_CHECK(is_act_type(x.dtype) && is_act_type(streams.dtype) &&
                 is_float_type(weights.fn.dtype) && weights.base.dtype == DType::f32 &&
                 weights.scale.dtype == DType::f32 && post.dtype == DType::f32 &&
                 comb.dtype == DType::f32,
             "mhc: wrong type");
  YOKE_CHECK(weights.fn.rank() == 2 && weights.fn.dim(0) == outputs &&
                 weights.fn.dim(1) == s_count * streams.dim(2) &&
                 weights.base.elements() == outputs && weights.scale.elements() == 3,
             "mhc: want fn [2S + S², S·hidden], base [2S + S²], scale [3]");
  YOKE_CHECK(x.elements() == rows * streams.dim(2) && post.elements() == rows * s_count &&
                 comb.elements() == rows * s_count * s_count,
             "mhc: outputs have the wrong size");
  ThreadPool* threads = &stream.threads();
  stream.launch("mhc_coefficients", [=] {
    threads->for_range(rows, grain_for(outputs * s_count * streams.dim(2) / 8),
                       [&](int64_t begin, int64_t end, int) {
                         double products[kMhcProductRows * kMhcMaxProducts];
                         for (int64_t first = begin; first < end; first += kMhcProductRows) {
                           const int64_t count = std::min(kMhcProductRows, end - first);
                           mhc_products(products, streams, weights.fn, first, count);
                           for (int64_t r = 0; r < count; ++r)
                             coefficients_row(x, post, comb, streams, weights,
                                              products + r * outputs, first + r);
                         }
                       });
  });
}

void mhc_mix(TensorView streams, ConstTensorView y, ConstTensorView post, ConstTensorView comb,
             Stream& stream) noexcept {
  YOKE_CHECK(streams.rank() == 3 && streams.dim(1) >= 1 && streams.dim(1) <= kMhcMaxStreams,
             "mhc: want streams [rows, S <= 8, hidden]");
  const int64_t rows = streams.dim(0);
  const int64_t s_count = streams.dim(1);
  YOKE_CHECK(is_act_type(streams.dtype) && is_act_type(y.dtype) && post.dtype == DType::f32 &&
                 comb.dtype == DType::f32,
             "mhc: wrong type");
  YOKE_CHECK(y.elements() == rows * streams.dim(2) && post.elements() == rows * s_count &&
                 comb.elements() == rows * s_count * s_count,
             "mhc: inputs have the wrong size");
  ThreadPool* threads = &stream.threads();
  stream.launch("mhc_mix", [=] {
    threads->for_range(rows, grain_for(s_count * s_count * streams.dim(2) / 4),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t r = begin; r < end; ++r)
                           mix_row(streams, y, post.as<float>() + r * s_count,
                                   comb.as<float>() + r * s_count * s_count, r);
                       });
  });
}

}  // namespace yoke::kernels
