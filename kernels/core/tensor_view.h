// Views of dense row-major memory that somebody else owns. A view never outlives the call it is
// passed to.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "config/check.h"
#include "kernels/core/types.h"

namespace yoke::kernels {

constexpr int kMaxRank = 4;

/// Shape and type of a dense row-major array; the last dimension is contiguous.
struct Shape {
  std::array<int64_t, kMaxRank> dims{};
  int rank = 0;

  Shape() = default;
  Shape(std::initializer_list<int64_t> list) {
    YOKE_CHECK(list.size() <= kMaxRank, "too many dimensions");
    for (const int64_t d : list) dims[static_cast<size_t>(rank++)] = d;
  }
  int64_t operator[](int i) const { return dims[static_cast<size_t>(i)]; }
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[static_cast<size_t>(i)];
    return n;
  }
  friend bool operator==(const Shape&, const Shape&) = default;
};

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<bf16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<f16>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<int16_t>() {
  return DType::i16;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}

template <class Void>  // void or const void
struct BasicTensorView {
  Void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  BasicTensorView() = default;
  BasicTensorView(Void* d, DType t, Shape s) : data(d), dtype(t), shape(s) {}
  template <class Other>
  requires(!std::is_same_v<Other, Void>) BasicTensorView(const BasicTensorView<Other>& other)
      : data(other.data), dtype(other.dtype), shape(other.shape) {}

  int64_t dim(int i) const { return shape[i]; }
  int rank() const { return shape.rank; }
  int64_t elements() const { return shape.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * dtype_bytes(dtype); }
  explicit operator bool() const { return data != nullptr; }

  /// Elements per index of the first dimension.
  int64_t row_elements() const { return shape.rank <= 1 ? 1 : elements() / shape[0]; }

  template <class T>
  auto* as() const {
    YOKE_DCHECK(dtype == dtype_of<T>(), "view read as another type");
    if constexpr (std::is_const_v<Void>) {
      return static_cast<const T*>(data);
    } else {
      return static_cast<T*>(data);
    }
  }
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

/// The same memory with another shape of equally many elements.
template <class Void>
BasicTensorView<Void> reshaped(BasicTensorView<Void> view, Shape shape) {
  YOKE_DCHECK(view.elements() == shape.elements(), "reshape changes the number of elements");
  return {view.data, view.dtype, shape};
}

/// Element `i` of a bf16, f16 or f32 view, widened to float.
template <class Void>
float load_float(const BasicTensorView<Void>& view, int64_t i) {
  switch (view.dtype) {
    case DType::bf16:
      return to_float(static_cast<const bf16*>(view.data)[i]);
    case DType::f16:
      return to_float(static_cast<const f16*>(view.data)[i]);
    default:
      return static_cast<const float*>(view.data)[i];
  }
}

/// Stores `x` at element `i`, rounded to the view's type (bf16, f16 or f32).
inline void store_float(const TensorView& view, int64_t i, float x) {
  switch (view.dtype) {
    case DType::bf16:
      static_cast<bf16*>(view.data)[i] = to_bf16(x);
      break;
    case DType::f16:
      static_cast<f16*>(view.data)[i] = to_f16(x);
      break;
    default:
      static_cast<float*>(view.data)[i] = x;
      break;
  }
}

}  // namespace yoke::kernels
