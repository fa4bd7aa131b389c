#include "kernels/residual/residual.h"

#include <algorithm>
#include <cstring>

#include "config/check.h"
#include "kernels/core/row_io.h"

namespace yoke::kernels {

void residual_add(TensorView x, ConstTensorView y, Stream& stream) noexcept {
  YOKE_CHECK(is_act_type(x.dtype) && is_act_type(y.dtype), "residual_add: wrong type");
  YOKE_CHECK(x.elements() == y.elements(), "residual_add: x and y differ in size");
  ThreadPool* threads = &stream.threads();
  stream.launch("residual_add", [=] {
    const int64_t chunks = (x.elements() + kRowChunk - 1) / kRowChunk;
    threads->for_range(chunks, grain_for(kRowChunk), [&](int64_t begin, int64_t end, int) {
      float a[kRowChunk];
      float b[kRowChunk];
      for (int64_t c = begin; c < end; ++c) {
        const int64_t first = c * kRowChunk;
        const int64_t count = std::min(kRowChunk, x.elements() - first);
        load_floats(a, x, first, count);
        load_floats(b, y, first, count);
        // A float sum of two floats is the float64 sum rounded.
        for (int64_t i = 0; i < count; ++i) a[i] += b[i];
        store_floats(x, first, a, count);
      }
    });
  });
}

void concat_columns(TensorView y, ConstTensorView a, ConstTensorView b, Stream& stream) noexcept {
  YOKE_CHECK(a.dtype == y.dtype && b.dtype == y.dtype, "concat_columns: types differ");
  YOKE_CHECK(y.rank() == 2 && a.rank() == 2 && b.rank() == 2, "concat_columns: want matrices");
  YOKE_CHECK(a.dim(0) == y.dim(0) && b.dim(0) == y.dim(0) && a.dim(1) + b.dim(1) == y.dim(1),
             "concat_columns: shapes do not add up");
  ThreadPool* threads = &stream.threads();
  stream.launch("concat_columns", [=] {
    const size_t a_bytes = static_cast<size_t>(a.dim(1)) * dtype_bytes(a.dtype);
    const size_t b_bytes = static_cast<size_t>(b.dim(1)) * dtype_bytes(b.dtype);
    threads->for_range(y.dim(0), grain_for(y.dim(1) / 4), [&](int64_t begin, int64_t end, int) {
      for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r) {
        std::byte* to = static_cast<std::byte*>(y.data) + r * (a_bytes + b_bytes);
        std::memcpy(to, static_cast<const std::byte*>(a.data) + r * a_bytes, a_bytes);
        std::memcpy(to + a_bytes, static_cast<const std::byte*>(b.data) + r * b_bytes, b_bytes);
      }
    });
  });
}

}  // namespace yoke::kernels
