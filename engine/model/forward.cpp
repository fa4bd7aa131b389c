#include "engine/model/forward.h"

#include <cmath>
#include <variant>

#include "kernels/embed/embed.h"
#include "kernels/gather_rows/gather_rows.h"
#include "kernels/head_linear/head_linear.h"
#include "kernels/index_pool/index_pool.h"
#include "kernels/index_select/index_select.h"
#include "kernels/kda/kda.h"
#include "kernels/kv_append/kv_append.h"
#include "kernels/layer_norm/layer_norm.h"
#include "kernels/linear/linear.h"
#include "kernels/mhc/mhc.h"
#include "kernels/mla_attention/mla_attention.h"
#include "kernels/moe_experts/moe_experts.h"
#include "kernels/moe_route/moe_route.h"
#include "kernels/residual/residual.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/short_conv/short_conv.h"
#include "kernels/stream_mean/stream_mean.h"
#include "kernels/swiglu/swiglu.h"

namespace yoke::engine {

using kernels::ConstTensorView;
using kernels::LinearWeight;
using kernels::reshaped;
using kernels::Tensor;
using kernels::TensorView;

namespace {

constexpr float kIndexNormEps = 1e-6f;  // LayerNorm of the index keys (spec/glm5_next.md 5.5)

/// [rows, a, b] seen as [rows, a · b].
TensorView flat(TensorView view) {
  return reshaped(view, {view.dim(0), view.row_elements()});
}

/// The first `width` columns' worth of a row-major buffer, as [rows, width].
TensorView narrowed(TensorView view, int64_t width) {
  view.shape = {view.dim(0), width};
  return view;
}

}  // namespace

Forward::Forward(const ModelConfig& config, const Weights& weights, Caches& caches,
                 const StepBuffers& buffers, Workspace& workspace, kernels::Stream& stream)
    : c_(config),
      weights_(weights),
      caches_(caches),
      buffers_(buffers),
      ws_(workspace),
      stream_(stream) {}

void Forward::trunk(int32_t bucket, int32_t logit_bucket) {
  bucket_ = bucket;
  embed_streams(rows(ws_.streams), buffers_.tokens(bucket), weights_.embedding, stream_);
  trace(0);
  for (int32_t i = 0; i < c_.num_layers; ++i) {
    layer(i, weights_.layers[static_cast<size_t>(i)]);
    trace(i + 1);
  }
  stream_mean(rows(ws_.x), rows(ws_.streams), stream_);
  norm(rows(ws_.hidden), rows(ws_.x), weights_.norm);
  head(ws_.hidden, logit_bucket);
}

void Forward::layer(int32_t index, const LayerWeights& w) {
  const TensorView streams = rows(ws_.streams);
  const TensorView x = rows(ws_.x);
  const TensorView post = rows(ws_.post);
  const TensorView comb = rows(ws_.comb);

  mhc_coefficients(x, post, comb, streams, w.attention_hc, stream_);
  norm(x, x, w.input_norm);
  attention(index, w);
  mhc_mix(streams, rows(ws_.y), post, comb, stream_);

  mhc_coefficients(x, post, comb, streams, w.mlp_hc, stream_);
  norm(x, x, w.post_attention_norm);
  mlp(index, w);
  mhc_mix(streams, rows(ws_.y), post, comb, stream_);
}

void Forward::mtp(int32_t bucket, int32_t logit_bucket) {
  bucket_ = bucket;
  const MtpWeights& w = *weights_.mtp;
  const TensorView embedding = rows(ws_.mtp_embedding);
  const TensorView hidden = rows(ws_.mtp_in);
  // Here the running value is one plain stream.
  const TensorView running = rows(ws_.mtp_hidden);
  const TensorView x = rows(ws_.x);

  embed(embedding, buffers_.tokens(bucket), weights_.embedding, step_rows().position, stream_);
  norm(embedding, embedding, w.embedding_norm);
  norm(hidden, hidden, w.hidden_norm);
  concat_columns(rows(ws_.joined), embedding, hidden, stream_);
  linear(running, rows(ws_.joined), w.eh);

  norm(x, running, w.layer.input_norm);
  attention(c_.num_layers, w.layer);
  residual_add(running, rows(ws_.y), stream_);

  norm(x, running, w.layer.post_attention_norm);
  mlp(c_.num_layers, w.layer);
  residual_add(running, rows(ws_.y), stream_);

  norm(running, running, w.output_norm);
  head(ws_.mtp_hidden, logit_bucket);
}

void Forward::attention(int32_t index, const LayerWeights& w) {
  if (const auto* linear_attention = std::get_if<KdaWeights>(&w.attention)) {
    kda(caches_.kda(index), *linear_attention);
  } else {
    dsa(index, std::get<DsaWeights>(w.attention));
  }
}

void Forward::kda(KdaCache& cache, const KdaWeights& w) {
  const TensorView x = rows(ws_.x);
  linear(rows(ws_.q_raw), x, w.q);
  linear(rows(ws_.k_raw), x, w.k);
  linear(rows(ws_.v_raw), x, w.v);
  convolve(ws_.q, ws_.q_raw, w.q_conv, cache.q);
  convolve(ws_.k, ws_.k_raw, w.k_conv, cache.k);
  convolve(ws_.v, ws_.v_raw, w.v_conv, cache.v);

  linear(rows(ws_.low), x, w.f_a);
  linear(rows(ws_.z), rows(ws_.low), w.f_b);
  linear(rows(ws_.write), x, w.b);
  kda_gate(rows(ws_.g), rows(ws_.beta), rows(ws_.z), rows(ws_.write), w.a_log, w.dt_bias,
           c_.gate_lower_bound, stream_);

  kda_recurrence(rows(ws_.o), rows(ws_.q), rows(ws_.k), rows(ws_.v), rows(ws_.g), rows(ws_.beta),
                 cache.view(), step_rows(), stream_);

  linear(rows(ws_.low), x, w.g_a);
  linear(rows(ws_.z), rows(ws_.low), w.g_b);
  kda_output_norm(rows(ws_.o), rows(ws_.o), rows(ws_.z), w.o_norm, c_.rms_norm_eps, stream_);
  linear(rows(ws_.y), rows(ws_.o), w.o);
}

void Forward::convolve(Tensor& y, Tensor& x, ConstTensorView weight, ConvCache& cache) {
  short_conv(rows(y), rows(x), weight, cache.history.view(), cache.pending.view(), step_rows(),
             stream_);
}

void Forward::dsa(int32_t index, const DsaWeights& w) {
  DsaCache& cache = caches_.dsa(index);
  const TensorView x = rows(ws_.x);
  const TensorView q_low = rows(ws_.q_low);
  const TensorView latent = rows(ws_.latent);

  linear(q_low, x, w.q_a);
  norm(q_low, q_low, w.q_a_norm);
  linear(latent, x, w.kv_a);
  norm(latent, latent, w.kv_a_norm);
  kv_append(cache.latent.view(), latent, step_rows(), stream_);

  select_tokens(index, w);

  linear(flat(rows(ws_.query)), q_low, w.q_b);
  head_linear(rows(ws_.absorbed), rows(ws_.query), w.key_up, stream_);
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c_.qk_head_dim)));
  mla_attention(rows(ws_.attended), rows(ws_.absorbed), cache.latent.view(), rows(ws_.selected),
                rows(ws_.count), scale, step_rows(), stream_);
  head_linear(rows(ws_.value), rows(ws_.attended), w.value_up, stream_);
  linear(rows(ws_.y), flat(rows(ws_.value)), w.o);
}

