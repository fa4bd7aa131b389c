#include "kernels/rms_norm/rms_norm.h"

#include <algorithm>
#include <cmath>

#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/core/row_sums.h"

namespace yoke::kernels {
namespace {

void normalise_row(const TensorView& y, const ConstTensorView& x, const ConstTensorView& weight,
                   double eps, int64_t row) {
  const int64_t n = weight.elements();
  float values[kRowChunk];
  float weights[kRowChunk];
  SquareSum squares;
  for (int64_t begin = 0; begin < n; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, n - begin);
    load_floats(values, x, row * n + begin, count);
    squares.add(values, count);
  }
  const double scale = 1.0 / std::sqrt(squares.total() / static_cast<double>(n) + eps);
  for (int64_t begin = 0; begin < n; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, n - begin);
    load_floats(values, x, row * n + begin, count);
    load_floats(weights, weight, begin, count);
    scale_row(values, scale, weights, count);
    store_floats(y, row * n + begin, values, count);
  }
}

}  // namespace

void rms_norm(TensorView y, ConstTensorView x, ConstTensorView weight, float eps,
              Stream& stream) noexcept {
  const int64_t n = weight.elements();
  YOKE_CHECK(is_act_type(x.dtype) && is_act_type(y.dtype) && is_float_type(weight.dtype),
             "rms_norm: wrong type");
  YOKE_CHECK(n > 0 && x.elements() % n == 0 && y.elements() == x.elements(),
             "rms_norm: rows do not have the weight's length");
  ThreadPool* threads = &stream.threads();
  stream.launch("rms_norm", [=] {
    threads->for_range(x.elements() / n, grain_for(n), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) normalise_row(y, x, weight, double{eps}, r);
    });
  });
}

}  // namespace yoke::kernels
