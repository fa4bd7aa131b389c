#include "engine/model/caches.h"

namespace yoke::engine {

using kernels::DType;
using kernels::Tensor;
using kernels::TensorView;

namespace {

constexpr int32_t kBlockTokens = 64;

int32_t round_up(int32_t value, int32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

DType act_type(const ModelOptions& options) {
  return options.precision == Precision::fp32 ? DType::f32 : DType::bf16;
}

KdaCache make_kda(Memory& memory, const ModelConfig& c, const ModelOptions& options) {
  const DType act = act_type(options);
  const int64_t slots = options.max_slots;
  const int64_t window = options.max_window;
  const int64_t width = c.kda_width();
  KdaCache cache;
  for (ConvCache* conv : {&cache.q, &cache.k, &cache.v}) {
    conv->history = memory.tensor(act, {slots, c.conv_kernel - 1, width});
    conv->pending = memory.tensor(act, {slots, window, width});
  }
  cache.state = memory.tensor(DType::f32, {slots, c.kda_heads, c.kda_head_dim, c.kda_head_dim});
  cache.pending_k = memory.tensor(act, {slots, window, width});
  cache.pending_v = memory.tensor(act, {slots, window, width});
  cache.pending_g = memory.tensor(DType::f32, {slots, window, width});
  cache.pending_beta = memory.tensor(DType::f32, {slots, window, c.kda_heads});
  return cache;
}

DsaCache make_dsa(Memory& paged, Memory& memory, const ModelConfig& c, const ModelOptions& options,
                  const CacheGeometry& g) {
  const DType act = act_type(options);
  const int64_t tokens = int64_t{g.num_blocks} * g.block_tokens;
  DsaCache cache;
  cache.latent = paged.tensor(act, {tokens, c.kv_lora_rank});
  cache.pools = paged.tensor(act, {tokens / c.index_kpool, c.index_head_dim});
  cache.raw_keys = memory.tensor(act, {options.max_slots, g.raw_ring, c.index_head_dim});
  cache.raw_gates = memory.tensor(act, {options.max_slots, g.raw_ring, c.index_head_dim});
  return cache;
}

}  // namespace

CacheGeometry cache_geometry(const ModelConfig& config, const ModelOptions& options) {
  CacheGeometry g;
  g.block_tokens = round_up(kBlockTokens, config.index_kpool);
  g.blocks_per_slot = (options.max_model_len + g.block_tokens - 1) / g.block_tokens;
  g.num_blocks =
      options.num_blocks > 0 ? options.num_blocks : options.max_slots * g.blocks_per_slot;
  g.raw_ring = round_up(config.index_kpool + options.max_window, config.index_kpool);
  return g;
}

kernels::KdaState KdaCache::view() const {
  const auto all = [](const Tensor& t) { return t.rows(t.view().dim(0)); };
  return {all(state), all(pending_k), all(pending_v), all(pending_g), all(pending_beta)};
}

Caches::Caches(const ModelConfig& config, const ModelOptions& options, bool with_mtp,
               Memory::Mode mode)
    : geometry_(cache_geometry(config, options)) {
  Memory paged(mode);
  Memory per_slot(mode);
  const int32_t layers = config.num_layers + (with_mtp ? 1 : 0);
  kda_.resize(static_cast<size_t>(layers));
  dsa_.resize(static_cast<size_t>(layers));
  for (int32_t layer = 0; layer < layers; ++layer) {
    const auto i = static_cast<size_t>(layer);
    if (config.attention_of(layer) == AttentionKind::kda) {
      kda_[i] = make_kda(per_slot, config, options);
    } else {
      dsa_[i] = make_dsa(paged, per_slot, config, options, geometry_);
    }
  }
  paged_bytes_ = paged.bytes();
  slot_bytes_ = per_slot.bytes();
}

}  // namespace yoke::engine
