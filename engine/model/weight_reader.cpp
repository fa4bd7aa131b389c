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

/// Stands for a trellis that is only counted, so that its matrix says what it will be.
constexpr uint16_t kCounted = 0;

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
  const size_t at = words.find(word);
  return at != std::string_view::npos && (at == 0 || words[at - 1] == ' ') &&
         (at + word.size() == words.size() || words[at + word.size()] == ' ');
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
  if (checkpoint_.find(module + ".trellis") != nullptr) {
    weight.exl3 = exl3(module, out, in);
  } else {
    weight.dense = tensor(module + ".weight", {out, in});
  }
  return weight;
}

ConstTensorView WeightReader::matrix(const std::string& module, int64_t out, int64_t in) {
  if (checkpoint_.find(module + ".trellis") == nullptr)
    return tensor(module + ".weight", {out, in});
  WeightReader packed = scratch_reader();
  const kernels::Exl3Matrix group = packed.exl3(module, out, in);
  absorb(packed);
  const TensorView dense = allocate(decoded_, {out, in});
  if (idle()) return dense;
  Tensor wide(DType::f32, {out, in});
  kernels::Stream stream(*threads_);
  kernels::exl3_dense_weight(wide.view(), group, stream);
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

kernels::Exl3Matrix WeightReader::exl3(const std::string& module, int64_t out, int64_t in) {
  if (in % 128 != 0 || out % 128 != 0) {
    fail("EXL3 matrix " + module + ": [" + std::to_string(out) + "," + std::to_string(in) +
         "] is not made of multiples of 128");
    return {};
  }
  const TensorInfo* stored = checkpoint_.find(module + ".trellis");
  const int64_t words = stored->shape.empty() ? 0 : stored->shape.back();
  if (words % 16 != 0 || words < 16 || words > 128) {
    fail("tensor " + module +
         ".trellis: want a last dimension of 16 to 128 in steps of 16, found " +
         std::to_string(words));
    return {};
  }
  const TensorInfo* info = find(module + ".trellis", "I16", {in / 16, out / 16, words});
  if (info == nullptr) return {};
  kernels::Exl3Matrix matrix;
  matrix.in = in;
  matrix.out = out;
  matrix.bits = static_cast<int>(words / 16);
  matrix.codebook = exl3_codebook(module);
  const TensorView trellis = allocate(DType::i16, {in / 16, out / 16, words});
  read(*info, trellis);
  matrix.trellis = memory_.counting() ? &kCounted : static_cast<const uint16_t*>(trellis.data);
  matrix.suh = exl3_scales(module + ".suh", module + ".su", in);
  matrix.svh = exl3_scales(module + ".svh", module + ".sv", out);
  return matrix;
}

const kernels::f16* WeightReader::exl3_scales(const std::string& scales, const std::string& signs,
                                              int64_t count) {
  const bool packed = checkpoint_.find(scales) == nullptr && checkpoint_.find(signs) != nullptr;
  const TensorInfo* info = packed ? find(signs, "I16", {count / 16}) : find(scales, "F16", {count});
  if (info == nullptr) return nullptr;
  const TensorView view = allocate(DType::f16, {count});
  if (!packed) {
    read(*info, view);
  } else {
    Tensor words(DType::i16, {count / 16});
    read(*info, words.view());
    if (!idle())
      kernels::exl3_unpack_signs(view.as<kernels::f16>(),
                                 static_cast<const uint16_t*>(words.view().data), count);
  }
  return static_cast<const kernels::f16*>(view.data);
}

kernels::Codebook WeightReader::exl3_codebook(const std::string& module) {
  struct Marker {
    const char* suffix;
    kernels::Codebook codebook;
    uint32_t multiplier;
  };
  constexpr Marker kMarkers[] = {{".mcg", kernels::Codebook::mcg, 0xCBAC1FEDu},
                                 {".mul1", kernels::Codebook::mul1, 0x83DCD12Du}};
  kernels::Codebook codebook = kernels::Codebook::threeinst;
  for (const Marker& marker : kMarkers) {
    if (checkpoint_.find(module + marker.suffix) == nullptr) continue;
    if (codebook != kernels::Codebook::threeinst) fail(module + " has both .mcg and .mul1");
    codebook = marker.codebook;
    const TensorInfo* info = find(module + marker.suffix, "I32", {});
    if (info == nullptr) return codebook;
    Tensor value(DType::i32, {1});
    read(*info, value.view());
    const auto found = static_cast<uint32_t>(*value.view().as<int32_t>());
    if (!idle() && found != marker.multiplier)
      fail("tensor " + module + marker.suffix + ": want the multiplier " +
           std::to_string(marker.multiplier) + ", found " + std::to_string(found));
  }
  return codebook;
}

}  // namespace yoke::engine
