#include "engine/checkpoint/model_config.h"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/checkpoint/config_reader.h"
#include "engine/checkpoint/file.h"
#include "engine/checkpoint/strict_json.h"

namespace yoke::engine {

using config::Error;
using config::ErrorKind;
using config::Result;

namespace {

// Bounds that no sensible checkpoint reaches. They keep every product of two sizes in 64 bits,
// every width in 32, and the inventory (layers × experts) small enough to walk.
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxPositions = 1 << 30;
constexpr int64_t kMaxLayers = 256;
constexpr int64_t kMaxExperts = 4096;
constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxHeadDim = 4096;

constexpr std::string_view kNotImplemented = "yoke does not implement this variant of the model";

void read_layers(const ConfigReader& text, ModelConfig& c) {
  c.num_layers = text.integer("num_hidden_layers", 1, kMaxLayers);
  const auto count = static_cast<size_t>(c.num_layers);
  const auto check_length = [&](std::string_view key, size_t length) {
    if (length != count)
      text.fail(std::string(key) + " has " + std::to_string(length) +
                " entries, num_hidden_layers is " + std::to_string(count));
    return length == count;
  };

  const auto kinds = text.texts("layer_types");
  if (!kinds) return text.fail("layer_types is missing: wanted one string per layer");
  if (!check_length("layer_types", kinds->size())) return;
  for (const std::string& kind : *kinds) {
    const bool sparse = kind == "deepseek_sparse_attention" || kind == "full_attention";
    if (!sparse && kind != "linear_attention")
      return text.fail("layer_types holds " + quote(kind) +
                       ", wanted 'linear_attention' or 'deepseek_sparse_attention'");
    c.attention.push_back(sparse ? AttentionKind::dsa : AttentionKind::kda);
  }

  const auto mlps = text.texts("mlp_layer_types");
  if (!mlps) {
    const int32_t dense = text.integer("first_k_dense_replace", 0, kMaxLayers);
    for (int32_t i = 0; i < c.num_layers; ++i)
      c.mlp.push_back(i < dense ? MlpKind::dense : MlpKind::sparse);
    return;
  }
  if (!check_length("mlp_layer_types", mlps->size())) return;
  for (const std::string& kind : *mlps) {
    if (kind != "dense" && kind != "sparse")
      return text.fail("mlp_layer_types holds " + quote(kind) + ", wanted 'dense' or 'sparse'");
    c.mlp.push_back(kind == "dense" ? MlpKind::dense : MlpKind::sparse);
  }
}

/// Nested `linear_attn_config`, or the flat names of Hugging Face's class.
void read_kda(const ConfigReader& text, ModelConfig& c) {
  const ConfigReader nested = text.child("linear_attn_config");
  const bool flat = !text.has("linear_attn_config");
  const ConfigReader& from = flat ? text : nested;
  c.kda_heads = from.integer(flat ? "linear_num_heads" : "num_heads", 1, kMaxHeads);
  c.kda_head_dim = from.integer(flat ? "linear_head_dim" : "head_dim", 1, kMaxHeadDim);
  c.conv_kernel = from.integer(flat ? "linear_conv_kernel_dim" : "short_conv_kernel_size", 2, 16);

  // null means the softplus gate; absent means what `safe_gate` says, which is true by default.
  c.gate_lower_bound.reset();
  for (const std::string_view key : {"gate_lower_bound", "lower_bound", "linear_lower_bound"}) {
    if (!from.names(key)) continue;
    if (from.has(key)) c.gate_lower_bound = static_cast<float>(from.number(key, -1e4, -1e-4));
    return;
  }
  if (from.boolean("safe_gate", true)) c.gate_lower_bound = -5.0f;
}

void read_mla(const ConfigReader& text, ModelConfig& c) {
  c.num_heads = text.integer("num_attention_heads", 1, kMaxHeads);
  const int32_t kv_heads = text.integer("num_key_value_heads", 1, kMaxHeads, c.num_heads);
  if (kv_heads != c.num_heads)
    text.fail("num_key_value_heads is " + std::to_string(kv_heads) +
              ", wanted num_attention_heads = " + std::to_string(c.num_heads));
  c.q_lora_rank = text.integer("q_lora_rank", 1, kMaxWidth);
  c.kv_lora_rank = text.integer("kv_lora_rank", 1, kMaxWidth);
  const int32_t nope = text.integer("qk_nope_head_dim", 1, kMaxHeadDim);
  const int32_t rope = text.integer("qk_rope_head_dim", 0, kMaxHeadDim, 0);
  if (rope != 0)
    text.fail("qk_rope_head_dim is " + std::to_string(rope) +
              ", wanted 0: the model has no rotary part");
  c.qk_head_dim = text.integer("qk_head_dim", 1, kMaxHeadDim, nope);
  if (c.qk_head_dim != nope)
    text.fail("qk_head_dim is " + std::to_string(c.qk_head_dim) +
              ", wanted qk_nope_head_dim = " + std::to_string(nope));
  c.v_head_dim = text.integer("v_head_dim", 1, kMaxHeadDim);
  text.require_boolean("attention_bias", false, kNotImplemented);
}

void read_indexer(const ConfigReader& text, ModelConfig& c) {
  c.index_topk = text.integer("index_topk", 1, kMaxPositions);
  // The classes of both public implementations default to 16, the released files say 4.
  c.index_kpool = text.integer("index_kpool", 1, 64);
  c.index_heads = text.integer("index_n_heads", 1, kMaxHeads);
  c.index_head_dim = text.integer("index_head_dim", 1, kMaxHeadDim);
  if (!text.failed() && c.index_topk % c.index_kpool != 0)
    text.fail("index_topk is " + std::to_string(c.index_topk) +
              ", wanted a multiple of index_kpool = " + std::to_string(c.index_kpool));
  text.require_boolean("index_kpool_compress", true, kNotImplemented);
  text.require_boolean("index_kpool_always_select_tail", true, kNotImplemented);

  constexpr std::string_view kShared = "sharing one index between layers is not implemented";
  if (const auto types = text.texts("indexer_types")) {
    if (std::any_of(types->begin(), types->end(), [](const auto& t) { return t != "full"; }))
      text.fail("indexer_types holds something else than 'full': " + std::string(kShared));
  } else if (text.has("index_topk_pattern")) {
    if (text.text("index_topk_pattern", "").find_first_not_of("Ff") != std::string::npos)
      text.fail("index_topk_pattern holds something else than F: " + std::string(kShared));
  } else if (text.integer("index_topk_freq", 1, kMaxLayers, 1) != 1) {
    text.fail("index_topk_freq is not 1: " + std::string(kShared));
  }
}

void read_moe(const ConfigReader& text, ModelConfig& c) {
  c.num_experts = text.integer(
      text.has("n_routed_experts") ? "n_routed_experts" : "num_local_experts", 1, kMaxExperts);
  c.num_shared_experts = text.integer("n_shared_experts", 1, 64);
  c.experts_per_token = text.integer("num_experts_per_tok", 1, kMaxExperts);
  if (c.experts_per_token > c.num_experts)
    text.fail("num_experts_per_tok is " + std::to_string(c.experts_per_token) +
              ", n_routed_experts only " + std::to_string(c.num_experts));
  c.moe_intermediate_size = text.integer("moe_intermediate_size", 1, kMaxWidth);
  text.require_text("scoring_func", "sigmoid", kNotImplemented);
  text.require_text("topk_method", "noaux_tc", kNotImplemented);
  if (text.integer("n_group", 1, kMaxExperts, 1) != 1 ||
      text.integer("topk_group", 1, kMaxExperts, 1) != 1)
    text.fail("n_group and topk_group: wanted 1, group-limited routing is not implemented");
  c.norm_topk_prob = text.boolean("norm_topk_prob", true);
  c.routed_scaling_factor = static_cast<float>(text.number("routed_scaling_factor", 1e-4, 1e4));
  c.swiglu_limit = static_cast<float>(
      text.number("swiglu_limit", 1e-4, std::numeric_limits<double>::max(), INFINITY));
}

void read_mhc(const ConfigReader& text, ModelConfig& c) {
  text.require_boolean("mhc", true, kNotImplemented);
  c.hc_streams = text.integer("hc_mult", 1, 16);
  c.hc_sinkhorn_iterations = text.integer("hc_sinkhorn_iters", 1, 1000);
  c.hc_eps = static_cast<float>(text.number("hc_eps", 0, 1, 1e-6));
  if (text.number("mhc_post_mult_value", 0, 1e4, 2.0) != 2.0)
    text.fail("mhc_post_mult_value: wanted 2, " + std::string(kNotImplemented));
}

void read_tokens(const ConfigReader& top, const ConfigReader& text, ModelConfig& c) {
  const ConfigReader& eos_home = text.has("eos_token_id") ? text : top;
  c.eos_token_ids = eos_home.integers("eos_token_id", 0, c.vocab_size - 1);
  const ConfigReader& pad_home = text.has("pad_token_id") ? text : top;
  if (pad_home.has("pad_token_id"))
    c.pad_token_id = pad_home.integer("pad_token_id", 0, c.vocab_size - 1);
}

std::optional<VisionConfig> read_vision(const boost::json::value& value) {
  // Faults here are not faults of the text model: their messages go nowhere.
  std::string ignored;
  const ConfigReader vision(value.if_object(), "vision_config", ignored);
  VisionConfig v;
  v.depth = vision.integer("depth", 1, kMaxLayers);
  v.hidden_size = vision.integer("hidden_size", 1, kMaxWidth);
  v.num_heads = vision.integer("num_heads", 1, kMaxHeads);
  v.intermediate_size = vision.integer("intermediate_size", 1, kMaxWidth);
  v.out_hidden_size = vision.integer("out_hidden_size", 1, kMaxWidth);
  v.projection_intermediate_size = vision.integer("projection_intermediate_size", 1, kMaxWidth);
  v.patch_size = vision.integer("patch_size", 1, 1024, v.patch_size);
  v.temporal_patch_size = vision.integer("temporal_patch_size", 1, 64, v.temporal_patch_size);
  v.spatial_merge_size = vision.integer("spatial_merge_size", 1, 64, v.spatial_merge_size);
  v.in_channels = vision.integer("in_channels", 1, 64, v.in_channels);
  v.attention_bias = vision.boolean("attention_bias", v.attention_bias);
  if (!ignored.empty() || v.hidden_size % v.num_heads != 0) return std::nullopt;
  return v;
}

void read_quantization(const ConfigReader& top, ModelConfig& c) {
  const ConfigReader quantization = top.child("quantization_config");
  if (!top.has("quantization_config")) return;
  c.quant_method = quantization.text("quant_method", "");
  constexpr std::string_view kUse =
      "yoke reads EXL3 (such as brandonmusic/GLM-5.3-Flash-tr3-4bpw) and unquantised BF16, F16 or "
      "F32 (zai-org/GLM-5.3-Flash-BF16)";
  if (c.quant_method.empty())
    return quantization.fail("quant_method is missing, wanted 'exl3': " + std::string(kUse));
  if (c.quant_method != "exl3")
    return quantization.fail("quant_method " + quote(c.quant_method) +
                             " is not supported: " + std::string(kUse));
  if (quantization.has("tile_order"))
    quantization.fail("tile_order " + quote(quantization.text("tile_order", "")) +
                      " is not supported: the trellis tiles of this checkpoint are reordered for "
                      "other hardware, use one without tile_order");
}

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view json, std::string_view origin) {
  const auto root = parse_strict_json_object(json, origin);
  if (!root) return root.error();
  std::string error;
  const ConfigReader top(&*root, std::string(origin), error);
  ModelConfig c;

  const std::string type = top.text("model_type", "");
  if (!top.failed() && type != "glm5_next")
    return Error{ErrorKind::unsupported, std::string(origin) + ": model_type is " + quote(type) +
                                             ", yoke serves 'glm5_next' (GLM-5.3-Flash)"};
  if (!top.has("text_config")) top.fail("text_config is missing: wanted an object");
  const ConfigReader text = top.child("text_config");
  text.require_text("model_type", "glm5_next_text", kNotImplemented);
  // The quantisation first: of all reasons to refuse a folder it is the one that helps most.
  read_quantization(top, c);
  if (top.failed()) return Error{ErrorKind::unsupported, error};

  c.hidden_size = text.integer("hidden_size", 1, kMaxWidth);
  c.vocab_size = text.integer("vocab_size", 2, kMaxVocab);
  c.max_positions = text.integer("max_position_embeddings", 1, kMaxPositions);
  c.rms_norm_eps = static_cast<float>(text.number("rms_norm_eps", 0, 1, 1e-5));
  text.require_text("hidden_act", "silu", kNotImplemented);
  read_layers(text, c);
  c.intermediate_size = text.integer("intermediate_size", 1, kMaxWidth);
  read_kda(text, c);
  read_mla(text, c);
  read_indexer(text, c);
  read_moe(text, c);
  read_mhc(text, c);
  c.num_mtp_layers = text.integer("num_nextn_predict_layers", 0, 1, 0);
  c.tie_word_embeddings =
      text.boolean("tie_word_embeddings", top.boolean("tie_word_embeddings", false));
  if (!text.failed()) read_tokens(top, text, c);
  c.has_vision_config = top.has("vision_config");
  if (c.has_vision_config) c.vision = read_vision(root->at("vision_config"));
  if (top.failed()) return config::invalid_input(error);
  return c;
}

Result<GenerationConfig> parse_generation_config(std::string_view json, std::string_view origin) {
  const auto root = parse_strict_json_object(json, origin);
  if (!root) return root.error();
  std::string error;
  const ConfigReader top(&*root, std::string(origin), error);
  constexpr double kHuge = 1e6;
  GenerationConfig g;
  if (top.has("temperature")) g.temperature = top.number("temperature", 0, kHuge);
  if (!top.boolean("do_sample", true)) g.temperature = 0.0;
  if (top.has("top_p")) g.top_p = top.number("top_p", 0, 1);
  if (top.has("top_k")) g.top_k = top.integer("top_k", -1, kMaxVocab);
  if (top.has("min_p")) g.min_p = top.number("min_p", 0, 1);
  if (top.has("repetition_penalty"))
    g.repetition_penalty = top.number("repetition_penalty", 1e-6, kHuge);
  if (top.has("max_new_tokens")) g.max_new_tokens = top.integer("max_new_tokens", 1, kMaxPositions);
  g.eos_token_ids = top.integers("eos_token_id", 0, kMaxVocab - 1);
  if (top.failed()) return config::invalid_input(error);
  return g;
}

}  // namespace yoke::engine
