#include "kernels/gather_rows/gather_rows.h"

#include <cstring>

#include "config/check.h"

namespace yoke::kernels {

void gather_rows(TensorView y, ConstTensorView x, ConstTensorView index, Stream& stream) noexcept {
  YOKE_CHECK(x.dtype == y.dtype && index.dtype == DType::i32, "gather_rows: wrong type");
  YOKE_CHECK(x.rank() == 2 && y.rank() == 2 && x.dim(1) == y.dim(1) && index.elements() == y.dim(0),
             "gather_rows: want y [n, width], x [rows, width], index [n]");
  ThreadPool* threads = &stream.threads();
  stream.launch("gather_rows", [=] {
    const size_t row_bytes = static_cast<size_t>(y.dim(1)) * dtype_bytes(y.dtype);
    threads->for_range(y.dim(0), grain_for(y.dim(1) / 4), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = index.as<int32_t>()[i];
        YOKE_DCHECK(from < x.dim(0), "gather_rows: index beyond x");
        std::byte* to = static_cast<std::byte*>(y.data) + static_cast<size_t>(i) * row_bytes;
        if (from < 0) {
          std::memset(to, 0, row_bytes);
        } else {
          std::memcpy(to,
                      static_cast<const std::byte*>(x.data) + static_cast<size_t>(from) * row_bytes,
                      row_bytes);
        }
      }
    });
  });
}

}  // namespace yoke::kernels
