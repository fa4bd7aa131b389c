#include "engine/checkpoint/checkpoint.h"

#include <algorithm>
#include <utility>

#include "engine/checkpoint/census.h"
#include "engine/checkpoint/shard_set.h"

namespace yoke::engine {

namespace fs = std::filesystem;
using config::Error;
using config::ErrorKind;
using config::Result;

namespace {

constexpr uint64_t kMaxConfigBytes = 16ull << 20;

/// The folder's own name, also for "x/", "." and "..".
std::string folder_name(const fs::path& folder) {
  std::error_code ignored;
  fs::path path = fs::absolute(folder, ignored).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return printable(path.filename().string());
}

Result<std::string> config_text(const fs::path& folder, std::string_view override_text) {
  if (!override_text.empty()) return std::string(override_text);
  auto text = read_text_file(folder / "config.json", kMaxConfigBytes);
  if (text || text.error().kind != ErrorKind::not_found) return text;
  return Error{ErrorKind::not_found, "no config.json in " + quote(folder.string()) +
                                         ": wanted the folder of a Hugging Face checkpoint"};
}

Result<GenerationConfig> generation_config(const fs::path& folder) {
  const auto text = read_text_file(folder / "generation_config.json", kMaxConfigBytes);
  if (text) return parse_generation_config(*text, "generation_config.json");
  if (text.error().kind == ErrorKind::not_found) return GenerationConfig{};
  return text.error();
}

}  // namespace

struct Checkpoint::Impl {
  fs::path folder;
  ModelConfig config;
  GenerationConfig generation;
  ShardSet shards;
  Census census;
};

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::open(const fs::path& folder) {
  return open(folder, {});
}

Result<Checkpoint> Checkpoint::open(const fs::path& folder, std::span<const fs::path> extra_files,
                                    std::string_view config_json_override) {
  const auto text = config_text(folder, config_json_override);
  if (!text) return text.error();
  auto config = parse_model_config(*text, "config.json");
  if (!config) return config.error();
  auto generation = generation_config(folder);
  if (!generation) return generation.error();
  auto shards = open_shards(folder, extra_files, *text);
  if (!shards) return shards.error();

  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  impl->config = std::move(*config);
  impl->generation = std::move(*generation);
  impl->shards = std::move(*shards);
  impl->census = take_census(impl->config, impl->shards);
  if (!impl->census.has_mtp) impl->config.num_mtp_layers = 0;
  return Checkpoint(std::move(impl));
}

const ModelConfig& Checkpoint::config() const noexcept {
  return impl_->config;
}
const GenerationConfig& Checkpoint::generation() const noexcept {
  return impl_->generation;
}
const Census& Checkpoint::census() const noexcept {
  return impl_->census;
}
const fs::path& Checkpoint::folder() const noexcept {
  return impl_->folder;
}
std::string Checkpoint::name() const {
  return folder_name(impl_->folder);
}
std::string Checkpoint::identity() const {
  return impl_->shards.digest;
}
const TensorInfo* Checkpoint::find(std::string_view name) const noexcept {
  return impl_->shards.find(name);
}
std::optional<Exl3Group> Checkpoint::find_exl3(std::string_view weight_name) const {
  constexpr std::string_view kSuffix = ".weight";
  if (!weight_name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view stem = weight_name.substr(0, weight_name.size() - kSuffix.size());
  const TensorInfo* trellis = find(std::string(stem) + ".trellis");
  constexpr int64_t kMaxTiles = int64_t{1} << 32;  // keeps tiles × 16 in range
  if (trellis == nullptr || trellis->shape.size() != 3 || trellis->shape[0] > kMaxTiles ||
      trellis->shape[1] > kMaxTiles)
    return std::nullopt;
  auto group = find_exl3_group(impl_->shards, stem, trellis->shape[1] * 16, trellis->shape[0] * 16);
  if (!group) return std::nullopt;
  return *group;
}
const std::vector<fs::path>& Checkpoint::shards() const noexcept {
  return impl_->shards.paths;
}

Result<void> Checkpoint::read(const TensorInfo& info, std::span<std::byte> out) const {
  YOKE_CHECK(out.size() == info.bytes, "read into a buffer of another size");
  return impl_->shards.files[info.shard].read(info.file_offset, out);
}

Result<void> Checkpoint::read_scales(const TensorInfo& scales, std::span<kernels::f16> out) const {
  std::vector<std::byte> bytes(scales.bytes);
  if (auto done = read(scales, bytes); !done) return done.error();
  return decode_exl3_scales(scales, bytes, out);
}

std::string problem_summary(const Census& census, size_t max_lines) {
  std::string out;
  const size_t shown = std::min(max_lines, census.problems.size());
  for (size_t i = 0; i < shown; ++i) out += census.problems[i] + "\n";
  if (shown < census.problem_count)
    out += "… and " + std::to_string(census.problem_count - shown) + " more\n";
  return out;
}

}  // namespace yoke::engine
