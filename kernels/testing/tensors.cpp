#include "kernels/testing/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace yoke::kernels::testing {

Tensor random_tensor(Random& random, DType dtype, Shape shape, double scale) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < shape.elements(); ++i)
    store_float(tensor.view(), i, static_cast<float>(random.normal() * scale));
  return tensor;
}

Tensor tensor_of(DType dtype, Shape shape, std::span<const float> values) {
  YOKE_CHECK(shape.elements() == static_cast<int64_t>(values.size()), "values do not fill shape");
  Tensor tensor(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i)
    store_float(tensor.view(), static_cast<int64_t>(i), values[i]);
  return tensor;
}

Tensor ints_of(Shape shape, std::span<const int32_t> values) {
  YOKE_CHECK(shape.elements() == static_cast<int64_t>(values.size()), "values do not fill shape");
  Tensor tensor(DType::i32, shape);
  std::copy(values.begin(), values.end(), tensor.view().as<int32_t>());
  return tensor;
}

Tensor unwritten(DType dtype, Shape shape) {
  Tensor tensor(dtype, shape);
  if (tensor.bytes() > 0) std::memset(tensor.view().data, 0xFF, tensor.bytes());
  return tensor;
}

Tensor converted(ConstTensorView from, DType dtype) {
  Tensor tensor(dtype, from.shape);
  for (int64_t i = 0; i < from.elements(); ++i) store_float(tensor.view(), i, load_float(from, i));
  return tensor;
}

Tensor absolute(ConstTensorView from) {
  Tensor tensor(DType::f32, from.shape);
  for (int64_t i = 0; i < from.elements(); ++i)
    store_float(tensor.view(), i, std::fabs(load_float(from, i)));
  return tensor;
}

Tensor copy_of(ConstTensorView from) {
  Tensor tensor(from.dtype, from.shape);
  if (tensor.bytes() > 0) std::memcpy(tensor.view().data, from.data, tensor.bytes());
  return tensor;
}

std::vector<float> to_vector(ConstTensorView from) {
  std::vector<float> values;
  for (int64_t i = 0; i < from.elements(); ++i) values.push_back(load_float(from, i));
  return values;
}

std::vector<int32_t> to_ints(ConstTensorView from) {
  return {from.as<int32_t>(), from.as<int32_t>() + from.elements()};
}

}  // namespace yoke::kernels::testing
