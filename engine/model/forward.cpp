#include "engine/model/forward.h"

#include <cmath>
#include <variant>

#include "kernels/copy_entries/copy_entries.h"
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
                 Snapshots& snapshots, const StepBuffers& buffers, Workspace& workspace,
                 kernels::Stream& stream)
    : c_(config),
      weights_(weights),
      caches_(caches),
      snapshots_(snapshots),
      buffers_(buffers),
      ws_(workspace),
      stream_(stream) {}

void Forward::trunk(int32_t bucket) {
  bucket_ = bucket;
  layer_ = -1;
  embed_streams(rows(ws_.streams), buffers_.tokens(bucket), weights_.embedding, stream_);
  done("embedding", rows(ws_.streams));
  trace(0);
  for (int32_t i = 0; i < c_.num_layers; ++i) {
    layer(i, weights_.layers[static_cast<size_t>(i)]);
    trace(i + 1);
  }
  layer_ = -1;
  stream_mean(rows(ws_.x), rows(ws_.streams), stream_);
  done("stream mean", rows(ws_.x));
  norm("final norm", rows(ws_.hidden), rows(ws_.x), weights_.norm);
}

void Forward::layer(int32_t index, const LayerWeights& w) {
  layer_ = index;
  const TensorView streams = rows(ws_.streams);
  const TensorView x = rows(ws_.x);
  const TensorView post = rows(ws_.post);
  const TensorView comb = rows(ws_.comb);

  mhc_coefficients(x, post, comb, streams, w.attention_hc, stream_);
  done("attention mhc pre", x);
  done("attention mhc post", post);
  done("attention mhc comb", comb);
  norm("input norm", x, x, w.input_norm);
  attention(index, w);
  mix("attention mix");

  mhc_coefficients(x, post, comb, streams, w.mlp_hc, stream_);
  done("mlp mhc pre", x);
  done("mlp mhc post", post);
  done("mlp mhc comb", comb);
  norm("post attention norm", x, x, w.post_attention_norm);
  mlp(index, w);
  mix("mlp mix");
}

void Forward::mtp(int32_t bucket) {
  bucket_ = bucket;
  layer_ = c_.num_layers;
  const MtpWeights& w = *weights_.mtp;
  const TensorView embedding = rows(ws_.mtp_embedding);
  const TensorView hidden = rows(ws_.mtp_in);
  // Here the running value is one plain stream.
  const TensorView running = rows(ws_.mtp_hidden);
  const TensorView x = rows(ws_.x);

  embed(embedding, buffers_.tokens(bucket), weights_.embedding, step_rows().position, stream_);
  done("embedding", embedding);
  norm("embedding norm", embedding, embedding, w.embedding_norm);
  norm("hidden norm", hidden, hidden, w.hidden_norm);
  concat_columns(rows(ws_.joined), embedding, hidden, stream_);
  done("joined", rows(ws_.joined));
  linear("eh", running, rows(ws_.joined), w.eh);

  norm("input norm", x, running, w.layer.input_norm);
  attention(c_.num_layers, w.layer);
  residual_add(running, rows(ws_.y), stream_);
  done("attention add", running);

  norm("post attention norm", x, running, w.layer.post_attention_norm);
  mlp(c_.num_layers, w.layer);
  residual_add(running, rows(ws_.y), stream_);
  done("mlp add", running);

  norm("output norm", running, running, w.output_norm);
}

template <class Copy>
void Forward::each_snapshot_tensor(const StepBuffers::Copies& copies, Copy&& copy) {
  const ConstTensorView slot = copies.slot.view();
  const ConstTensorView block = copies.block.view();
  const int64_t blocks = caches_.geometry().num_blocks;
  const auto by_block = [blocks](Tensor& t) {
    return reshaped(t.view(), {blocks, t.view().elements() / blocks});
  };
  const int32_t layers = c_.num_layers + (weights_.mtp ? 1 : 0);
  for (int32_t layer = 0; layer < layers; ++layer) {
    if (c_.attention_of(layer) == AttentionKind::kda) {
      KdaCache& cache = caches_.kda(layer);
      KdaSnapshots& kept = snapshots_.kda(layer);
      copy(cache.q.history.view(), kept.q.view(), slot);
      copy(cache.k.history.view(), kept.k.view(), slot);
      copy(cache.v.history.view(), kept.v.view(), slot);
      copy(cache.state.view(), kept.state.view(), slot);
    } else {
      DsaCache& cache = caches_.dsa(layer);
      DsaSnapshots& kept = snapshots_.dsa(layer);
      copy(cache.raw_keys.view(), kept.raw_keys.view(), slot);
      copy(cache.raw_gates.view(), kept.raw_gates.view(), slot);
      copy(by_block(cache.latent), kept.latent.view(), block);
      copy(by_block(cache.pools), kept.pools.view(), block);
    }
  }
}

