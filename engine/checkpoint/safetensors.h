// The safetensors container: u64 little-endian header length, JSON header, raw data. Headers are
// foreign bytes: nothing is allocated from an unchecked number, and every offset is checked before
// it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/file.h"
#include "kernels/core/tensor_view.h"

namespace yoke::engine {

/// One tensor of one file.
struct TensorInfo {
  std::string name;
  std::string dtype;           ///< as spelled in the header: BF16, F16, F32, I16, I32, F8_E4M3, …
  std::vector<int64_t> shape;  ///< [] for a scalar
  uint64_t file_offset = 0;    ///< absolute offset of the first byte
  uint64_t bytes = 0;
  uint32_t shard = 0;  ///< index into Checkpoint::shards()
};

/// Largest header we accept: 150,226 tensors need about 25 MiB in all shards together.
constexpr uint64_t kMaxSafetensorsHeader = 64ull << 20;

/// "[2048,4096]", "[]": shapes in messages.
std::string shape_text(std::span<const int64_t> shape);

/// Parses a header of a file of `file_size` bytes. `header` is the JSON text alone. Tensors come in
/// file order; their ranges lie in the file and touch each other without overlap or holes, as the
/// format demands. Errors name tensor and file: overlapping or out-of-range offsets, size that
/// contradicts shape and dtype, duplicate names, non-UTF-8, wrong kinds.
/// `metadata`, when given, receives `__metadata__`.
config::Result<std::vector<TensorInfo>> parse_safetensors_header(
    std::string_view header, uint64_t file_size, std::string_view file_name,
    std::unordered_map<std::string, std::string>* metadata = nullptr);

/// The JSON text of the file's header, its length checked before anything is allocated.
config::Result<std::string> read_header_text(const File& file);

/// Reads and parses the header of `path`.
config::Result<std::vector<TensorInfo>> read_safetensors_header(const std::filesystem::path& path);

/// A small safetensors file read whole: golden values and tests. Tensors keep the file's bytes
/// alive; views stay valid while the file moves, hence no copies.
class SafetensorsFile {
 public:
  SafetensorsFile() = default;
  SafetensorsFile(SafetensorsFile&&) noexcept = default;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept = default;

  /// Error also for what a view cannot show: other types than BF16, F16, F32, I16, I32, rank > 4.
  static config::Result<SafetensorsFile> read(const std::filesystem::path& path);

  bool has(std::string_view name) const;
  /// Aborts when absent: for tests that know their file. 16-byte aligned.
  kernels::ConstTensorView tensor(std::string_view name) const;
  std::vector<std::string> names() const;
  /// `__metadata__` value or "".
  std::string metadata(std::string_view key) const;

 private:
  std::unordered_map<std::string, kernels::ConstTensorView> tensors_;
  std::unordered_map<std::string, std::string> metadata_;
  std::vector<std::vector<std::byte>> storage_;
};

}  // namespace yoke::engine
