// Copies of what a sequence has at one position, from which another sequence with the same tokens
// goes on: all that does not lie in blocks that both can share (design.md 8, spec/glm5_next.md 6).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/checkpoint/model_config.h"
#include "engine/model/caches.h"
#include "engine/model/memory.h"
#include "engine/model/model.h"

namespace yoke::engine {

/// N = max_snapshots. The first dimension of each tensor counts snapshots; entries are laid out as
/// in the caches.
struct KdaSnapshots {
  kernels::Tensor q, k, v;  ///< [N, kernel - 1, W] act: convolution histories
  kernels::Tensor state;    ///< [N, heads, d, d] f32
};

struct DsaSnapshots {
  kernels::Tensor raw_keys, raw_gates;  ///< [N, raw_ring, index_dim] act
  kernels::Tensor latent;               ///< [N, block_tokens, kv_rank] act: the last block
  kernels::Tensor pools;  ///< [N, block_tokens / kpool, index_dim] act: the last block
};

class Snapshots {
 public:
  Snapshots(const ModelConfig& config, const ModelOptions& options, bool with_mtp,
            Memory::Mode mode = Memory::Mode::allocate);

  KdaSnapshots& kda(int32_t layer) { return *kda_[static_cast<size_t>(layer)]; }
  DsaSnapshots& dsa(int32_t layer) { return *dsa_[static_cast<size_t>(layer)]; }
  /// [N, hidden] act: the trunk's row of the last token, which the MTP layer wants together with
  /// the next one. Empty without MTP layer.
  kernels::Tensor& hidden() { return hidden_; }
  const kernels::Tensor& hidden() const { return hidden_; }
  uint64_t bytes() const noexcept { return memory_.bytes(); }

 private:
  Memory memory_;
  std::vector<std::optional<KdaSnapshots>> kda_;
  std::vector<std::optional<DsaSnapshots>> dsa_;
  kernels::Tensor hidden_;
};

/// Memory that one snapshot takes.
uint64_t snapshot_bytes(const ModelConfig& config, const ModelOptions& options, bool with_mtp);

}  // namespace yoke::engine
