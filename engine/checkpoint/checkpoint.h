// A Hugging Face folder on disk: config.json, one or many safetensors, tokenizer.json,
// generation_config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/exl3_group.h"
#include "engine/checkpoint/model_config.h"
#include "engine/checkpoint/safetensors.h"

namespace yoke::engine {

/// What a checkpoint holds, by class, and what is wrong with it. Filled by Checkpoint::open.
struct Census {
  struct Class {
    std::string name;  ///< e.g. "routed experts", "attention", "embedding", "vision"
    uint64_t tensors = 0;
    uint64_t parameters = 0;  ///< logical weights: an EXL3 matrix counts in·out
    uint64_t bytes = 0;
    double bits_per_parameter = 0;
  };
  std::vector<Class> classes;
  uint64_t tensors = 0;
  uint64_t parameters = 0;
  uint64_t bytes = 0;
  /// One line each, naming tensor, file, wanted and found; empty means the folder can be served.
  /// The first thousand; problem_count counts all.
  std::vector<std::string> problems;
  uint64_t problem_count = 0;
  bool has_mtp = false;
  bool has_vision = false;
  uint64_t exl3_matrices = 0;
};

/// The first `max_lines` problems, one per line, then how many more there are; "" for none.
std::string problem_summary(const Census& census, size_t max_lines = 20);

/// Thread safe after open: reads use pread on descriptors of their own.
class Checkpoint {
 public:
  /// Reads all headers and takes the census; reads no tensor data. A folder that cannot be read at
  /// all is an error; a folder with a wrong inventory opens, and census().problems says why it
  /// cannot be served.
  static config::Result<Checkpoint> open(const std::filesystem::path& folder);
  /// The same with extra tensors from other safetensors files that the folder's own files lack
  /// (golden/mtp over golden/glm5_next), and with another text in place of config.json. A file
  /// mtp.safetensors in the folder that the index does not name is such an extra by itself
  /// (turboderp's layout).
  static config::Result<Checkpoint> open(const std::filesystem::path& folder,
                                         std::span<const std::filesystem::path> extra_files,
                                         std::string_view config_json_override = {});

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  /// As config.json says, but num_mtp_layers is 0 when the files hold no MTP layer.
  const ModelConfig& config() const noexcept;
  const GenerationConfig& generation() const noexcept;
  const Census& census() const noexcept;
  const std::filesystem::path& folder() const noexcept;
  /// Folder name, for people: never a full path, always UTF-8.
  std::string name() const;
  /// xxh3-128 over all shard headers and sizes and config.json, hex: cheap, changes with any name,
  /// shape or offset.
  std::string identity() const;

  /// nullptr when absent. The pointer lives as long as the checkpoint.
  const TensorInfo* find(std::string_view name) const noexcept;
  /// The EXL3 matrix that stands for `weight_name` ("….q_proj.weight"); nullopt when there is none.
  std::optional<Exl3Group> find_exl3(std::string_view weight_name) const;
  const std::vector<std::filesystem::path>& shards() const noexcept;

  /// Reads the tensor's bytes; `out.size()` must equal `info.bytes`. Errors: short file, I/O.
  config::Result<void> read(const TensorInfo& info, std::span<std::byte> out) const;
  /// Reads `in_scales` or `out_scales` of a group as fp16, one per channel: packed signs become ±1,
  /// and a scale that is not finite is an error. `out` has in or out entries.
  config::Result<void> read_scales(const TensorInfo& scales, std::span<kernels::f16> out) const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke::engine
