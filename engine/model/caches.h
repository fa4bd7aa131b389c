// What sequences leave behind for their next step (spec/glm5_next.md 6): paged latents and pool
// keys, and per slot the KDA state, the convolution history, the last window's inputs and the raw
// index rows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/checkpoint/model_config.h"
#include "engine/model/memory.h"
#include "engine/model/model.h"
#include "kernels/kda/kda.h"

namespace yoke::engine {

/// Sizes that all layers share.
struct CacheGeometry {
  int32_t block_tokens = 0;     ///< tokens per block: 64, rounded up to a multiple of index_kpool
  int32_t blocks_per_slot = 0;  ///< enough for max_model_len
  int32_t num_blocks = 0;
  int32_t raw_ring = 0;  ///< raw index rows kept per slot: index_kpool + max_window, rounded up to
                         ///< a multiple of index_kpool
};

CacheGeometry cache_geometry(const ModelConfig& config, const ModelOptions& options);

/// One convolution's inputs: committed history and the last window. [slots, rows, width]
struct ConvCache {
  kernels::Tensor history, pending;
};

struct KdaCache {
  ConvCache q, k, v;
  kernels::Tensor state, pending_k, pending_v, pending_g, pending_beta;

  kernels::KdaState view() const;
};

struct DsaCache {
  kernels::Tensor latent;               ///< [blocks · block_tokens, kv_rank]
  kernels::Tensor pools;                ///< [blocks · block_tokens / kpool, index_dim]
  kernels::Tensor raw_keys, raw_gates;  ///< [slots, raw_ring, index_dim]
};

/// One entry per layer, the MTP layer last; the cache of the other attention kind is empty.
class Caches {
 public:
  Caches(const ModelConfig& config, const ModelOptions& options, bool with_mtp,
         Memory::Mode mode = Memory::Mode::allocate);

  const CacheGeometry& geometry() const noexcept { return geometry_; }
  KdaCache& kda(int32_t layer) { return *kda_[static_cast<size_t>(layer)]; }
  DsaCache& dsa(int32_t layer) { return *dsa_[static_cast<size_t>(layer)]; }

  uint64_t bytes() const noexcept { return paged_bytes_ + slot_bytes_; }
  /// Of these, what is paged: latents and pool keys.
  uint64_t paged_bytes() const noexcept { return paged_bytes_; }

 private:
  CacheGeometry geometry_;
  std::vector<std::optional<KdaCache>> kda_;
  std::vector<std::optional<DsaCache>> dsa_;
  uint64_t paged_bytes_ = 0;
  uint64_t slot_bytes_ = 0;
};

}  // namespace yoke::engine
