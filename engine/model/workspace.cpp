#include "engine/model/workspace.h"

#include <algorithm>
#include <variant>

#include "engine/model/caches.h"
#include "kernels/linear/linear.h"
#include "kernels/moe_experts/moe_experts.h"

namespace yoke::engine {

using kernels::DType;
using kernels::LinearWeight;

namespace {

/// Floats of scratch that the products of one step take at most.
class ScratchNeed {
 public:
  ScratchNeed(const ModelConfig& config, const ModelOptions& options, int threads)
      : rows_(options.max_rows),
        items_(int64_t{options.max_rows} * config.experts_per_token),
        logit_rows_(options.max_logit_rows),
        threads_(threads) {}

  int64_t floats(const Weights& weights) {
    linear(weights.lm_head, logit_rows_);
    for (const LayerWeights& layer : weights.layers) this->layer(layer);
    if (weights.mtp) {
      linear(weights.mtp->eh, rows_);
      layer(weights.mtp->layer);
    }
    return floats_;
  }

 private:
  void linear(const LinearWeight& w, int64_t rows) {
    floats_ = std::max(floats_, kernels::linear_scratch_floats(w, rows));
  }
  void mlp(const MlpWeights& w) {
    for (const LinearWeight* m : {&w.gate, &w.up, &w.down}) linear(*m, rows_);
  }
  void layer(const LayerWeights& layer) {
    if (const auto* kda = std::get_if<KdaWeights>(&layer.attention)) {
      for (const LinearWeight* m : {&kda->q, &kda->k, &kda->v, &kda->f_a, &kda->f_b, &kda->g_a,
                                    &kda->g_b, &kda->b, &kda->o})
        linear(*m, rows_);
    } else {
      const auto& dsa = std::get<DsaWeights>(layer.attention);
      for (const LinearWeight* m : {&dsa.q_a, &dsa.q_b, &dsa.kv_a, &dsa.o, &dsa.index_q,
                                    &dsa.index_k, &dsa.index_w, &dsa.index_gate})
        linear(*m, rows_);
    }
    if (const auto* dense = std::get_if<MlpWeights>(&layer.mlp)) {
      mlp(*dense);
    } else {
      const auto& moe = std::get<MoeWeights>(layer.mlp);
      linear(moe.router, rows_);
      mlp(moe.shared);
      for (const auto* matrices : {&moe.gate, &moe.up, &moe.down})
        floats_ =
            std::max(floats_, kernels::grouped_linear_scratch_floats(*matrices, items_, threads_));
    }
  }

  int64_t rows_, items_, logit_rows_;
  int threads_;
  int64_t floats_ = 0;
};

}  // namespace

Workspace::Workspace(const ModelConfig& c, const ModelOptions& options, const Weights& loaded,
                     int threads, Memory& memory) {
  const DType act = options.precision == Precision::fp32 ? DType::f32 : DType::bf16;
  const DType f32 = DType::f32;
  const DType i32 = DType::i32;
  const int64_t rows = options.max_rows;
  const int64_t model_width = c.hidden_size;
  const auto make = [&](DType dtype, kernels::Shape shape) { return memory.tensor(dtype, shape); };
  streams = make(act, {rows, c.hc_streams, model_width});
  post = make(f32, {rows, c.hc_streams});
  comb = make(f32, {rows, c.hc_streams, c.hc_streams});
  x = make(act, {rows, model_width});
  y = make(f32, {rows, model_width});
  scratch = make(f32, {std::max<int64_t>(1, ScratchNeed(c, options, threads).floats(loaded))});

  const int64_t width = c.kda_width();
  for (kernels::Tensor* t : {&q_raw, &k_raw, &v_raw, &q, &k, &v, &z, &o})
    *t = make(act, {rows, width});
  low = make(act, {rows, c.kda_head_dim});
  write = make(f32, {rows, c.kda_heads});
  g = make(f32, {rows, width});
  beta = make(f32, {rows, c.kda_heads});

  q_low = make(act, {rows, c.q_lora_rank});
  query = make(act, {rows, c.num_heads, c.qk_head_dim});
  latent = make(act, {rows, c.kv_lora_rank});
  absorbed = make(act, {rows, c.num_heads, c.kv_lora_rank});
  attended = make(act, {rows, c.num_heads, c.kv_lora_rank});
  value = make(act, {rows, c.num_heads, c.v_head_dim});
  index_q = make(act, {rows, c.index_heads, c.index_head_dim});
  index_k = make(act, {rows, c.index_head_dim});
  index_gate = make(act, {rows, c.index_head_dim});
  index_w = make(f32, {rows, c.index_heads});
  selected = make(i32, {rows, c.index_topk + c.index_kpool - 1});
  count = make(i32, {rows});
  const int64_t pools = options.max_model_len / c.index_kpool;
  select_scratch = make(f32, {threads, pools + c.index_topk / c.index_kpool});

  const int64_t inner =
      std::max(c.intermediate_size, c.moe_intermediate_size * c.num_shared_experts);
  gate = make(act, {rows, inner});
  up = make(act, {rows, inner});

  const uint64_t before_moe = memory.bytes();
  const int64_t choices = c.experts_per_token;
  router = make(f32, {rows, c.num_experts});
  ids = make(i32, {rows, choices});
  weights = make(f32, {rows, choices});
  offsets = make(i32, {c.num_experts + 1});
  items = make(i32, {rows * choices});
  expert_gate = make(act, {rows * choices, c.moe_intermediate_size});
  expert_up = make(act, {rows * choices, c.moe_intermediate_size});
  slots = make(f32, {rows, choices, model_width});
  shared = make(f32, {rows, model_width});
  moe_bytes_ = memory.bytes() - before_moe;

  if (loaded.mtp) {
    mtp_in = make(act, {rows, model_width});
    mtp_embedding = make(act, {rows, model_width});
    joined = make(act, {rows, 2 * model_width});
    mtp_hidden = make(act, {rows, model_width});
  }

  hidden = make(act, {rows, model_width});
  head_rows = make(act, {options.max_logit_rows, model_width});
  logits = make(f32, {options.max_logit_rows, c.vocab_size});
}

}  // namespace yoke::engine
