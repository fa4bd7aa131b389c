#include "engine/testing/random_checkpoint.h"

#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/core/math.h"
#include "kernels/testing/random.h"

namespace yoke::engine {

using kernels::testing::Random;

namespace {

struct FileTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

/// Distribution of a tensor's values: `offset` + `spread` · (normal or uniform in ±1).
struct Values {
  double offset = 0;
  double spread = 1;
  bool uniform = false;
  bool logarithm = false;
};

/// Sizes at which every part of the model does something: gates neither open nor shut, clamps that
/// act, choices that differ from row to row.
Values values_of(const ExpectedTensor& t) {
  const auto ends = [&](std::string_view suffix) {
    return std::string_view(t.name).ends_with(suffix);
  };
  if (ends("norm.weight")) return {.offset = 1.0, .spread = 0.3, .uniform = true};
  if (ends("norm.bias") || ends("e_score_correction_bias")) return {.spread = 0.1};
  if (ends("A_log")) return {.offset = 1.8, .spread = 1.5, .uniform = true, .logarithm = true};
  if (ends("dt_bias")) return {.offset = -1.5, .spread = 2.5, .uniform = true};
  if (ends("_base") || ends("compress_ape") || ends("conv1d.weight")) return {.spread = 0.5};
  if (ends("_scale")) return {.offset = 1.0, .spread = 0.5, .uniform = true};
  if (ends("_fn")) return {.spread = 0.05};
  if (t.tensor_class == TensorClass::embedding) return {.spread = 1.0};
  return {.spread = 1.5 / std::sqrt(static_cast<double>(t.dims[static_cast<size_t>(t.rank) - 1]))};
}

bool always_f32(std::string_view name) {
  for (const std::string_view end :
       {"A_log", "dt_bias", "_base", "_scale", "e_score_correction_bias"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

template <class T>
void put(std::vector<std::byte>& data, T value) {
  const size_t at = data.size();
  data.resize(at + sizeof value);
  std::memcpy(data.data() + at, &value, sizeof value);
}

void put_float(std::vector<std::byte>& data, std::string_view dtype, float value) {
  if (dtype == "BF16") {
    put(data, kernels::to_bf16(value).bits);
  } else if (dtype == "F16") {
    put(data, kernels::to_f16(value).bits);
  } else {
    put(data, value);
  }
}

class Writer {
 public:
  explicit Writer(const RandomCheckpoint& what) : what_(what), random_(what.seed) {}

  std::vector<FileTensor> tensors() {
    const auto add = [&](const ExpectedTensor& t) {
      const int bits = t.quantisable ? what_.bits(t) : 0;
      if (bits > 0) {
        exl3(t, bits);
      } else {
        dense(t);
      }
    };
    visit_inventory(what_.config, InventoryPart::text, add);
    if (what_.config.num_mtp_layers > 0) visit_inventory(what_.config, InventoryPart::mtp, add);
    return std::move(tensors_);
  }

 private:
  void dense(const ExpectedTensor& t) {
    FileTensor out{t.name,
                   always_f32(t.name) ? "F32" : what_.dense_dtype,
                   {t.shape().begin(), t.shape().end()},
                   {}};
    const Values v = values_of(t);
    for (uint64_t i = 0; i < t.elements(); ++i) {
      const double unit = v.uniform ? random_.uniform(-1, 1) : random_.normal();
      double value = v.offset + v.spread * unit;
      if (v.logarithm) value = kernels::log64(value);
      put_float(out.data, out.dtype, static_cast<float>(value));
    }
    tensors_.push_back(std::move(out));
  }

  /// Any words are a valid trellis, and its values deviate by 1.24 (spec/exl3.md 4).
  void exl3(const ExpectedTensor& t, int bits) {
    const int64_t rows = t.dims[0];
    const int64_t columns = t.dims[1];
    if (rows % 128 != 0 || columns % 128 != 0)
      throw std::runtime_error(t.name + ": sides are no multiples of 128, EXL3 cannot hold it");
    const std::string stem = t.name.substr(0, t.name.size() - std::strlen("weight"));
    FileTensor trellis{stem + "trellis", "I16", {columns / 16, rows / 16, 16 * bits}, {}};
    for (int64_t i = 0; i < rows * columns * bits / 16; ++i)
      put(trellis.data, static_cast<uint16_t>(random_.bits()));
    tensors_.push_back(std::move(trellis));

    const double deviation = t.tensor_class == TensorClass::embedding
                                 ? 1.0
                                 : 1.5 / std::sqrt(static_cast<double>(columns));
    scales(stem + "suh", columns, deviation / 1.24);
    if (what_.packed_signs) {
      FileTensor signs{stem + "sv", "I16", {rows / 16}, {}};
      for (int64_t i = 0; i < rows / 16; ++i)
        put(signs.data, static_cast<uint16_t>(random_.bits()));
      tensors_.push_back(std::move(signs));
    } else {
      scales(stem + "svh", rows, 1.0);
    }
    if (what_.codebook == kernels::Codebook::threeinst) return;
    const bool mcg = what_.codebook == kernels::Codebook::mcg;
    FileTensor marker{stem + (mcg ? "mcg" : "mul1"), "I32", {}, {}};
    put(marker.data, mcg ? 0xCBAC1FEDu : 0x83DCD12Du);
    tensors_.push_back(std::move(marker));
  }

  void scales(const std::string& name, int64_t count, double size) {
    FileTensor out{name, "F16", {count}, {}};
    for (int64_t i = 0; i < count; ++i) {
      const double sign = random_.below(2) == 0 ? 1.0 : -1.0;
      put_float(out.data, "F16", static_cast<float>(sign * size * random_.uniform(0.5, 1.5)));
    }
    tensors_.push_back(std::move(out));
  }

  const RandomCheckpoint& what_;
  Random random_;
  std::vector<FileTensor> tensors_;
};

void write_safetensors(const std::filesystem::path& path, const std::vector<FileTensor>& tensors) {
  boost::json::object header;
  uint64_t position = 0;
  for (const FileTensor& t : tensors) {
    header[t.name] = {{"dtype", t.dtype},
                      {"shape", boost::json::array(t.shape.begin(), t.shape.end())},
                      {"data_offsets", {position, position + t.data.size()}}};
    position += t.data.size();
  }
  std::string text = boost::json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream out(path, std::ios::binary);
  const uint64_t length = text.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << text;
  for (const FileTensor& t : tensors)
    out.write(reinterpret_cast<const char*>(t.data.data()),
              static_cast<std::streamsize>(t.data.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

ModelConfig tiny_config() {
  constexpr AttentionKind kda = AttentionKind::kda;
  constexpr AttentionKind dsa = AttentionKind::dsa;
  ModelConfig c;
  c.num_layers = 6;
  c.hidden_size = 128;
  c.vocab_size = 512;
  c.max_positions = 4096;
  c.attention = {kda, kda, kda, dsa, kda, dsa};
  c.mlp.assign(6, MlpKind::sparse);
  c.mlp.front() = MlpKind::dense;
  c.intermediate_size = 256;
  c.kda_heads = 4;
  c.kda_head_dim = 32;
  c.conv_kernel = 4;
  c.num_heads = 4;
  c.q_lora_rank = 64;
  c.kv_lora_rank = 64;
  c.qk_head_dim = 32;
  c.v_head_dim = 32;
  c.index_topk = 16;
  c.index_kpool = 4;
  c.index_heads = 4;
  c.index_head_dim = 32;
  c.num_experts = 8;
  c.num_shared_experts = 1;
  c.experts_per_token = 2;
  c.moe_intermediate_size = 64;
  c.routed_scaling_factor = 2.5f;
  c.swiglu_limit = 1.0f;
  c.hc_streams = 4;
  c.hc_sinkhorn_iterations = 20;
  c.num_mtp_layers = 1;
  c.eos_token_ids = {1, 2, 3};
  c.pad_token_id = 0;
  return c;
}

ModelConfig wide_config() {
  ModelConfig c = tiny_config();
  c.num_layers = 4;
  c.hidden_size = 256;
  c.vocab_size = 1280;
  c.attention = {AttentionKind::kda, AttentionKind::dsa, AttentionKind::kda, AttentionKind::dsa};
  c.mlp = {MlpKind::dense, MlpKind::sparse, MlpKind::sparse, MlpKind::sparse};
  c.intermediate_size = 512;
  c.kda_heads = 2;
  c.kda_head_dim = 128;
  c.q_lora_rank = 128;
  c.kv_lora_rank = 128;
  c.qk_head_dim = 64;
  c.v_head_dim = 64;
  c.index_topk = 64;
  c.index_heads = 2;
  c.index_head_dim = 128;
  c.moe_intermediate_size = 256;
  return c;
}

std::function<int(const ExpectedTensor&)> exl3_experts(int bits) {
  return [bits](const ExpectedTensor& t) {
    return t.tensor_class == TensorClass::routed_experts ? bits : 0;
  };
}

std::function<int(const ExpectedTensor&)> exl3_everything() {
  return [](const ExpectedTensor& t) {
    if (t.dims[0] % 128 != 0 || t.dims[1] % 128 != 0) return 0;
    // Experts of one layer and projection share their bits: a grouped product takes one shape.
    size_t sum = 0;
    for (const char ch : t.name.substr(0, t.name.find("experts."))) sum += static_cast<size_t>(ch);
    return static_cast<int>(sum % 8) + 1;
  };
}

std::string config_json(const ModelConfig& c) {
  boost::json::array layer_types;
  for (const AttentionKind kind : c.attention)
    layer_types.push_back(kind == AttentionKind::kda ? "linear_attention"
                                                     : "deepseek_sparse_attention");
  boost::json::array mlp_types;
  for (const MlpKind kind : c.mlp) mlp_types.push_back(kind == MlpKind::dense ? "dense" : "sparse");
  boost::json::object kda = {{"num_heads", c.kda_heads},
                             {"head_dim", c.kda_head_dim},
                             {"short_conv_kernel_size", c.conv_kernel}};
  kda["gate_lower_bound"] =
      c.gate_lower_bound ? boost::json::value(*c.gate_lower_bound) : boost::json::value(nullptr);
  boost::json::object text = {
      {"model_type", "glm5_next_text"},
      {"num_hidden_layers", c.num_layers},
      {"hidden_size", c.hidden_size},
      {"vocab_size", c.vocab_size},
      {"max_position_embeddings", c.max_positions},
      {"rms_norm_eps", c.rms_norm_eps},
      {"layer_types", layer_types},
      {"mlp_layer_types", mlp_types},
      {"intermediate_size", c.intermediate_size},
      {"linear_attn_config", kda},
      {"num_attention_heads", c.num_heads},
      {"num_key_value_heads", c.num_heads},
      {"q_lora_rank", c.q_lora_rank},
      {"kv_lora_rank", c.kv_lora_rank},
      {"qk_nope_head_dim", c.qk_head_dim},
      {"qk_rope_head_dim", 0},
      {"v_head_dim", c.v_head_dim},
      {"index_topk", c.index_topk},
      {"index_kpool", c.index_kpool},
      {"index_kpool_compress", true},
      {"index_kpool_always_select_tail", true},
      {"index_n_heads", c.index_heads},
      {"index_head_dim", c.index_head_dim},
      {"n_routed_experts", c.num_experts},
      {"n_shared_experts", c.num_shared_experts},
      {"num_experts_per_tok", c.experts_per_token},
      {"moe_intermediate_size", c.moe_intermediate_size},
      {"scoring_func", "sigmoid"},
      {"topk_method", "noaux_tc"},
      {"n_group", 1},
      {"topk_group", 1},
      {"norm_topk_prob", c.norm_topk_prob},
      {"routed_scaling_factor", c.routed_scaling_factor},
      {"mhc", true},
      {"hc_mult", c.hc_streams},
      {"hc_sinkhorn_iters", c.hc_sinkhorn_iterations},
      {"hc_eps", c.hc_eps},
      {"num_nextn_predict_layers", c.num_mtp_layers},
      {"tie_word_embeddings", c.tie_word_embeddings},
      {"eos_token_id", boost::json::array(c.eos_token_ids.begin(), c.eos_token_ids.end())}};
  text["swiglu_limit"] = c.swiglu_limit == std::numeric_limits<float>::infinity()
                             ? boost::json::value(nullptr)
                             : boost::json::value(c.swiglu_limit);
  if (c.pad_token_id) text["pad_token_id"] = *c.pad_token_id;
  return boost::json::serialize(
      boost::json::object{{"architectures", {"Glm5NextForConditionalGeneration"}},
                          {"model_type", "glm5_next"},
                          {"tie_word_embeddings", c.tie_word_embeddings},
                          {"text_config", text}});
}

void write_random_checkpoint(const std::filesystem::path& folder, const RandomCheckpoint& what) {
  write_safetensors(folder / "model.safetensors", Writer(what).tensors());
  std::ofstream config(folder / "config.json", std::ios::binary);
  config << config_json(what.config);
  if (!config.flush()) throw std::runtime_error("cannot write a config.json in " + folder.string());
}

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "yoke-model-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error("cannot make a temporary folder like " + pattern);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace yoke::engine