void Forward::select_tokens(int32_t index, const DsaWeights& w) {
  DsaCache& cache = caches_.dsa(index);
  const TensorView x = rows(ws_.x);
  const TensorView key = rows(ws_.index_k);
  linear(key, x, w.index_k);
  layer_norm(key, key, w.k_norm_weight, w.k_norm_bias, kIndexNormEps, stream_);
  linear(rows(ws_.index_gate), x, w.index_gate);
  index_pool(cache.pools.view(), cache.raw_keys.view(), cache.raw_gates.view(), key,
             rows(ws_.index_gate), w.pool_ape, step_rows(), stream_);

  linear(flat(rows(ws_.index_q)), rows(ws_.q_low), w.index_q);
  linear(rows(ws_.index_w), x, w.index_w);
  index_select(rows(ws_.selected), rows(ws_.count), rows(ws_.index_q), rows(ws_.index_w),
               cache.pools.view(), {c_.index_topk / c_.index_kpool, c_.index_kpool},
               ws_.select_scratch.view(), step_rows(), stream_);
  if (selection_hook_) {
    selection_hook_({index, step_rows(), rows(ws_.index_q), rows(ws_.index_w), cache.pools.view(),
                     rows(ws_.selected), rows(ws_.count)});
  }
}

void Forward::mlp(int32_t index, const LayerWeights& w) {
  if (const auto* dense = std::get_if<MlpWeights>(&w.mlp)) {
    swiglu_mlp(rows(ws_.y), *dense);
  } else {
    moe(index, std::get<MoeWeights>(w.mlp));
  }
}

