// config.json of a glm5_next checkpoint as typed values (spec/glm5_next.md 2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace yoke::engine {

enum class AttentionKind { kda, dsa };
enum class MlpKind { dense, sparse };

/// vision_config: enough to know the tower's tensors (spec/glm5_next.md 2.3 and 3.7). The tower is
/// recognised, counted and skipped.
struct VisionConfig {
  int32_t depth = 0;
  int32_t hidden_size = 0;
  int32_t num_heads = 0;
  int32_t intermediate_size = 0;
  int32_t out_hidden_size = 0;
  int32_t projection_intermediate_size = 0;
  int32_t patch_size = 14;
  int32_t temporal_patch_size = 2;
  int32_t spatial_merge_size = 2;
  int32_t in_channels = 3;
  bool attention_bias = true;
};

/// All numbers are validated: positive, within sane bounds, consistent with each other
/// (spec/glm5_next.md 2.4).
struct ModelConfig {
  int32_t num_layers = 0;  ///< main layers; the MTP layer, if any, has index num_layers
  int32_t hidden_size = 0;
  int32_t vocab_size = 0;
  int32_t max_positions = 0;
  float rms_norm_eps = 1e-5f;
  std::vector<AttentionKind> attention;  ///< [num_layers]
  std::vector<MlpKind> mlp;              ///< [num_layers]
  int32_t intermediate_size = 0;         ///< dense MLP width

  // KDA
  int32_t kda_heads = 0;
  int32_t kda_head_dim = 0;  ///< key and value size
  int32_t conv_kernel = 0;
  std::optional<float> gate_lower_bound = -5.0f;  ///< nullopt: softplus gate

  // MLA
  int32_t num_heads = 0;
  int32_t q_lora_rank = 0;
  int32_t kv_lora_rank = 0;
  int32_t qk_head_dim = 0;
  int32_t v_head_dim = 0;

  // DSA indexer
  int32_t index_topk = 0;  ///< tokens; a multiple of index_kpool
  int32_t index_kpool = 0;
  int32_t index_heads = 0;
  int32_t index_head_dim = 0;

  // MoE
  int32_t num_experts = 0;
  int32_t num_shared_experts = 0;
  int32_t experts_per_token = 0;
  int32_t moe_intermediate_size = 0;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1.0f;
  float swiglu_limit = 0;  ///< +inf when absent or null

  // mHC
  int32_t hc_streams = 0;
  int32_t hc_sinkhorn_iterations = 0;
  float hc_eps = 1e-6f;

  int32_t num_mtp_layers = 0;  ///< 0 or 1
  bool tie_word_embeddings = false;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> pad_token_id;

  /// Present when config.json names a vision tower; it is recognised and skipped (design.md 11).
  bool has_vision_config = false;
  /// The vision tower's sizes; nullopt when there is no vision_config or it makes no sense. The
  /// latter is no error by itself, only together with tensors of the tower.
  std::optional<VisionConfig> vision;
  /// quantization_config.quant_method, empty when absent.
  std::string quant_method;

  int32_t kda_width() const { return kda_heads * kda_head_dim; }
  int32_t layers_with_mtp() const { return num_layers + num_mtp_layers; }
  AttentionKind attention_of(int32_t layer) const {
    return layer < num_layers ? attention[static_cast<size_t>(layer)] : AttentionKind::dsa;
  }
  MlpKind mlp_of(int32_t layer) const {
    return layer < num_layers ? mlp[static_cast<size_t>(layer)] : MlpKind::sparse;
  }
};

/// Parses the text of config.json. `origin` names it in errors. Unsupported layouts are refused by
/// name.
config::Result<ModelConfig> parse_model_config(std::string_view json, std::string_view origin);

/// generation_config.json; every field may be absent (design.md 11: do_sample false = temperature
/// 0).
struct GenerationConfig {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int32_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<int32_t> max_new_tokens;
  std::vector<int32_t> eos_token_ids;
};

config::Result<GenerationConfig> parse_generation_config(std::string_view json,
                                                         std::string_view origin);

}  // namespace yoke::engine
