#include "engine/checkpoint/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/checkpoint/test_folder.h"

namespace yoke::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig parse(const std::string& text) {
  auto config = parse_model_config(text, "config.json");
  if (!config) ADD_FAILURE() << config.error().message;
  return config ? *config : ModelConfig{};
}

std::string small() {
  return test::testdata("small_config.json");
}

TEST(ModelConfig, the_released_file) {
  const ModelConfig c = parse(test::testdata("glm53_flash_config.json"));
  EXPECT_EQ(c.num_layers, 45);
  EXPECT_EQ(c.hidden_size, 4096);
  EXPECT_EQ(c.vocab_size, 154880);
  EXPECT_EQ(c.max_positions, 1048576);
  EXPECT_EQ(c.rms_norm_eps, 1e-5f);
  EXPECT_EQ(c.hc_eps, 1e-6f);
  EXPECT_EQ(std::count(c.attention.begin(), c.attention.end(), AttentionKind::kda), 34);
  EXPECT_EQ(c.attention[3], AttentionKind::dsa);
  EXPECT_EQ(c.attention[44], AttentionKind::kda);
  // mlp_layer_types is absent there: from first_k_dense_replace.
  EXPECT_EQ(c.mlp[2], MlpKind::dense);
  EXPECT_EQ(c.mlp[3], MlpKind::sparse);
  EXPECT_EQ(c.kda_width(), 8192);
  EXPECT_EQ(c.gate_lower_bound, -5.0f);
  EXPECT_EQ(c.qk_head_dim, 256);
  EXPECT_EQ(c.index_topk, 2048);
  EXPECT_EQ(c.index_kpool, 4);
  EXPECT_EQ(c.num_experts, 288);
  EXPECT_EQ(c.experts_per_token, 8);
  EXPECT_EQ(c.routed_scaling_factor, 2.5f);
  EXPECT_EQ(c.swiglu_limit, 10.0f);
  EXPECT_EQ(c.hc_streams, 4);
  EXPECT_EQ(c.num_mtp_layers, 1);
  EXPECT_EQ(c.layers_with_mtp(), 46);
  EXPECT_EQ(c.attention_of(45), AttentionKind::dsa);
  EXPECT_EQ(c.mlp_of(45), MlpKind::sparse);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(154820, 154827, 154829));
  EXPECT_EQ(c.pad_token_id, 154820);
  EXPECT_EQ(c.quant_method, "exl3");
  ASSERT_TRUE(c.vision.has_value());
  EXPECT_EQ(c.vision->depth, 24);
}

TEST(ModelConfig, defaults_and_alternative_spellings) {
  const std::string nested =
      "\"linear_attn_config\": {\n      \"num_heads\": 2, \"head_dim\": 64, "
      "\"short_conv_kernel_size\": 4, \"gate_lower_bound\": -5.0\n    },";
  const ModelConfig flat = parse(
      test::with(small(), nested,
                 "\"linear_num_heads\": 2, \"linear_head_dim\": 32, \"linear_conv_kernel_dim\": 4, "
                 "\"linear_lower_bound\": -4.0,"));
  EXPECT_EQ(flat.kda_head_dim, 32);
  EXPECT_EQ(flat.gate_lower_bound, -4.0f);

  const std::string bound = ", \"gate_lower_bound\": -5.0";
  EXPECT_EQ(parse(test::with(small(), bound, "")).gate_lower_bound, -5.0f);
  EXPECT_EQ(parse(test::with(small(), bound, ", \"lower_bound\": -3.0")).gate_lower_bound, -3.0f);
  EXPECT_EQ(parse(test::with(small(), bound, ", \"gate_lower_bound\": null")).gate_lower_bound,
            std::nullopt);
  EXPECT_EQ(parse(test::with(small(), bound, ", \"safe_gate\": false")).gate_lower_bound,
            std::nullopt);

  EXPECT_TRUE(std::isinf(parse(test::with(small(), "\"swiglu_limit\": 10.0,", "")).swiglu_limit));
  EXPECT_TRUE(std::isinf(
      parse(test::with(small(), "\"swiglu_limit\": 10.0", "\"swiglu_limit\": null")).swiglu_limit));
  EXPECT_EQ(parse(test::with(small(), "\"deepseek_sparse_attention\"", "\"full_attention\""))
                .attention[1],
            AttentionKind::dsa);
  EXPECT_EQ(parse(test::with(small(), "n_routed_experts", "num_local_experts")).num_experts, 2);
  EXPECT_THAT(parse(test::with(small(), "[1, 2, 3]", "7")).eos_token_ids, ElementsAre(7));
  EXPECT_THAT(parse(test::with(small(), "\"eos_token_id\": [1, 2, 3],", "")).eos_token_ids,
              ElementsAre());
  EXPECT_EQ(parse(test::with(small(), "\"pad_token_id\": 0,", "")).pad_token_id, std::nullopt);
  // Sizes need no divisor: hidden 48 as in Hugging Face's own test model.
  EXPECT_EQ(parse(test::with(small(), "\"hidden_size\": 128", "\"hidden_size\": 48")).hidden_size,
            48);
  EXPECT_EQ(parse(test::with(small(), "\"hidden_size\": 128", "\"hidden_size\": 48.0")).hidden_size,
            48);
}