void Forward::swiglu_mlp(TensorView y, const MlpWeights& w) {
  const TensorView gate = narrowed(rows(ws_.gate), w.gate.out());
  const TensorView up = narrowed(rows(ws_.up), w.up.out());
  linear(gate, rows(ws_.x), w.gate);
  linear(up, rows(ws_.x), w.up);
  swiglu(gate, gate, up, c_.swiglu_limit, stream_);
  linear(y, gate, w.down);
}

void Forward::moe(int32_t index, const MoeWeights& w) {
  const TensorView x = rows(ws_.x);
  const TensorView ids = rows(ws_.ids);
  const int32_t choices = c_.experts_per_token;
  const int64_t pairs = int64_t{bucket_} * choices;
  const TensorView items = ws_.items.rows(pairs);
  const TensorView gate = ws_.expert_gate.rows(pairs);
  const TensorView up = ws_.expert_up.rows(pairs);
  const TensorView slots = rows(ws_.slots);
  const TensorView scratch = ws_.scratch.view();

  linear(rows(ws_.router), x, w.router);
  moe_route(ids, rows(ws_.weights), rows(ws_.router), w.bias,
            {c_.norm_topk_prob, c_.routed_scaling_factor}, step_rows().slot, stream_);
  if (routing_hook_) {
    routing_hook_({index, buffers_.rows(), rows(ws_.router), w.bias, ids, rows(ws_.weights)});
  }
  moe_segments(ws_.offsets.view(), items, ids, stream_);
  grouped_linear(gate, x, choices, ws_.offsets.view(), items, w.gate, scratch, stream_);
  grouped_linear(up, x, choices, ws_.offsets.view(), items, w.up, scratch, stream_);
  swiglu(gate, gate, up, c_.swiglu_limit, stream_);
  grouped_linear(reshaped(slots, {pairs, c_.hidden_size}), gate, 1, ws_.offsets.view(), items,
                 w.down, scratch, stream_);
  swiglu_mlp(rows(ws_.shared), w.shared);
  moe_combine(rows(ws_.y), slots, rows(ws_.weights), ids, rows(ws_.shared), stream_);
}

void Forward::head(Tensor& hidden, int32_t logit_bucket) {
  if (logit_bucket == 0) return;
  const TensorView wanted = ws_.head_rows.rows(logit_bucket);
  gather_rows(wanted, rows(hidden), buffers_.logit_index(logit_bucket), stream_);
  linear(ws_.logits.rows(logit_bucket), wanted, weights_.lm_head);
}

void Forward::linear(TensorView y, ConstTensorView x, const LinearWeight& w) {
  kernels::linear(y, x, w, ws_.scratch.view(), stream_);
}

void Forward::norm(TensorView y, ConstTensorView x, ConstTensorView weight) {
  rms_norm(y, x, weight, c_.rms_norm_eps, stream_);
}

void Forward::trace(int32_t layer) {
  if (trace_) trace_(layer, ws_.streams.rows(buffers_.rows()));
}

}  // namespace yoke::engine
