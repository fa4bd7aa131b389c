#include "engine/checkpoint/inventory.h"

#include <initializer_list>

#include "config/check.h"

namespace yoke::engine {

namespace {

/// Hands out tensors under a growing prefix; one name buffer for all of them.
class Lister {
 public:
  explicit Lister(const std::function<void(const ExpectedTensor&)>& visit) : visit_(visit) {}

  void prefix(std::string text) { prefix_ = std::move(text); }

  void add(TensorClass tensor_class, std::string_view name, std::initializer_list<int64_t> shape) {
    tensor_.name.assign(prefix_).append(name);
    tensor_.rank = 0;
    for (const int64_t d : shape) tensor_.dims[static_cast<size_t>(tensor_.rank++)] = d;
    tensor_.tensor_class = tensor_class;
    tensor_.quantisable = tensor_.rank == 2 && name.ends_with(".weight");
    visit_(tensor_);
  }

 private:
  const std::function<void(const ExpectedTensor&)>& visit_;
  std::string prefix_;
  ExpectedTensor tensor_;
};

// 3.3
void list_kda(Lister& out, const ModelConfig& c) {
  constexpr auto kClass = TensorClass::kda_attention;
  const int64_t hidden = c.hidden_size;
  const int64_t width = c.kda_width();
  const int64_t head = c.kda_head_dim;
  for (const std::string_view name : {"q_proj.weight", "k_proj.weight", "v_proj.weight"})
    out.add(kClass, name, {width, hidden});
  for (const std::string_view name : {"q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"})
    out.add(kClass, name, {width, 1, c.conv_kernel});
  out.add(kClass, "A_log", {c.kda_heads});
  out.add(kClass, "dt_bias", {width});
  out.add(kClass, "f_a_proj.weight", {head, hidden});
  out.add(kClass, "f_b_proj.weight", {width, head});
  out.add(kClass, "b_proj.weight", {c.kda_heads, hidden});
  out.add(kClass, "g_a_proj.weight", {head, hidden});
  out.add(kClass, "g_b_proj.weight", {width, head});
  out.add(kClass, "o_norm.weight", {head});
  out.add(kClass, "o_proj.weight", {hidden, width});
}

// 3.4
void list_mla(Lister& out, const ModelConfig& c) {
  constexpr auto kClass = TensorClass::mla_attention;
  const int64_t hidden = c.hidden_size;
  const int64_t heads = c.num_heads;
  out.add(kClass, "q_a_proj.weight", {c.q_lora_rank, hidden});
  out.add(kClass, "q_a_layernorm.weight", {c.q_lora_rank});
  out.add(kClass, "q_b_proj.weight", {heads * c.qk_head_dim, c.q_lora_rank});
  out.add(kClass, "kv_a_proj_with_mqa.weight", {c.kv_lora_rank, hidden});
  out.add(kClass, "kv_a_layernorm.weight", {c.kv_lora_rank});
  out.add(kClass, "kv_b_proj.weight", {heads * (c.qk_head_dim + c.v_head_dim), c.kv_lora_rank});
  out.add(kClass, "o_proj.weight", {hidden, heads * c.v_head_dim});

  constexpr auto kIndexer = TensorClass::indexer;
  const int64_t dim = c.index_head_dim;
  out.add(kIndexer, "indexer.wq_b.weight", {c.index_heads * dim, c.q_lora_rank});
  out.add(kIndexer, "indexer.wk.weight", {dim, hidden});
  out.add(kIndexer, "indexer.k_norm.weight", {dim});
  out.add(kIndexer, "indexer.k_norm.bias", {dim});
  out.add(kIndexer, "indexer.weights_proj.weight", {c.index_heads, hidden});
  out.add(kIndexer, "indexer.index_kpool_compress_gate", {dim, hidden});
  out.add(kIndexer, "indexer.index_kpool_compress_ape", {c.index_kpool, dim});
}

void list_swiglu(Lister& out, TensorClass tensor_class, const std::string& name, int64_t hidden,
                 int64_t width) {
  out.add(tensor_class, name + "gate_proj.weight", {width, hidden});
  out.add(tensor_class, name + "up_proj.weight", {width, hidden});
  out.add(tensor_class, name + "down_proj.weight", {hidden, width});
}

// 3.5
void list_mlp(Lister& out, const ModelConfig& c, MlpKind kind) {
  const int64_t hidden = c.hidden_size;
  if (kind == MlpKind::dense) {
    list_swiglu(out, TensorClass::dense_mlp, "", hidden, c.intermediate_size);
    return;
  }
  out.add(TensorClass::router, "gate.weight", {c.num_experts, hidden});
  out.add(TensorClass::router, "gate.e_score_correction_bias", {c.num_experts});
  for (int32_t e = 0; e < c.num_experts; ++e)
    list_swiglu(out, TensorClass::routed_experts, "experts." + std::to_string(e) + ".", hidden,
                c.moe_intermediate_size);
  list_swiglu(out, TensorClass::shared_experts, "shared_experts.", hidden,
              int64_t{c.moe_intermediate_size} * c.num_shared_experts);
}

/// Attention, MLP and the two norms, which main layers and the MTP layer have alike.
void list_block(Lister& out, const ModelConfig& c, int32_t layer) {
  const std::string prefix = layer_prefix(layer);
  out.prefix(prefix);
  out.add(TensorClass::norms, "input_layernorm.weight", {c.hidden_size});
  out.add(TensorClass::norms, "post_attention_layernorm.weight", {c.hidden_size});
  out.prefix(prefix + "self_attn.");
  if (c.attention_of(layer) == AttentionKind::kda) {
    list_kda(out, c);
  } else {
    list_mla(out, c);
  }
  out.prefix(prefix + "mlp.");
  list_mlp(out, c, c.mlp_of(layer));
  out.prefix(prefix);
}

// 3.1, 3.2
void list_text(Lister& out, const ModelConfig& c) {
  constexpr auto kClass = TensorClass::hyper_connections;
  const int64_t streams = c.hc_streams;
  const int64_t coefficients = streams * (streams + 2);
  out.prefix("");
  if (!c.tie_word_embeddings)
    out.add(TensorClass::head, "lm_head.weight", {c.vocab_size, c.hidden_size});
  out.prefix(std::string(kTextPrefix));
  out.add(TensorClass::embedding, "embed_tokens.weight", {c.vocab_size, c.hidden_size});
  out.add(TensorClass::norms, "norm.weight", {c.hidden_size});
  for (int32_t layer = 0; layer < c.num_layers; ++layer) {
    list_block(out, c, layer);
    for (const std::string site : {"hc_attn_", "hc_ffn_"}) {
      out.add(kClass, site + "fn", {coefficients, streams * c.hidden_size});
      out.add(kClass, site + "base", {coefficients});
      out.add(kClass, site + "scale", {3});
    }
  }
}

// 3.6
void list_mtp(Lister& out, const ModelConfig& c) {
  constexpr auto kClass = TensorClass::mtp;
  list_block(out, c, c.num_layers);
  out.add(kClass, "eh_proj.weight", {c.hidden_size, int64_t{2} * c.hidden_size});
  out.add(kClass, "enorm.weight", {c.hidden_size});
  out.add(kClass, "hnorm.weight", {c.hidden_size});
  out.add(kClass, "shared_head.norm.weight", {c.hidden_size});
}

// 3.7
void list_vision(Lister& out, const VisionConfig& v) {
  constexpr auto kClass = TensorClass::vision;
  const int64_t hidden = v.hidden_size;
  const int64_t head = v.hidden_size / v.num_heads;
  const int64_t inner = v.projection_intermediate_size;
  const auto add_linear = [&](const std::string& name, int64_t rows, int64_t columns, bool bias) {
    out.add(kClass, name + ".weight", {rows, columns});
    if (bias) out.add(kClass, name + ".bias", {rows});
  };
  out.prefix(std::string(kVisionPrefix));
  out.add(kClass, "patch_embed.proj.weight",
          {hidden, v.in_channels, v.temporal_patch_size, v.patch_size, v.patch_size});
  out.add(kClass, "patch_embed.proj.bias", {hidden});
  for (int32_t i = 0; i < v.depth; ++i) {
    out.prefix(std::string(kVisionPrefix) + "blocks." + std::to_string(i) + ".");
    out.add(kClass, "norm1.weight", {hidden});
    out.add(kClass, "norm2.weight", {hidden});
    add_linear("attn.qkv", 3 * hidden, hidden, v.attention_bias);
    out.add(kClass, "attn.q_norm.weight", {head});
    out.add(kClass, "attn.k_norm.weight", {head});
    add_linear("attn.proj", hidden, hidden, v.attention_bias);
    add_linear("mlp.gate_proj", v.intermediate_size, hidden, true);
    add_linear("mlp.up_proj", v.intermediate_size, hidden, true);
    add_linear("mlp.down_proj", hidden, v.intermediate_size, true);
  }
  out.prefix(std::string(kVisionPrefix));
  out.add(kClass, "post_layernorm.weight", {hidden});
  out.add(kClass, "downsample.weight",
          {v.out_hidden_size, hidden, v.spatial_merge_size, v.spatial_merge_size});
  out.add(kClass, "downsample.bias", {v.out_hidden_size});
  add_linear("merger.proj", v.out_hidden_size, v.out_hidden_size, false);
  out.add(kClass, "merger.post_projection_norm.weight", {v.out_hidden_size});
  out.add(kClass, "merger.post_projection_norm.bias", {v.out_hidden_size});
  add_linear("merger.gate_proj", inner, v.out_hidden_size, false);
  add_linear("merger.up_proj", inner, v.out_hidden_size, false);
  add_linear("merger.down_proj", v.out_hidden_size, inner, false);
}

}  // namespace

std::string_view class_name(TensorClass tensor_class) {
  switch (tensor_class) {
    case TensorClass::embedding:
      return "embedding";
    case TensorClass::head:
      return "head";
    case TensorClass::norms:
      return "norms";
    case TensorClass::hyper_connections:
      return "hyper-connections";
    case TensorClass::kda_attention:
      return "KDA attention";
    case TensorClass::mla_attention:
      return "MLA attention";
    case TensorClass::indexer:
      return "indexer";
    case TensorClass::dense_mlp:
      return "dense MLP";
    case TensorClass::router:
      return "router";
    case TensorClass::routed_experts:
      return "routed experts";
    case TensorClass::shared_experts:
      return "shared experts";
    case TensorClass::mtp:
      return "MTP projection";
    case TensorClass::vision:
      return "vision";
  }
  return "?";
}

uint64_t ExpectedTensor::elements() const {
  uint64_t n = 1;
  for (const int64_t d : shape()) n *= static_cast<uint64_t>(d);
  return n;
}

std::string layer_prefix(int32_t layer) {
  return std::string(kTextPrefix) + "layers." + std::to_string(layer) + ".";
}

void visit_inventory(const ModelConfig& config, InventoryPart part,
                     const std::function<void(const ExpectedTensor&)>& visit) {
  Lister out(visit);
  switch (part) {
    case InventoryPart::text:
      return list_text(out, config);
    case InventoryPart::mtp:
      return list_mtp(out, config);
    case InventoryPart::vision:
      YOKE_CHECK(config.vision.has_value(), "vision inventory without vision sizes");
      return list_vision(out, *config.vision);
  }
}

}  // namespace yoke::engine
