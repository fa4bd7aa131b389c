// Owners of memory. Everything a step touches is allocated at start; a step allocates nothing
// (design.md 8).
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/core/tensor_view.h"

namespace yoke::kernels {

constexpr size_t kBufferAlignment = 64;  // one cache line, and the widest SIMD vector we use

/// 64-byte aligned memory, zeroed. Movable, not copyable.
class Buffer {
 public:
  Buffer() noexcept : memory_(nullptr, Free{kBufferAlignment}) {}
  /// Throws std::bad_alloc. `bytes` may be 0.
  explicit Buffer(size_t bytes);

  std::byte* data() const noexcept { return memory_.get(); }
  size_t size() const noexcept { return bytes_; }

 private:
  struct Free {
    size_t alignment;
    void operator()(std::byte* p) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t bytes_ = 0;
};

/// A buffer with one shape and type.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, Shape shape)
      : buffer_(static_cast<size_t>(shape.elements()) * dtype_bytes(dtype)),
        view_(buffer_.data(), dtype, shape) {}

  TensorView view() noexcept { return view_; }
  ConstTensorView view() const noexcept { return view_; }
  /// The first `rows` entries of the first dimension.
  TensorView rows(int64_t rows) const {
    Shape shape = view_.shape;
    YOKE_DCHECK(rows <= shape[0], "more rows than the tensor has");
    shape.dims[0] = rows;
    return {view_.data, view_.dtype, shape};
  }
  size_t bytes() const noexcept { return buffer_.size(); }
  explicit operator bool() const noexcept { return static_cast<bool>(view_); }

 private:
  Buffer buffer_;
  TensorView view_;
};

}  // namespace yoke::kernels