struct Case {
  const char* before;
  const char* after;
  const char* wanted;
};

TEST(ModelConfig, what_the_model_code_cannot_do_is_refused_by_name) {
  const Case cases[] = {
      {"\"glm5_next\"", "\"glm4_moe\"", "model_type is 'glm4_moe', yoke serves 'glm5_next'"},
      {"\"glm5_next\"", "7", "model_type: wanted a string, found 7"},
      {"\"text_config\"", "\"text\"", "text_config is missing"},
      {"glm5_next_text", "qwen", "model_type is 'qwen', wanted 'glm5_next_text'"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "layer_types has 2 entries"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0", "a whole number from 1 to 256"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1e9", "found 1e+09"},
      {"\"linear_attention\"", "\"sliding\"", "layer_types holds 'sliding'"},
      {"\"dense\", \"sparse\"", "\"dense\"", "mlp_layer_types has 1 entries"},
      {"\"dense\"", "\"thick\"", "mlp_layer_types holds 'thick'"},
      {"\"mlp_layer_types\": [\"dense\", \"sparse\"],", "", "first_k_dense_replace is missing"},
      {"\"layer_types\"", "\"layer_kinds\"", "layer_types is missing"},
      {"\"hidden_size\": 128", "\"hidden_size\": \"128\"", "found the string '128'"},
      {"\"hidden_size\": 128", "\"hidden_size\": 128.5", "found 128.5"},
      {"\"hidden_size\": 128", "\"hidden_size\": 99999999999999999999", "found 1e+20"},
      {"\"hidden_size\": 128", "\"hidden_size\": [128]", "found a list"},
      {"\"hidden_size\": 128", "\"x\": 128", "hidden_size is missing"},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1", "num_key_value_heads is 1"},
      {"\"q_lora_rank\": 24", "\"q_lora_rank\": null", "q_lora_rank is missing"},
      {"\"qk_rope_head_dim\": 0", "\"qk_rope_head_dim\": 64", "no rotary part"},
      {"\"v_head_dim\": 16", "\"v_head_dim\": 16, \"qk_head_dim\": 40", "qk_head_dim is 40"},
      {"\"v_head_dim\": 16", "\"v_head_dim\": 16, \"attention_bias\": true", "attention_bias"},
      {"\"index_topk\": 48", "\"index_topk\": 47", "a multiple of index_kpool = 3"},
      {"\"index_kpool\": 3,", "", "index_kpool is missing"},
      {"\"index_kpool\": 3", "\"index_kpool\": 3, \"index_kpool_compress\": false", "compress"},
      {"\"index_kpool\": 3", "\"index_kpool\": 3, \"index_kpool_always_select_tail\": false",
       "always_select_tail"},
      {"\"index_kpool\": 3", "\"index_kpool\": 3, \"indexer_types\": [\"full\", \"shared\"]",
       "indexer_types"},
      {"\"index_kpool\": 3", "\"index_kpool\": 3, \"index_topk_pattern\": \"FS\"", "pattern"},
      {"\"index_kpool\": 3", "\"index_kpool\": 3, \"index_topk_freq\": 2", "index_topk_freq"},
      {"\"num_experts_per_tok\": 1", "\"num_experts_per_tok\": 3", "n_routed_experts only 2"},
      {"\"n_routed_experts\": 2", "\"n_routed_experts\": 1000000", "from 1 to 4096"},
      {"\"norm_topk_prob\": true", "\"norm_topk_prob\": 1", "wanted true or false, found 1"},
      {"\"norm_topk_prob\": true", "\"scoring_func\": \"softmax\"", "scoring_func is 'softmax'"},
      {"\"norm_topk_prob\": true", "\"topk_method\": \"greedy\"", "topk_method is 'greedy'"},
      {"\"norm_topk_prob\": true", "\"n_group\": 8", "n_group"},
      {"\"routed_scaling_factor\": 2.5", "\"routed_scaling_factor\": 1e999", "found inf"},
      {"\"routed_scaling_factor\": 2.5", "\"routed_scaling_factor\": -1", "routed_scaling_factor"},
      {"\"hc_mult\": 4", "\"hc_mult\": 4, \"mhc\": false", "mhc is false"},
      {"\"hc_mult\": 4", "\"hc_mult\": 4, \"mhc_post_mult_value\": 1.0", "mhc_post_mult_value"},
      {"\"hc_mult\": 4", "\"hc_mult\": 17", "from 1 to 16"},
      {"\"num_nextn_predict_layers\": 1", "\"num_nextn_predict_layers\": 2", "from 0 to 1"},
      {"[1, 2, 3]", "[1, 256]", "eos_token_id: wanted whole numbers from 0 to 255, found 256"},
      {"\"pad_token_id\": 0", "\"pad_token_id\": -1", "pad_token_id"},
      {"\"hidden_size\": 128", "\"hidden_size\": 128, \"hidden_size\": 128",
       "key 'hidden_size' appears twice"},
      {"\"hidden_size\": 128", "\"hidden_size\": 128, \"\": 1, \"\": 1", "key '' appears twice"},
      {"\"hidden_size\": 128", "\"hidden_act\": \"gelu\"", "hidden_size is missing"},
      {"\"hc_mult\": 4", "\"hc_mult\": 4, \"hidden_act\": \"gelu\"", "hidden_act is 'gelu'"},
  };
  for (const Case& c : cases) {
    const auto parsed = parse_model_config(test::with(small(), c.before, c.after), "config.json");
    ASSERT_FALSE(parsed.ok()) << c.after;
    EXPECT_THAT(parsed.error().message, HasSubstr(c.wanted)) << c.after;
    EXPECT_THAT(parsed.error().message, HasSubstr("config.json: ")) << c.after;
    EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos) << c.after;
  }
}

