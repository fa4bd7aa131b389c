#include "kernels/layer_norm/layer_norm.h"

#include <algorithm>
#include <cmath>

#include "config/check.h"
#include "kernels/core/row_io.h"

namespace yoke::kernels {
namespace {

/// Calls `body(values, begin, count)` for the row's chunks, widened.
template <class Body>
void for_chunks(const ConstTensorView& x, int64_t row, int64_t n, Body&& body) {
  float values[kRowChunk];
  for (int64_t begin = 0; begin < n; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, n - begin);
    load_floats(values, x, row * n + begin, count);
    body(values, begin, count);
  }
}

void normalise_row(const TensorView& y, const ConstTensorView& x, const ConstTensorView& weight,
                   const ConstTensorView& bias, double eps, int64_t row) {
  const int64_t n = weight.elements();
  double sum = 0;
  for_chunks(x, row, n, [&](const float* v, int64_t, int64_t count) {
    for (int64_t i = 0; i < count; ++i) sum += double{v[i]};
  });
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for_chunks(x, row, n, [&](const float* v, int64_t, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const double d = double{v[i]} - mean;
      squares += d * d;
    }
  });
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
  float weights[kRowChunk];
  float biases[kRowChunk];
  for_chunks(x, row, n, [&](float* v, int64_t begin, int64_t count) {
    load_floats(weights, weight, begin, count);
    load_floats(biases, bias, begin, count);
    for (int64_t i = 0; i < count; ++i)
      v[i] = static_cast<float>((double{v[i]} - mean) * scale * double{weights[i]} +
                                double{biases[i]});
    store_floats(y, row * n + begin, v, count);
  });
}

}  // namespace

void layer_norm(TensorView y, ConstTensorView x, ConstTensorView weight, ConstTensorView bias,
                float eps, Stream& stream) noexcept {
  const int64_t n = weight.elements();
  YOKE_CHECK(is_act_type(x.dtype) && is_act_type(y.dtype) && is_float_type(weight.dtype) &&
                 is_float_type(bias.dtype),
             "layer_norm: wrong type");
  YOKE_CHECK(n > 0 && bias.elements() == n && x.elements() % n == 0 && y.elements() == x.elements(),
             "layer_norm: rows do not have the weight's length");
  ThreadPool* threads = &stream.threads();
  stream.launch("layer_norm", [=] {
    threads->for_range(x.elements() / n, grain_for(5 * n), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) normalise_row(y, x, weight, bias, double{eps}, r);
    });
  });
}

}  // namespace yoke::kernels
