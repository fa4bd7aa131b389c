#include "kernels/swiglu/swiglu.h"

#include <algorithm>

#include "config/check.h"
#include "kernels/core/math.h"
#include "kernels/core/row_io.h"

namespace yoke::kernels {

void swiglu(TensorView y, ConstTensorView gate, ConstTensorView up, float limit,
            Stream& stream) noexcept {
  YOKE_CHECK(is_float_type(gate.dtype) && is_float_type(up.dtype) && is_float_type(y.dtype),
             "swiglu: wrong type");
  YOKE_CHECK(gate.elements() == y.elements() && up.elements() == y.elements(),
             "swiglu: gate, up and y differ in size");
  YOKE_CHECK(limit > 0, "swiglu: limit must be positive");
  ThreadPool* threads = &stream.threads();
  stream.launch("swiglu", [=] {
    // By chunks, not rows: a decode step has one wide row.
    const int64_t chunks = (y.elements() + kRowChunk - 1) / kRowChunk;
    threads->for_range(chunks, grain_for(kRowChunk * 8), [&](int64_t begin, int64_t end, int) {
      float g[kRowChunk];
      float u[kRowChunk];
      for (int64_t c = begin; c < end; ++c) {
        const int64_t first = c * kRowChunk;
        const int64_t count = std::min(kRowChunk, y.elements() - first);
        load_floats(g, gate, first, count);
        load_floats(u, up, first, count);
        for (int64_t i = 0; i < count; ++i) {
          const double clamped = std::clamp(u[i], -limit, limit);
          g[i] = static_cast<float>(silu64(std::min(g[i], limit)) * clamped);
        }
        store_floats(y, first, g, count);
      }
    });
  });
}

}  // namespace yoke::kernels
