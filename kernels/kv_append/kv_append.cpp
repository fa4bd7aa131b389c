// Copies bytes only: nothing is rounded. One implementation serves as reference.
#include "kernels/kv_append/kv_append.h"

#include <cstring>

namespace yoke::kernels {

void kv_append(TensorView cache, ConstTensorView x, const StepRows& rows, Stream& stream) noexcept {
  YOKE_CHECK(cache.dtype == x.dtype && cache.dim(1) == x.dim(1), "kv_append: cache unlike rows");
  YOKE_CHECK(x.dim(0) >= rows.rows, "kv_append: fewer rows than the step has");
  ThreadPool& threads = stream.threads();
  stream.launch("kv_append", [=, &threads] {
    const size_t line = static_cast<size_t>(x.dim(1)) * dtype_bytes(x.dtype);
    threads.for_range(rows.rows, 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        if (rows.slot[r] < 0) continue;
        const int64_t at = rows.cache_row(rows.slot[r], rows.position[r]);
        YOKE_DCHECK(at >= 0 && at < cache.dim(0), "kv_append: block outside the cache");
        std::memcpy(static_cast<std::byte*>(cache.data) + static_cast<size_t>(at) * line,
                    static_cast<const std::byte*>(x.data) + static_cast<size_t>(r) * line, line);
      }
    });
  });
}

}  // namespace yoke::kernels
