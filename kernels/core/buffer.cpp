#include "kernels/core/buffer.h"

#include <cstring>
#include <new>

namespace yoke::kernels {

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  memory_.reset(
      static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kBufferAlignment})));
  std::memset(memory_.get(), 0, bytes);
}

void Buffer::Free::operator()(std::byte* p) const noexcept {
  ::operator delete (p, std::align_val_t{kBufferAlignment});
}

}  // namespace yoke::kernels
