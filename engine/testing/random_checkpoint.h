// Checkpoints of random weights, complete and well formed, written to disk from a seed: for tests
// that need sizes, quantisation or layer patterns that no real checkpoint of a useful size has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "engine/checkpoint/inventory.h"
#include "engine/checkpoint/model_config.h"
#include "kernels/core/weights.h"

namespace yoke::engine {

/// Everything that decides the bytes of a random checkpoint.
struct RandomCheckpoint {
  ModelConfig config;
  uint64_t seed = 1;
  /// EXL3 bits (1 to 8) that a quantisable matrix is stored with; 0 leaves it dense. Both sides of
  /// the matrix must then be multiples of 128.
  std::function<int(const ExpectedTensor&)> bits = [](const ExpectedTensor&) { return 0; };
  kernels::Codebook codebook = kernels::Codebook::mcg;
  /// Store output scales as the packed signs of old EXL3 files.
  bool packed_signs = false;
  /// Type of dense tensors that the released checkpoint has in BF16: "BF16", "F16" or "F32".
  std::string dense_dtype = "BF16";
};

/// 6 layers (KDA ×3, DSA, KDA, DSA) and an MTP layer, hidden 128; sparse from 20 tokens. The shape
/// of spec/glm5_next.md 9.2.
ModelConfig tiny_config();
/// 4 layers (KDA, DSA, KDA, DSA), hidden 256, experts of 256: every quantisable matrix has sides
/// that are multiples of 128, those that ranks split even of 256.
ModelConfig exl3_config();
/// The model that stands for the released one in size-dependent behaviour: hidden 1024, 8 layers
/// with DSA in 3 and 7 and KDA elsewhere, 16 heads of 64 in both, 64 experts (6 per token) of 512
/// in every layer, vocabulary 32,768, an MTP layer; sparse from 260 tokens.
ModelConfig wide_config();

/// What may be made smaller in `wide`; the widths stay.
struct WideShape {
  int32_t layers = 8;
  int32_t experts = 64;
  int32_t vocab_size = 32768;
  int32_t index_topk = 256;
  int expert_bits = 4;  ///< EXL3 bits of the routed experts; 0: BF16 as all else
  bool with_mtp = true;
};
/// Small enough for every test run; sparse from 20 tokens.
constexpr WideShape kShortWide{.layers = 4, .experts = 12, .vocab_size = 1280, .index_topk = 16};

/// `wide`: EXL3 experts, BF16 elsewhere.
RandomCheckpoint wide_checkpoint(const WideShape& shape = {});

/// For RandomCheckpoint::bits.
std::function<int(const ExpectedTensor&)> exl3_experts(int bits);
/// Every matrix whose sides allow it, with bits that differ from tensor to tensor (1 to 8).
std::function<int(const ExpectedTensor&)> exl3_everything();

/// The text of config.json that parses back to `config`.
std::string config_json(const ModelConfig& config);

/// Writes config.json and model.safetensors into `folder`, which must exist. Throws
/// std::runtime_error when a file cannot be written.
void write_random_checkpoint(const std::filesystem::path& folder, const RandomCheckpoint& what);

/// A temporary folder, removed with this object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace yoke::engine
