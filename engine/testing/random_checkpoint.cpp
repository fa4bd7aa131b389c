#include "engine/testing/random_checkpoint.h"

#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/core/math.h"
#include "kernels/testing/random.h"

namespace yoke::engine {

using kernels::testing::Random;

namespace {

/// One tensor of the file: sizes first, values when its turn to be written comes.
struct FileTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::function<void(std::span<std::byte> data, Random& random)> fill;

  size_t bytes() const {
    size_t n = dtype == "F32" || dtype == "I32" ? 4 : 2;
    for (const int64_t side : shape) n *= static_cast<size_t>(side);
    return n;
  }
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
void put(std::span<std::byte> data, uint64_t index, T value) {
  std::memcpy(data.data() + index * sizeof value, &value, sizeof value);
}

/// Near enough to a normal value of deviation 1, from one word: a sum of four 16-bit uniforms.
double quick_normal(Random& random) {
  const uint64_t bits = random.bits();
  const uint64_t sum =
      (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
  return (static_cast<double>(sum) * 0x1p-16 - 2.0) * 1.7320508075688772;
}

/// Calls value() for each element in order.
template <class Value>
void fill_floats(std::span<std::byte> data, std::string_view dtype, Value&& value) {
  const uint64_t count = data.size() / (dtype == "F32" ? 4 : 2);
  const auto fill = [&](auto convert) {
    for (uint64_t i = 0; i < count; ++i) put(data, i, convert(static_cast<float>(value())));
  };
  if (dtype == "BF16") {
    fill([](float x) { return kernels::to_bf16(x).bits; });
  } else if (dtype == "F16") {
    fill([](float x) { return kernels::to_f16(x).bits; });
  } else {
    fill([](float x) { return x; });
  }
}

void fill_words(std::span<std::byte> data, Random& random) {
  uint64_t bits = 0;
  for (uint64_t i = 0; i < data.size() / 2; ++i) {
    bits = i % 4 == 0 ? random.bits() : bits >> 16;
    put(data, i, static_cast<uint16_t>(bits));
  }
}

class Describer {
 public:
  explicit Describer(const RandomCheckpoint& what) : what_(what) {}

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
    const std::string dtype = always_f32(t.name) ? "F32" : what_.dense_dtype;
    tensors_.push_back({t.name,
                        dtype,
                        {t.shape().begin(), t.shape().end()},
                        [v = values_of(t), dtype](std::span<std::byte> data, Random& random) {
                          fill_floats(data, dtype, [&] {
                            const double unit =
                                v.uniform ? random.uniform(-1, 1) : quick_normal(random);
                            const double value = v.offset + v.spread * unit;
                            return v.logarithm ? kernels::log64(value) : value;
                          });
                        }});
  }

  /// Any words are a valid trellis, and its values deviate by 1.24 (spec/exl3.md 4).
  void exl3(const ExpectedTensor& t, int bits) {
    const int64_t rows = t.dims[0];
    const int64_t columns = t.dims[1];
    if (rows % 128 != 0 || columns % 128 != 0)
      throw std::runtime_error(t.name + ": sides are no multiples of 128, EXL3 cannot hold it");
    const std::string stem = t.name.substr(0, t.name.size() - std::strlen("weight"));
    tensors_.push_back({stem + "trellis", "I16", {columns / 16, rows / 16, 16 * bits}, fill_words});

    const double deviation = t.tensor_class == TensorClass::embedding
                                 ? 1.0
                                 : 1.5 / std::sqrt(static_cast<double>(columns));
    scales(stem + "suh", columns, deviation / 1.24);
    if (what_.packed_signs) {
      tensors_.push_back({stem + "sv", "I16", {rows / 16}, fill_words});
    } else {
      scales(stem + "svh", rows, 1.0);
    }
    if (what_.codebook == kernels::Codebook::threeinst) return;
    const bool mcg = what_.codebook == kernels::Codebook::mcg;
    tensors_.push_back(
        {stem + (mcg ? "mcg" : "mul1"), "I32", {}, [mcg](std::span<std::byte> data, Random&) {
           put(data, 0, mcg ? 0xCBAC1FEDu : 0x83DCD12Du);
         }});
  }

  void scales(const std::string& name, int64_t count, double size) {
    tensors_.push_back({name, "F16", {count}, [size](std::span<std::byte> data, Random& random) {
                          fill_floats(data, "F16", [&] {
                            const double sign = random.below(2) == 0 ? 1.0 : -1.0;
                            return sign * size * random.uniform(0.5, 1.5);
                          });
                        }});
  }

  const RandomCheckpoint& what_;
  std::vector<FileTensor> tensors_;
};

/// One tensor in memory at a time.
void write_safetensors(const std::filesystem::path& path, const std::vector<FileTensor>& tensors,
                       uint64_t seed) {
  boost::json::object header;
  uint64_t position = 0;
  for (const FileTensor& t : tensors) {
    header[t.name] = {{"dtype", t.dtype},
                      {"shape", boost::json::array(t.shape.begin(), t.shape.end())},
                      {"data_offsets", {position, position + t.bytes()}}};
    position += t.bytes();
  }
  std::string text = boost::json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream out(path, std::ios::binary);
  const uint64_t length = text.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << text;
  Random random(seed);
  std::vector<std::byte> data;
  for (const FileTensor& t : tensors) {
    data.resize(t.bytes());
    t.fill(data, random);
    out.write(reinterpret_cast<const char*>(data.data()),
              static_cast<std::streamsize>(data.size()));
  }
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

ModelConfig exl3_config() {
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

RandomCheckpoint wide_checkpoint(const WideShape& shape) {
  RandomCheckpoint what;
  what.config = wide_config();
  ModelConfig& c = what.config;
  c.num_layers = shape.layers;
  c.vocab_size = shape.vocab_size;
  c.attention.resize(static_cast<size_t>(shape.layers));
  c.mlp.assign(c.attention.size(), MlpKind::sparse);
  for (size_t i = 0; i < c.attention.size(); ++i)
    c.attention[i] = i % 4 == 3 ? AttentionKind::dsa : AttentionKind::kda;
  c.index_topk = shape.index_topk;
  c.num_experts = shape.experts;
  c.num_mtp_layers = shape.with_mtp ? 1 : 0;
  what.bits = exl3_experts(shape.expert_bits);
  return what;
}

ModelConfig wide_config() {
  constexpr AttentionKind kda = AttentionKind::kda;
  constexpr AttentionKind dsa = AttentionKind::dsa;
  ModelConfig c = tiny_config();
  c.num_layers = 8;
  c.hidden_size = 1024;
  c.vocab_size = 32768;
  c.max_positions = 131072;
  c.attention = {kda, kda, kda, dsa, kda, kda, kda, dsa};
  c.mlp.assign(8, MlpKind::sparse);
  c.intermediate_size = 2048;  // no layer has a dense MLP
  c.kda_heads = 16;
  c.kda_head_dim = 64;
  c.num_heads = 16;
  c.q_lora_rank = 512;
  c.kv_lora_rank = 256;
  c.qk_head_dim = 64;
  c.v_head_dim = 64;
  c.index_topk = 256;
  c.index_heads = 8;
  c.index_head_dim = 64;
  c.num_experts = 64;
  c.experts_per_token = 6;
  c.moe_intermediate_size = 512;
  c.swiglu_limit = 10.0f;
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
  write_safetensors(folder / "model.safetensors", Describer(what).tensors(), what.seed);
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
