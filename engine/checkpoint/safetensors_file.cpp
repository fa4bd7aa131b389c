// A safetensors file read whole, for reference values and tests.
#include <algorithm>

#include "config/check.h"
#include "engine/checkpoint/safetensors.h"

namespace yoke::engine {

using config::invalid_input;
using config::Result;

namespace {

Result<kernels::ConstTensorView> view_of(const TensorInfo& info, const void* data,
                                         const std::string& where) {
  using kernels::DType;
  kernels::ConstTensorView view;
  view.data = data;
  bool known = false;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32, DType::i16, DType::i32}) {
    if (info.dtype != kernels::dtype_name(dtype)) continue;
    view.dtype = dtype;
    known = true;
  }
  if (!known || info.shape.size() > kernels::kMaxRank)
    return invalid_input(where + "tensor " + quote(info.name) + ": " + info.dtype + " " +
                         shape_text(info.shape) +
                         " cannot be viewed; wanted BF16, F16, F32, I16 or I32 of at most " +
                         std::to_string(kernels::kMaxRank) + " dimensions");
  view.shape.rank = static_cast<int>(info.shape.size());
  std::copy(info.shape.begin(), info.shape.end(), view.shape.dims.begin());
  return view;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::read(const std::filesystem::path& path) {
  auto file = File::open(path);
  if (!file) return file.error();
  auto header = read_header_text(*file);
  if (!header) return header.error();
  SafetensorsFile result;
  const auto tensors =
      parse_safetensors_header(*header, file->size(), file->name(), &result.metadata_);
  if (!tensors) return tensors.error();

  result.storage_.reserve(tensors->size());
  for (const TensorInfo& info : *tensors) {
    // One allocation per tensor, so that each begins aligned. At least one byte: a view's data is
    // null only when it is absent.
    std::vector<std::byte>& bytes =
        result.storage_.emplace_back(std::max<size_t>(1, static_cast<size_t>(info.bytes)));
    if (auto read = file->read(info.file_offset, std::span(bytes).first(info.bytes)); !read)
      return read.error();
    auto view = view_of(info, bytes.data(), file->name() + ": ");
    if (!view) return view.error();
    result.tensors_.emplace(info.name, *view);
  }
  return result;
}

bool SafetensorsFile::has(std::string_view name) const {
  return tensors_.contains(std::string(name));
}

kernels::ConstTensorView SafetensorsFile::tensor(std::string_view name) const {
  const auto found = tensors_.find(std::string(name));
  const std::string what = "no such tensor in this file: " + std::string(name);
  YOKE_CHECK(found != tensors_.end(), what.c_str());
  return found->second;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, view] : tensors_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string SafetensorsFile::metadata(std::string_view key) const {
  const auto found = metadata_.find(std::string(key));
  return found == metadata_.end() ? std::string() : found->second;
}

}  // namespace yoke::engine