TEST(ModelConfig, texts_that_are_no_config) {
  for (const char* text : {"", "[]", "{", "null", "{\"a\":\xff}", "7"}) {
    const auto parsed = parse_model_config(text, "config.json");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("config.json: "));
  }
  EXPECT_FALSE(parse_model_config(std::string(1'000'000, '['), "config.json").ok());
}

TEST(GenerationConfig, greedy_when_sampling_is_off) {
  const auto g = parse_generation_config(
      R"({"do_sample": false, "temperature": 0.7, "eos_token_id": 5, "max_new_tokens": 12})", "g");
  ASSERT_TRUE(g.ok()) << g.error().message;
  EXPECT_EQ(g->temperature, 0.0);
  EXPECT_EQ(g->max_new_tokens, 12);
  EXPECT_THAT(g->eos_token_ids, ElementsAre(5));
  EXPECT_EQ(g->top_p, std::nullopt);
}

TEST(GenerationConfig, every_field_may_be_absent_and_unknown_ones_are_ignored) {
  const auto g = parse_generation_config(
      R"({"temperature": 0.6, "top_p": 0.95, "top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1,
          "transformers_version": "5.24", "pad_token_id": null})",
      "g");
  ASSERT_TRUE(g.ok()) << g.error().message;
  EXPECT_EQ(g->temperature, 0.6);
  EXPECT_EQ(g->top_p, 0.95);
  EXPECT_EQ(g->top_k, 40);
  EXPECT_EQ(g->min_p, 0.05);
  EXPECT_EQ(g->repetition_penalty, 1.1);
  const auto empty = parse_generation_config("{}", "g");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->temperature, std::nullopt);
}

TEST(GenerationConfig, values_out_of_range_are_refused) {
  for (const char* text : {R"({"temperature": -1})", R"({"top_p": 1.5})", R"({"min_p": "x"})",
                           R"({"max_new_tokens": 0})", R"({"repetition_penalty": 0})",
                           R"({"do_sample": "no"})", R"({"eos_token_id": [-1]})"}) {
    const auto g = parse_generation_config(text, "generation_config.json");
    ASSERT_FALSE(g.ok()) << text;
    EXPECT_THAT(g.error().message, HasSubstr("generation_config.json: ")) << text;
  }
}

}  // namespace
}  // namespace yoke::engine
