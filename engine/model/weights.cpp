// The list of weights (spec/glm5_next.md 3), in the order of the checkpoint's names.
#include "engine/model/weights.h"

#include <cstring>

#include "engine/model/weight_reader.h"

namespace yoke::engine {

using kernels::ConstTensorView;
using kernels::DType;
using kernels::TensorView;

namespace {

const std::string kPrefix = "model.language_model.";

KdaWeights read_kda(WeightReader& r, const ModelConfig& c, const std::string& at) {
  const int64_t hidden = c.hidden_size;
  const int64_t width = c.kda_width();
  const int64_t dim = c.kda_head_dim;
  KdaWeights w;
  w.q = r.linear(at + "q_proj", width, hidden);
  w.k = r.linear(at + "k_proj", width, hidden);
  w.v = r.linear(at + "v_proj", width, hidden);
  w.q_conv = r.tensor(at + "q_conv1d.weight", {width, c.conv_kernel});
  w.k_conv = r.tensor(at + "k_conv1d.weight", {width, c.conv_kernel});
  w.v_conv = r.tensor(at + "v_conv1d.weight", {width, c.conv_kernel});
  w.f_a = r.linear(at + "f_a_proj", dim, hidden);
  w.f_b = r.linear(at + "f_b_proj", width, dim);
  w.g_a = r.linear(at + "g_a_proj", dim, hidden);
  w.g_b = r.linear(at + "g_b_proj", width, dim);
  w.b = r.linear(at + "b_proj", c.kda_heads, hidden);
  w.a_log = r.tensor_f32(at + "A_log", {c.kda_heads});
  w.dt_bias = r.tensor_f32(at + "dt_bias", {width});
  w.o_norm = r.tensor(at + "o_norm.weight", {dim});
  w.o = r.linear(at + "o_proj", hidden, width);
  return w;
}

/// kv_b_proj rows are head-major, per head first the key rows, then the value rows.
void split_kv_b(DsaWeights& w, WeightReader& r, const ModelConfig& c, const std::string& at) {
  const int64_t heads = c.num_heads;
  const int64_t rank = c.kv_lora_rank;
  const int64_t per_head = int64_t{c.qk_head_dim} + c.v_head_dim;
  // Read through a reader of its own: the joined matrix is not kept.
  WeightReader joined = r.scratch_reader();
  const ConstTensorView kv = joined.matrix(at + "kv_b_proj", heads * per_head, rank);
  r.absorb(joined);
  const TensorView key_up = r.allocate(kv.dtype, {heads, rank, c.qk_head_dim});
  const TensorView value_up = r.allocate(kv.dtype, {heads, c.v_head_dim, rank});
  w.key_up = key_up;
  w.value_up = value_up;
  if (r.idle()) return;
  const size_t size = kernels::dtype_bytes(kv.dtype);
  const auto* from = static_cast<const std::byte*>(kv.data);
  auto* key = static_cast<std::byte*>(key_up.data);
  auto* value = static_cast<std::byte*>(value_up.data);
  for (int64_t h = 0; h < heads; ++h) {
    const std::byte* head = from + static_cast<size_t>(h * per_head * rank) * size;
    for (int64_t d = 0; d < c.qk_head_dim; ++d) {
      for (int64_t j = 0; j < rank; ++j)
        std::memcpy(key + static_cast<size_t>((h * rank + j) * c.qk_head_dim + d) * size,
                    head + static_cast<size_t>(d * rank + j) * size, size);
    }
    const auto values = static_cast<size_t>(c.v_head_dim * rank) * size;
    std::memcpy(value + static_cast<size_t>(h) * values,
                head + static_cast<size_t>(c.qk_head_dim * rank) * size, values);
  }
}

DsaWeights read_dsa(WeightReader& r, const ModelConfig& c, const std::string& at) {
  const int64_t hidden = c.hidden_size;
  const int64_t dim = c.index_head_dim;
  const std::string indexer = at + "indexer.";
  DsaWeights w;
  w.q_a = r.linear(at + "q_a_proj", c.q_lora_rank, hidden);
  w.q_a_norm = r.tensor(at + "q_a_layernorm.weight", {c.q_lora_rank});
  w.q_b = r.linear(at + "q_b_proj", int64_t{c.num_heads} * c.qk_head_dim, c.q_lora_rank);
  w.kv_a = r.linear(at + "kv_a_proj_with_mqa", c.kv_lora_rank, hidden);
  w.kv_a_norm = r.tensor(at + "kv_a_layernorm.weight", {c.kv_lora_rank});
  split_kv_b(w, r, c, at);
  w.o = r.linear(at + "o_proj", hidden, int64_t{c.num_heads} * c.v_head_dim);
  w.index_q = r.linear(indexer + "wq_b", c.index_heads * dim, c.q_lora_rank);
  w.index_k = r.linear(indexer + "wk", dim, hidden);
  w.index_w = r.linear(indexer + "weights_proj", c.index_heads, hidden);
  w.index_gate.dense = r.tensor(indexer + "index_kpool_compress_gate", {dim, hidden});
  w.k_norm_weight = r.tensor(indexer + "k_norm.weight", {dim});
  w.k_norm_bias = r.tensor(indexer + "k_norm.bias", {dim});
  w.pool_ape = r.tensor(indexer + "index_kpool_compress_ape", {c.index_kpool, dim});
  return w;
}

MlpWeights read_mlp(WeightReader& r, int64_t hidden, int64_t inner, const std::string& at) {
  MlpWeights w;
  w.gate = r.linear(at + "gate_proj", inner, hidden);
  w.up = r.linear(at + "up_proj", inner, hidden);
  w.down = r.linear(at + "down_proj", hidden, inner);
  return w;
}

MoeWeights read_moe(WeightReader& r, const ModelConfig& c, const std::string& at) {
  const int64_t hidden = c.hidden_size;
  const int64_t inner = c.moe_intermediate_size;
  MoeWeights w;
  w.router.dense = r.matrix(at + "gate", c.num_experts, hidden);
  w.bias = r.tensor_f32(at + "gate.e_score_correction_bias", {c.num_experts});
  for (int32_t e = 0; e < c.num_experts; ++e) {
    const MlpWeights expert = read_mlp(r, hidden, inner, at + "experts." + std::to_string(e) + ".");
    w.gate.push_back(expert.gate);
    w.up.push_back(expert.up);
    w.down.push_back(expert.down);
  }
  w.shared = read_mlp(r, hidden, inner * c.num_shared_experts, at + "shared_experts.");
  return w;
}

kernels::MhcWeights read_mhc(WeightReader& r, const ModelConfig& c, const std::string& at) {
  const int64_t streams = c.hc_streams;
  const int64_t coefficients = 2 * streams + streams * streams;
  kernels::MhcWeights w;
  w.fn = r.tensor(at + "_fn", {coefficients, streams * c.hidden_size});
  w.base = r.tensor_f32(at + "_base", {coefficients});
  w.scale = r.tensor_f32(at + "_scale", {3});
  w.rms_eps = c.rms_norm_eps;
  w.hc_eps = c.hc_eps;
  w.sinkhorn_iterations = c.hc_sinkhorn_iterations;
  return w;
}

LayerWeights read_layer(WeightReader& r, const ModelConfig& c, int32_t layer) {
  const std::string at = kPrefix + "layers." + std::to_string(layer) + ".";
  LayerWeights w;
  w.input_norm = r.tensor(at + "input_layernorm.weight", {c.hidden_size});
  w.post_attention_norm = r.tensor(at + "post_attention_layernorm.weight", {c.hidden_size});
  if (layer < c.num_layers) {
    w.attention_hc = read_mhc(r, c, at + "hc_attn");
    w.mlp_hc = read_mhc(r, c, at + "hc_ffn");
  }
  if (c.attention_of(layer) == AttentionKind::kda) {
    w.attention = read_kda(r, c, at + "self_attn.");
  } else {
    w.attention = read_dsa(r, c, at + "self_attn.");
  }
  if (c.mlp_of(layer) == MlpKind::dense) {
    w.mlp = read_mlp(r, c.hidden_size, c.intermediate_size, at + "mlp.");
  } else {
    w.mlp = read_moe(r, c, at + "mlp.");
  }
  return w;
}

MtpWeights read_mtp(WeightReader& r, const ModelConfig& c) {
  const std::string at = kPrefix + "layers." + std::to_string(c.num_layers) + ".";
  MtpWeights w;
  w.eh = r.linear(at + "eh_proj", c.hidden_size, 2 * int64_t{c.hidden_size});
  w.embedding_norm = r.tensor(at + "enorm.weight", {c.hidden_size});
  w.hidden_norm = r.tensor(at + "hnorm.weight", {c.hidden_size});
  w.layer = read_layer(r, c, c.num_layers);
  w.output_norm = r.tensor(at + "shared_head.norm.weight", {c.hidden_size});
  return w;
}

Weights read_all(WeightReader& r, const ModelConfig& c, bool with_mtp) {
  Weights w;
  w.embedding = r.matrix(kPrefix + "embed_tokens", c.vocab_size, c.hidden_size);
  for (int32_t layer = 0; layer < c.num_layers; ++layer)
    w.layers.push_back(read_layer(r, c, layer));
  w.norm = r.tensor(kPrefix + "norm.weight", {c.hidden_size});
  if (c.tie_word_embeddings) {
    w.lm_head.dense = w.embedding;
  } else {
    w.lm_head = r.linear("lm_head", c.vocab_size, c.hidden_size);
  }
  if (with_mtp) w.mtp = read_mtp(r, c);
  return w;
}

DType decoded_type(const ModelOptions& options) {
  return options.precision == Precision::fp32 ? DType::f32 : DType::bf16;
}

}  // namespace

bool uses_mtp(const Checkpoint& checkpoint, const ModelOptions& options) {
  return options.with_mtp && checkpoint.config().num_mtp_layers > 0 && checkpoint.census().has_mtp;
}

config::Result<Weights> describe_weights(const Checkpoint& checkpoint,
                                         const ModelOptions& options) {
  WeightReader counter(checkpoint, Memory::Mode::count, decoded_type(options), nullptr, {}, 0);
  Weights weights = read_all(counter, checkpoint.config(), uses_mtp(checkpoint, options));
  if (counter.error()) return *counter.error();
  weights.bytes = counter.bytes();
  weights.file_bytes = counter.file_bytes();
  return weights;
}

config::Result<Weights> load_weights(const Checkpoint& checkpoint, const ModelOptions& options,
                                     kernels::ThreadPool& threads, const LoadProgress& progress) {
  const config::Result<Weights> described = describe_weights(checkpoint, options);
  if (!described.ok()) return described.error();

  WeightReader reader(checkpoint, Memory::Mode::allocate, decoded_type(options), &threads, progress,
                      described->file_bytes);
  Weights weights = read_all(reader, checkpoint.config(), uses_mtp(checkpoint, options));
  if (reader.error()) return *reader.error();
  weights.bytes = reader.bytes();
  weights.file_bytes = reader.file_bytes();
  weights.storage = reader.take_storage();
  return weights;
}

}  // namespace yoke::engine
