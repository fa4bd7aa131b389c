#include "kernels/stream_mean/stream_mean.h"

#include <algorithm>

#include "config/check.h"
#include "kernels/core/row_io.h"
#include "kernels/core/row_sums.h"

namespace yoke::kernels {
namespace {

void mean_row(const TensorView& y, const ConstTensorView& streams, int64_t row) {
  const int64_t s_count = streams.dim(1);
  const int64_t hidden = streams.dim(2);
  float values[kRowChunk];
  double sums[kRowChunk];
  for (int64_t begin = 0; begin < hidden; begin += kRowChunk) {
    const int64_t count = std::min(kRowChunk, hidden - begin);
    std::fill_n(sums, count, 0.0);
    for (int64_t s = 0; s < s_count; ++s) {
      load_floats(values, streams, (row * s_count + s) * hidden + begin, count);
      add_scaled(sums, 1.0, values, count);
    }
    for (int64_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(sums[i] / static_cast<double>(s_count));
    store_floats(y, row * hidden + begin, values, count);
  }
}

}  // namespace

void stream_mean(TensorView y, ConstTensorView streams, Stream& stream) noexcept {
  YOKE_CHECK(is_act_type(y.dtype) && is_act_type(streams.dtype), "stream_mean: wrong type");
  YOKE_CHECK(streams.rank() == 3 && y.elements() == streams.dim(0) * streams.dim(2),
             "stream_mean: want y [rows, hidden], streams [rows, S, hidden]");
  ThreadPool* threads = &stream.threads();
  stream.launch("stream_mean", [=] {
    threads->for_range(streams.dim(0), grain_for(streams.dim(1) * streams.dim(2)),
                       [&](int64_t begin, int64_t end, int) {
                         for (int64_t r = begin; r < end; ++r) mean_row(y, streams, r);
                       });
  });
}

}  // namespace yoke::kernels