void Forward::restore_snapshots() {
  const StepBuffers::Copies& copies = buffers_.restores();
  each_snapshot_tensor(copies, [&](TensorView cache, TensorView kept, ConstTensorView index) {
    copy_entries(cache, kept, index, copies.snapshot.view(), stream_);
  });
}

void Forward::save_snapshots() {
  const StepBuffers::Copies& copies = buffers_.saves();
  each_snapshot_tensor(copies, [&](TensorView cache, TensorView kept, ConstTensorView index) {
    copy_entries(kept, cache, copies.snapshot.view(), index, stream_);
  });
  if (weights_.mtp) {
    copy_entries(snapshots_.hidden().view(), ws_.hidden.view(), copies.snapshot.view(),
                 copies.row.view(), stream_);
  }
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
  linear("q", rows(ws_.q_raw), x, w.q);
  linear("k", rows(ws_.k_raw), x, w.k);
  linear("v", rows(ws_.v_raw), x, w.v);
  convolve("q convolution", ws_.q, ws_.q_raw, w.q_conv, cache.q);
  convolve("k convolution", ws_.k, ws_.k_raw, w.k_conv, cache.k);
  convolve("v convolution", ws_.v, ws_.v_raw, w.v_conv, cache.v);

  linear("f_a", rows(ws_.low), x, w.f_a);
  linear("f_b", rows(ws_.z), rows(ws_.low), w.f_b);
  linear("b", rows(ws_.write), x, w.b);
  kda_gate(rows(ws_.g), rows(ws_.beta), rows(ws_.z), rows(ws_.write), w.a_log, w.dt_bias,
           c_.gate_lower_bound, stream_);
  done("decay", rows(ws_.g));
  done("beta", rows(ws_.beta));

  kda_recurrence(rows(ws_.o), rows(ws_.q), rows(ws_.k), rows(ws_.v), rows(ws_.g), rows(ws_.beta),
                 cache.view(), step_rows(), stream_);
  done("recurrence", rows(ws_.o));

  linear("g_a", rows(ws_.low), x, w.g_a);
  linear("g_b", rows(ws_.z), rows(ws_.low), w.g_b);
  kda_output_norm(rows(ws_.o), rows(ws_.o), rows(ws_.z), w.o_norm, c_.rms_norm_eps, stream_);
  done("output norm", rows(ws_.o));
  linear("o", rows(ws_.y), rows(ws_.o), w.o);
}

void Forward::convolve(const char* name, Tensor& y, Tensor& x, ConstTensorView weight,
                       ConvCache& cache) {
  short_conv(rows(y), rows(x), weight, cache.history.view(), cache.pending.view(), step_rows(),
             stream_);
  done(name, rows(y));
}

void Forward::dsa(int32_t index, const DsaWeights& w) {
  DsaCache& cache = caches_.dsa(index);
  const TensorView x = rows(ws_.x);
  const TensorView q_low = rows(ws_.q_low);
  const TensorView latent = rows(ws_.latent);

  linear("q_a", q_low, x, w.q_a);
  norm("q_a norm", q_low, q_low, w.q_a_norm);
  linear("kv_a", latent, x, w.kv_a);
  norm("kv_a norm", latent, latent, w.kv_a_norm);
  kv_append(cache.latent.view(), latent, step_rows(), stream_);

  select_tokens(index, w);

  linear("q_b", flat(rows(ws_.query)), q_low, w.q_b);
  head_linear(rows(ws_.absorbed), rows(ws_.query), w.key_up, stream_);
  done("absorbed query", rows(ws_.absorbed));
  const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c_.qk_head_dim)));
  mla_attention(rows(ws_.attended), rows(ws_.absorbed), cache.latent.view(), rows(ws_.selected),
                rows(ws_.count), scale, step_rows(), stream_);
  done("attended", rows(ws_.attended));
  head_linear(rows(ws_.value), rows(ws_.attended), w.value_up, stream_);
  done("value", rows(ws_.value));
  linear("o", rows(ws_.y), flat(rows(ws_.value)), w.o);
}

