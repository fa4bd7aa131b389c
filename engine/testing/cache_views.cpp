#include "engine/testing/cache_views.h"

namespace yoke::engine {

std::vector<CacheView> cache_views(Caches& caches, const ModelConfig& config, bool with_mtp) {
  std::vector<CacheView> views;
  const int32_t block = caches.geometry().block_tokens;
  const int32_t layers = config.num_layers + (with_mtp ? 1 : 0);
  for (int32_t layer = 0; layer < layers; ++layer) {
    const std::string stem = "layer " + std::to_string(layer) + " ";
    const auto add = [&](const char* name, kernels::Tensor& t, int32_t rows_per_block = 0) {
      views.push_back({stem + name, rows_per_block > 0, rows_per_block, t.view()});
    };
    if (config.attention_of(layer) == AttentionKind::kda) {
      KdaCache& kda = caches.kda(layer);
      add("q history", kda.q.history);
      add("k history", kda.k.history);
      add("v history", kda.v.history);
      add("q window", kda.q.pending);
      add("k window", kda.k.pending);
      add("v window", kda.v.pending);
      add("state", kda.state);
      add("pending k", kda.pending_k);
      add("pending v", kda.pending_v);
      add("pending decay", kda.pending_g);
      add("pending beta", kda.pending_beta);
    } else {
      DsaCache& dsa = caches.dsa(layer);
      add("latent", dsa.latent, block);
      add("pool keys", dsa.pools, block / config.index_kpool);
      add("raw index keys", dsa.raw_keys);
      add("raw index gates", dsa.raw_gates);
    }
  }
  return views;
}

}  // namespace yoke::engine
