#include "kernels/copy_entries/copy_entries.h"

#include <algorithm>
#include <cstring>

#include "config/check.h"

namespace yoke::kernels {

namespace {

/// Entries are copied in pieces of this size, so that one large entry keeps all threads busy.
/// 64 KiB takes a core some 10 µs.
constexpr int64_t kPieceBytes = 64 * 1024;
constexpr int64_t kPieceNs = 10'000;

}  // namespace

void copy_entries(TensorView to, ConstTensorView from, ConstTensorView to_index,
                  ConstTensorView from_index, Stream& stream) noexcept {
  YOKE_CHECK(
      to.dtype == from.dtype && to_index.dtype == DType::i32 && from_index.dtype == DType::i32,
      "copy_entries: wrong type");
  YOKE_CHECK(to.rank() >= 1 && from.rank() >= 1 && to.dim(0) > 0 && from.dim(0) > 0 &&
                 to.row_elements() == from.row_elements() &&
                 to_index.elements() == from_index.elements(),
             "copy_entries: want to and from [entries, …] with entries of one size, and as many "
             "targets as sources");
  ThreadPool* threads = &stream.threads();
  stream.launch("copy_entries", [=] {
    const int64_t entry = from.row_elements() * static_cast<int64_t>(dtype_bytes(from.dtype));
    const int64_t pieces = (entry + kPieceBytes - 1) / kPieceBytes;
    const auto* targets = to_index.as<int32_t>();
    const auto* sources = from_index.as<int32_t>();
    threads->for_range(
        to_index.elements() * pieces, grain_for(kPieceNs), [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t target = targets[i / pieces];
            const int64_t source = sources[i / pieces];
            if (target < 0 || source < 0) continue;
            YOKE_DCHECK(target < to.dim(0) && source < from.dim(0),
                        "copy_entries: index beyond the entries");
            const int64_t at = i % pieces * kPieceBytes;
            std::memcpy(static_cast<std::byte*>(to.data) + target * entry + at,
                        static_cast<const std::byte*>(from.data) + source * entry + at,
                        static_cast<size_t>(std::min(kPieceBytes, entry - at)));
          }
        });
  });
}

}  // namespace yoke::kernels
