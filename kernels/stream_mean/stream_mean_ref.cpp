#include "kernels/stream_mean/stream_mean.h"

namespace yoke::kernels {

void stream_mean_ref(TensorView y, ConstTensorView streams, Stream& stream) noexcept {
  stream.launch("stream_mean_ref", [=] {
    const int64_t s_count = streams.dim(1);
    const int64_t hidden = streams.dim(2);
    for (int64_t r = 0; r < streams.dim(0); ++r) {
      for (int64_t i = 0; i < hidden; ++i) {
        double sum = 0;
        for (int64_t s = 0; s < s_count; ++s)
          sum += double{load_float(streams, (r * s_count + s) * hidden + i)};
        store_float(y, r * hidden + i, static_cast<float>(sum / static_cast<double>(s_count)));
      }
    }
  });
}

}  // namespace yoke::kernels
