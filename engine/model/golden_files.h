// Shared by the golden tests of this folder: where the reference values lie and how they are read.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"

namespace yoke::engine {

inline std::filesystem::path golden_root() {
  const char* root = std::getenv("YOKE_GOLDEN_ROOT");
  return root != nullptr && *root != 0 ? root : YOKE_GOLDEN_ROOT;
}

/// A file of reference values. A missing one fails the test: goldens are never skipped.
inline SafetensorsFile read_golden(const std::filesystem::path& path) {
  config::Result<SafetensorsFile> file = SafetensorsFile::read(path);
  if (!file.ok()) throw std::runtime_error(file.error().message);
  return std::move(*file);
}

inline std::span<const int32_t> ints(kernels::ConstTensorView view) {
  return {view.as<int32_t>(), static_cast<size_t>(view.elements())};
}
inline std::span<const float> floats_of(kernels::ConstTensorView view) {
  return {view.as<float>(), static_cast<size_t>(view.elements())};
}

/// Suffixes n of the entries `{prefix}{n}.{kind}`, ascending.
inline std::vector<int> numbered(const SafetensorsFile& file, const std::string& prefix,
                                 const std::string& kind) {
  std::vector<int> numbers;
  for (const std::string& name : file.names()) {
    if (name.starts_with(prefix) && name.ends_with("." + kind))
      numbers.push_back(std::stoi(name.substr(prefix.size())));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace yoke::engine
