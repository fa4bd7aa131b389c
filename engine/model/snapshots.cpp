#include "engine/model/snapshots.h"

namespace yoke::engine {

using kernels::DType;

Snapshots::Snapshots(const ModelConfig& c, const ModelOptions& options, bool with_mtp,
                     Memory::Mode mode)
    : memory_(mode) {
  const CacheGeometry g = cache_geometry(c, options);
  const DType act = options.precision == Precision::fp32 ? DType::f32 : DType::bf16;
  const int64_t n = options.max_snapshots;
  const int32_t layers = c.num_layers + (with_mtp ? 1 : 0);
  kda_.resize(static_cast<size_t>(layers));
  dsa_.resize(static_cast<size_t>(layers));
  for (int32_t layer = 0; layer < layers; ++layer) {
    if (c.attention_of(layer) == AttentionKind::kda) {
      KdaSnapshots& kda = kda_[static_cast<size_t>(layer)].emplace();
      for (kernels::Tensor* history : {&kda.q, &kda.k, &kda.v})
        *history = memory_.tensor(act, {n, c.conv_kernel - 1, c.kda_width()});
      kda.state = memory_.tensor(DType::f32, {n, c.kda_heads, c.kda_head_dim, c.kda_head_dim});
    } else {
      DsaSnapshots& dsa = dsa_[static_cast<size_t>(layer)].emplace();
      for (kernels::Tensor* raw : {&dsa.raw_keys, &dsa.raw_gates})
        *raw = memory_.tensor(act, {n, g.raw_ring, c.index_head_dim});
      dsa.latent = memory_.tensor(act, {n, g.block_tokens, c.kv_lora_rank});
      dsa.pools = memory_.tensor(act, {n, g.block_tokens / c.index_kpool, c.index_head_dim});
    }
  }
  if (with_mtp) hidden_ = memory_.tensor(act, {n, c.hidden_size});
}

uint64_t snapshot_bytes(const ModelConfig& config, const ModelOptions& options, bool with_mtp) {
  ModelOptions one = options;
  one.max_snapshots = 1;
  return Snapshots(config, one, with_mtp, Memory::Mode::count).bytes();
}

}  // namespace yoke::engine
