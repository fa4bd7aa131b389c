// Tensors for tests.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/core/buffer.h"
#include "kernels/core/stream.h"
#include "kernels/testing/random.h"

namespace yoke::kernels::testing {

/// A pool and a stream on it.
struct Compute {
  explicit Compute(int thread_count = 1) : threads(thread_count), stream(threads) {}
  ThreadPool threads;
  Stream stream;
};

/// Normal values times `scale`, rounded to the type (bf16, f16 or f32).
Tensor random_tensor(Random& random, DType dtype, Shape shape, double scale = 1.0);

/// The given values, rounded to the type.
Tensor tensor_of(DType dtype, Shape shape, std::span<const float> values);
inline Tensor tensor_of(DType dtype, Shape shape, std::initializer_list<float> values) {
  return tensor_of(dtype, shape, std::span<const float>(values.begin(), values.size()));
}
Tensor ints_of(Shape shape, std::span<const int32_t> values);
inline Tensor ints_of(Shape shape, std::initializer_list<int32_t> values) {
  return ints_of(shape, std::span<const int32_t>(values.begin(), values.size()));
}

/// For outputs: every byte 0xFF, a NaN in each float type and -1 in the integers, so that an
/// element nobody wrote is seen.
Tensor unwritten(DType dtype, Shape shape);

/// The same values in another float type.
Tensor converted(ConstTensorView from, DType dtype);
/// |x|, in f32.
Tensor absolute(ConstTensorView from);
Tensor copy_of(ConstTensorView from);

std::vector<float> to_vector(ConstTensorView from);
std::vector<int32_t> to_ints(ConstTensorView from);

/// Rows [first, first + count) of the first dimension.
template <class Void>
BasicTensorView<Void> row_range(const BasicTensorView<Void>& view, int64_t first, int64_t count) {
  using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
  Shape shape = view.shape;
  shape.dims[0] = count;
  const auto row_bytes = static_cast<size_t>(view.row_elements()) * dtype_bytes(view.dtype);
  return {static_cast<Byte*>(view.data) + static_cast<size_t>(first) * row_bytes, view.dtype,
          shape};
}

}  // namespace yoke::kernels::testing
