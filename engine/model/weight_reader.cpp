#include "engine/model/weight_reader.h"

#include <algorithm>

#include "kernels/exl3/exl3.h"

namespace yoke::engine {

using kernels::ConstTensorView;
using kernels::DType;
using kernels::Shape;
using kernels::Tensor;
using kernels::TensorView;

namespace {

constexpr std::string_view kFloats = "BF16 F16 F32";

std::string describe(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank; ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string describe(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Equal once dimensions of size 1 are left out: convolutions are stored [channels, 1, kernel].
bool same_shape(const std::vector<int64_t>& stored, const Shape& wanted) {
  std::vector<int64_t> left;
  std::vector<int64_t> right;
  for (const int64_t d : stored) {
    if (d != 1) left.push_back(d);
  }
  for (int i = 0; i < wanted.rank; ++i) {
    if (wanted[i] != 1) right.push_back(wanted[i]);
  }
  return left == right;
}

DType dtype_named(std::string_view name) {
  if (name == "BF16") return DType::bf16;
  if (name == "F16") return DType::f16;
  if (name == "I16") return DType::i16;
  if (name == "I32") return DType::i32;
  return DType::f32;
}

bool contains_word(std::string_view words, std::string_view word) {
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

WeightReader::WeightReader(const Checkpoint& checkpoint, Memory::Mode mode, DType decoded,
                           kernels::ThreadPool* threads, LoadProgress progress, uint64_t total)
    : checkpoint_(checkpoint),
      memory_(mode),
      decoded_(decoded),
      threads_(threads),
      progress_(std::move(progress)),
      total_(total) {}

void WeightReader::fail(std::string message) {
  if (!error_) error_ = config::invalid_input(checkpoint_.name() + ": " + std::move(message));
}

const TensorInfo* WeightReader::find(const std::string& name, std::string_view dtypes,
                                     Shape shape) {
  if (error_) return nullptr;
  const TensorInfo* info = checkpoint_.find(name);
  if (info == nullptr) {
    fail("tensor " + name + ": want " + describe(shape) + ", the checkpoint has none");
    return nullptr;
  }
  if (!contains_word(dtypes, info->dtype) || !same_shape(info->shape, shape)) {
    fail("tensor " + name + ": want " + describe(shape) + " in " + std::string(dtypes) +
         ", the file has " + describe(info->shape) + " in " + info->dtype);
    return nullptr;
  }
  return info;
}

TensorView WeightReader::allocate(DType dtype, Shape shape) {
  Tensor tensor = memory_.tensor(dtype, shape);
  if (memory_.counting()) return {nullptr, dtype, shape};
  storage_.push_back(std::move(tensor));
  return storage_.back().view();
}

void WeightReader::read(const TensorInfo& info, TensorView to) {
  file_bytes_ += info.bytes;
  if (idle()) return;
  const config::Result<void> done =
      checkpoint_.read(info, {static_cast<std::byte*>(to.data), to.bytes()});
  if (!done.ok()) {
    error_ = done.error();
    return;
  }
  if (progress_) progress_(file_bytes_, total_);
}

ConstTensorView WeightReader::tensor(const std::string& name, Shape shape) {
  const TensorInfo* info = find(name, kFloats, shape);
  if (info == nullptr) return {};
  const TensorView view = allocate(dtype_named(info->dtype), shape);
  read(*info, view);
  return view;
}

ConstTensorView WeightReader::tensor_f32(const std::string& name, Shape shape) {
  const TensorInfo* info = find(name, kFloats, shape);
  if (info == nullptr) return {};
  const TensorView view = allocate(DType::f32, shape);
  const DType stored = dtype_named(info->dtype);
  if (stored == DType::f32 || memory_.counting()) {
    read(*info, view);
    return view;
  }
  Tensor narrow(stored, shape);
  read(*info, narrow.view());
  for (int64_t i = 0; i < shape.elements(); ++i)
    view.as<float>()[i] = kernels::load_float(narrow.view(), i);
  return view;
}

kernels::LinearWeight WeightReader::linear(const std::string& module, int64_t out, int64_t in) {
  kernels::LinearWeight weight;
  if (const auto group = checkpoint_.find_exl3(module + ".weight")) {
    weight.exl3 = exl3(module, *group, out, in);
  } else {
    weight.dense = tensor(module + ".weight", {out, in});
  }
  return weight;
}

ConstTensorView WeightReader::matrix(const std::string& module, int64_t out, int64_t in) {
  const std::optional<Exl3Group> group = checkpoint_.find_exl3(module + ".weight");
  if (!group) return tensor(module + ".weight", {out, in});
  WeightReader packed = scratch_reader();
  const kernels::Exl3Matrix matrix = packed.exl3(module, *group, out, in);
  absorb(packed);
  const TensorView dense = allocate(decoded_, {out, in});
  if (idle()) return dense;
  Tensor wide(DType::f32, {out, in});
  kernels::Stream stream(*threads_);
  kernels::exl3_dense_weight(wide.view(), matrix, stream);
  for (int64_t i = 0; i < out * in; ++i) kernels::store_float(dense, i, wide.view().as<float>()[i]);
  return dense;
}

WeightReader WeightReader::scratch_reader() const {
  return {checkpoint_, memory_.counting() ? Memory::Mode::count : Memory::Mode::allocate,
          decoded_,    threads_,
          {},          0};
}

void WeightReader::absorb(const WeightReader& scratch) {
  if (!error_) error_ = scratch.error_;
  file_bytes_ += scratch.file_bytes_;
  if (!idle() && progress_) progress_(file_bytes_, total_);
}

kernels::Exl3Matrix WeightReader::exl3(const std::string& module, const Exl3Group& group,
                                       int64_t out, int64_t in) {
  if (error_) return {};
  if (group.in != in || group.out != out) {
    fail("EXL3 matrix " + module + ": want in " + std::to_string(in) + " and out " +
         std::to_string(out) + ", the file has in " + std::to_string(group.in) + " and out " +
         std::to_string(group.out));
    return {};
  }
  kernels::Exl3Matrix matrix;
  matrix.in = in;
  matrix.out = out;
  matrix.bits = group.bits;
  matrix.codebook = group.codebook;
  // What is kept is the trellis in the kernels' order; the checkpoint's own is read and dropped.
  const Shape shape{in / 16, out / 16, 16 * group.bits};
  const TensorView packed = allocate(DType::i16, shape);
  Tensor trellis = memory_.counting() ? Tensor() : Tensor(DType::i16, shape);
  read(*group.trellis, trellis.view());
  if (!idle()) {
    matrix.trellis = reinterpret_cast<const uint16_t*>(trellis.view().as<int16_t>());
    kernels::exl3_pack(packed.data, matrix);
  }
  matrix.trellis = nullptr;
  matrix.packed = packed.data;
  matrix.suh = scales(*group.in_scales, in);
  matrix.svh = scales(*group.out_scales, out);
  return matrix;
}

const kernels::f16* WeightReader::scales(const TensorInfo& info, int64_t count) {
  const TensorView view = allocate(DType::f16, {count});
  file_bytes_ += info.bytes;
  if (idle()) return nullptr;
  auto* to = view.as<kernels::f16>();
  const config::Result<void> done = checkpoint_.read_scales(info, {to, static_cast<size_t>(count)});
  if (!done.ok()) error_ = done.error();
  return to;
}

}  // namespace yoke::engine