void Forward::select_tokens(int32_t index, const DsaWeights& w) {
  DsaCache& cache = caches_.dsa(index);
  const TensorView x = rows(ws_.x);
  const TensorView key = rows(ws_.index_k);
  linear("index key", key, x, w.index_k);
  layer_norm(key, key, w.k_norm_weight, w.k_norm_bias, kIndexNormEps, stream_);
  done("index key norm", key);
  linear("index gate", rows(ws_.index_gate), x, w.index_gate);
  index_pool(cache.pools.view(), cache.raw_keys.view(), cache.raw_gates.view(), key,
             rows(ws_.index_gate), w.pool_ape, step_rows(), stream_);

  linear("index query", flat(rows(ws_.index_q)), rows(ws_.q_low), w.index_q);
  linear("index weight", rows(ws_.index_w), x, w.index_w);
  index_select(rows(ws_.selected), rows(ws_.count), rows(ws_.index_q), rows(ws_.index_w),
               cache.pools.view(), {c_.index_topk / c_.index_kpool, c_.index_kpool},
               ws_.select_scratch.view(), step_rows(), stream_);
  done("selection", rows(ws_.selected));
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
  linear("gate", gate, rows(ws_.x), w.gate);
  linear("up", up, rows(ws_.x), w.up);
  swiglu(gate, gate, up, c_.swiglu_limit, stream_);
  done("swiglu", gate);
  linear("down", y, gate, w.down);
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
  const auto per_row = [&](TensorView y) { return reshaped(y, {bucket_, y.elements() / bucket_}); };

  linear("router", rows(ws_.router), x, w.router);
  moe_route(ids, rows(ws_.weights), rows(ws_.router), w.bias,
            {c_.norm_topk_prob, c_.routed_scaling_factor}, step_rows().slot, stream_);
  done("expert ids", ids);
  done("expert weights", rows(ws_.weights));
  if (routing_hook_) {
    routing_hook_({index, buffers_.rows(), rows(ws_.router), w.bias, ids, rows(ws_.weights)});
  }
  moe_segments(ws_.offsets.view(), items, ids, stream_);
  grouped_linear(gate, x, choices, ws_.offsets.view(), items, w.gate, scratch, stream_);
  done("expert gate", per_row(gate));
  grouped_linear(up, x, choices, ws_.offsets.view(), items, w.up, scratch, stream_);
  done("expert up", per_row(up));
  swiglu(gate, gate, up, c_.swiglu_limit, stream_);
  done("expert swiglu", per_row(gate));
  grouped_linear(reshaped(slots, {pairs, c_.hidden_size}), gate, 1, ws_.offsets.view(), items,
                 w.down, scratch, stream_);
  done("expert down", slots);
  swiglu_mlp(rows(ws_.shared), w.shared);
  moe_combine(rows(ws_.y), slots, rows(ws_.weights), ids, rows(ws_.shared), stream_);
  done("experts", rows(ws_.y));
}

void Forward::head(Tensor& hidden, int32_t logit_bucket) {
  if (logit_bucket == 0) return;
  const TensorView wanted = ws_.head_rows.rows(logit_bucket);
  const TensorView logits = ws_.logits.rows(logit_bucket);
  gather_rows(wanted, hidden.view(), buffers_.logit_index(logit_bucket), stream_);
  kernels::linear(logits, wanted, weights_.lm_head, ws_.scratch.view(), stream_);
  done("logits", logits, true);
}

void Forward::linear(const char* name, TensorView y, ConstTensorView x, const LinearWeight& w) {
  kernels::linear(y, x, w, ws_.scratch.view(), stream_);
  done(name, y);
}

void Forward::norm(const char* name, TensorView y, ConstTensorView x, ConstTensorView weight) {
  rms_norm(y, x, weight, c_.rms_norm_eps, stream_);
  done(name, y);
}

void Forward::mix(const char* name) {
  mhc_mix(rows(ws_.streams), rows(ws_.y), rows(ws_.post), rows(ws_.comb), stream_);
  done(name, rows(ws_.streams));
}

void Forward::trace(int32_t layer) {
  if (trace_) trace_(layer, ws_.streams.rows(buffers_.rows()));
}

}  // namespace yoke::engine
