// Checkpoint folders made by tests: from the inventory, with headers that are right or wrong on
// purpose. Tensor data is a hole in the file except where a test gives bytes.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/inventory.h"
#include "engine/checkpoint/safetensors.h"

namespace yoke::engine::test {

/// A temporary directory, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "yoke-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
}

inline std::string testdata(std::string_view name) {
  return read_file(std::filesystem::path(__FILE__).parent_path() / "testdata" / name);
}

/// `text` with the one occurrence of `before` replaced.
inline std::string with(std::string text, std::string_view before, std::string_view after) {
  const size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << "no " << before << " to replace";
  if (at != std::string::npos) text.replace(at, before.size(), after);
  return text;
}

inline uint64_t dtype_size(std::string_view dtype) {
  if (dtype == "F32" || dtype == "I32") return 4;
  return dtype == "BF16" || dtype == "F16" || dtype == "I16" ? 2 : 1;
}

struct FileTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string content;  ///< "" = a hole: zeros

  uint64_t bytes() const {
    uint64_t n = dtype_size(dtype);
    for (const int64_t d : shape) n *= static_cast<uint64_t>(d);
    return n;
  }
};

/// The header that the format's own writer would give these tensors in this order.
inline std::string header_of(const std::vector<FileTensor>& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  uint64_t position = 0;
  for (const FileTensor& t : tensors) {
    header += ",\"" + t.name + "\":{\"dtype\":\"" + t.dtype +
              "\",\"shape\":" + shape_text(t.shape) + ",\"data_offsets\":[" +
              std::to_string(position) + "," + std::to_string(position + t.bytes()) + "]}";
    position += t.bytes();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

/// Length, header, and a hole for the data with the given contents in it.
inline void write_safetensors(const std::filesystem::path& path,
                              const std::vector<FileTensor>& tensors) {
  const std::string header = header_of(tensors);
  const uint64_t length = header.size();
  std::string head(sizeof length, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  head += header;
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  ASSERT_GE(file, 0) << path;
  const auto write_at = [&](uint64_t offset, const std::string& bytes) {
    ASSERT_EQ(::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
  };
  write_at(0, head);
  uint64_t position = head.size();
  for (const FileTensor& t : tensors) {
    if (!t.content.empty()) write_at(position, t.content);
    position += t.bytes();
  }
  ASSERT_EQ(::ftruncate(file, static_cast<off_t>(position)), 0);
  ::close(file);
}

/// {"weight_map": {…}} for these shards.
inline std::string index_of(
    const std::vector<std::pair<std::string, std::vector<FileTensor>>>& shards) {
  std::string text = "{\"metadata\":{},\"weight_map\":{";
  bool first = true;
  for (const auto& [file, tensors] : shards)
    for (const FileTensor& t : tensors) {
      text += (first ? "\"" : ",\"") + t.name + "\":\"" + file + "\"";
      first = false;
    }
  return text + "}}";
}

inline std::string little_endian(uint32_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// How to make a checkpoint from an inventory.
struct SyntheticOptions {
  bool mtp = true;
  bool vision = true;
  /// Bits of an EXL3 group in place of this tensor; 0 leaves it dense.
  std::function<int(const ExpectedTensor&)> bits = [](const ExpectedTensor&) { return 0; };
  std::string marker = "mcg";  ///< "mcg", "mul1" or "" for the original codebook
};

/// Types as in the released files: F32 where these have it (spec/glm5_next.md 3), else BF16.
inline std::string released_dtype(std::string_view name) {
  for (const std::string_view end :
       {"A_log", "dt_bias", "_base", "_scale", "e_score_correction_bias"})
    if (name.ends_with(end)) return "F32";
  return "BF16";
}

inline std::vector<FileTensor> synthetic_tensors(const ModelConfig& config,
                                                 const SyntheticOptions& options) {
  std::vector<FileTensor> out;
  const auto add = [&](const ExpectedTensor& t) {
    const int bits = t.quantisable ? options.bits(t) : 0;
    if (bits == 0) {
      out.push_back({t.name, released_dtype(t.name), {t.shape().begin(), t.shape().end()}, {}});
      return;
    }
    const std::string stem = t.name.substr(0, t.name.size() - std::strlen("weight"));
    const int64_t rows = t.dims[0];
    const int64_t columns = t.dims[1];
    out.push_back({stem + "trellis", "I16", {columns / 16, rows / 16, 16 * bits}, {}});
    out.push_back({stem + "suh", "F16", {columns}, {}});
    out.push_back({stem + "svh", "F16", {rows}, {}});
    if (options.marker.empty()) return;
    const uint32_t multiplier = options.marker == "mcg" ? 0xCBAC1FED : 0x83DCD12D;
    out.push_back({stem + options.marker, "I32", {}, little_endian(multiplier)});
  };
  visit_inventory(config, InventoryPart::text, add);
  if (options.mtp) visit_inventory(config, InventoryPart::mtp, add);
  if (options.vision) visit_inventory(config, InventoryPart::vision, add);
  return out;
}

/// A small folder that tests damage one thing of at a time; testdata/small_config.json with its MTP
/// layer and vision tower, experts EXL3 at 4 bits, in two shards with an index.
struct SmallCheckpoint {
  using Shard = std::pair<std::string, std::vector<FileTensor>>;

  std::string config = testdata("small_config.json");
  std::vector<Shard> shards;
  std::optional<std::string> index;  ///< nullopt: the one that fits the shards

  SmallCheckpoint() : SmallCheckpoint(SyntheticOptions{.bits = expert_bits}) {}
  explicit SmallCheckpoint(const SyntheticOptions& options) {
    auto parsed = parse_model_config(config, "config.json");
    if (!parsed) ADD_FAILURE() << parsed.error().message;
    const std::vector<FileTensor> all = synthetic_tensors(*parsed, options);
    const auto middle = all.begin() + static_cast<long>(all.size() / 2);
    shards = {{"a.safetensors", {all.begin(), middle}}, {"b.safetensors", {middle, all.end()}}};
  }

  static int expert_bits(const ExpectedTensor& t) {
    return t.tensor_class == TensorClass::routed_experts ? 4 : 0;
  }

  /// The tensor of this name with its shard; fails the test when absent.
  std::pair<Shard*, std::vector<FileTensor>::iterator> locate(std::string_view name) {
    for (Shard& shard : shards) {
      const auto at = std::find_if(shard.second.begin(), shard.second.end(),
                                   [&](const FileTensor& t) { return t.name == name; });
      if (at != shard.second.end()) return {&shard, at};
    }
    ADD_FAILURE() << "no tensor " << name;
    std::abort();
  }
  FileTensor& tensor(std::string_view name) { return *locate(name).second; }
  void remove(std::string_view name) {
    const auto [shard, at] = locate(name);
    shard->second.erase(at);
  }
  void remove_if(const std::function<bool(const FileTensor&)>& unwanted) {
    for (Shard& shard : shards) std::erase_if(shard.second, unwanted);
  }
  void add(FileTensor tensor) { shards.back().second.push_back(std::move(tensor)); }

  void write(const std::filesystem::path& folder) const {
    write_file(folder / "config.json", config);
    for (const auto& [file, tensors] : shards) write_safetensors(folder / file, tensors);
    write_file(folder / "model.safetensors.index.json", index.value_or(index_of(shards)));
  }
};

/// Files in the order of safetensors' own writer (large element types first, then names), split
/// evenly by count. All data is a hole but the markers.
inline void write_released(const std::filesystem::path& folder, std::vector<FileTensor> tensors,
                           size_t files) {
  std::vector<std::pair<std::string, std::vector<FileTensor>>> shards(files);
  for (size_t i = 0; i < files; ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, files);
    shards[i].first = name;
    for (size_t t = tensors.size() * i / files; t < tensors.size() * (i + 1) / files; ++t)
      shards[i].second.push_back(std::move(tensors[t]));
    std::stable_sort(shards[i].second.begin(), shards[i].second.end(),
                     [](const FileTensor& a, const FileTensor& b) {
                       return dtype_size(a.dtype) > dtype_size(b.dtype);
                     });
    write_safetensors(folder / name, shards[i].second);
  }
  write_file(folder / "model.safetensors.index.json", index_of(shards));
}

}  // namespace yoke::engine::test
