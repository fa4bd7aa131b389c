// Folders with one thing wrong each: what a user is told. One line that names tensor, file, wanted
// and found, and never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/test_folder.h"

namespace yoke::engine {
namespace {

using test::FileTensor;
using test::SmallCheckpoint;
using test::TempFolder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kExpert = "model.language_model.layers.1.mlp.experts.0.up_proj";
constexpr const char* kQ = "model.language_model.layers.0.self_attn.q_proj.weight";

std::string expert(const std::string& part) {
  return std::string(kExpert) + "." + part;
}

/// The one thing a user reads: the error of open, or the problems.
std::string verdict(const std::filesystem::path& folder) {
  const auto checkpoint = Checkpoint::open(folder);
  return checkpoint ? problem_summary(checkpoint->census()) : checkpoint.error().message + "\n";
}

void expect_one_line(const std::string& text) {
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_LT(text.size(), 1000u) << text;
  for (const char c : text.substr(0, text.size() - 1))
    EXPECT_GE(static_cast<unsigned char>(c), 0x20u) << text;
}

struct Case {
  const char* name;
  std::function<void(SmallCheckpoint&)> damage;
  std::vector<std::string> wanted;  ///< fragments of the one line
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

class DamagedFolder : public ::testing::TestWithParam<Case> {};

TEST_P(DamagedFolder, is_refused_with_one_line) {
  SmallCheckpoint checkpoint;
  GetParam().damage(checkpoint);
  TempFolder folder;
  checkpoint.write(folder.path());
  const std::string text = verdict(folder.path());
  expect_one_line(text);
  for (const std::string& fragment : GetParam().wanted) EXPECT_THAT(text, HasSubstr(fragment));
}

const Case kInventory[] = {
    {"missing_tensor",
     [](SmallCheckpoint& c) { c.remove(kQ); },
     {kQ, "is missing", "[128,128]", "EXL3"}},
    {"missing_vector_mentions_no_exl3",
     [](SmallCheckpoint& c) { c.remove("model.language_model.norm.weight"); },
     {"'model.language_model.norm.weight' is missing: wanted BF16, F16 or F32 [128], found in no "
      "file\n"}},
    {"surplus_tensor",
     [](SmallCheckpoint& c) {
       c.add({"model.language_model.extra", "BF16", {2, 3}, {}});
     },
     {"'model.language_model.extra' in b.safetensors (BF16 [2,3])", "not part of the model"}},
    {"surplus_layer",
     [](SmallCheckpoint& c) {
       c.add({"model.language_model.layers.7.norm", "BF16", {2}, {}});
     },
     {"layers.7.norm", "not part of the model"}},
    {"wrong_shape",
     [](SmallCheckpoint& c) {
       c.tensor(kQ).shape = {128, 64};
     },
     {kQ, "a.safetensors", "wanted BF16, F16 or F32 [128,128]", "found BF16 [128,64]"}},
    {"wrong_rank",
     [](SmallCheckpoint& c) { c.tensor(kQ).shape = {128 * 128}; },
     {kQ, "wanted BF16, F16 or F32 [128,128]", "found BF16 [16384]"}},
    {"wrong_dtype",
     [](SmallCheckpoint& c) { c.tensor(kQ).dtype = "I16"; },
     {kQ, "a.safetensors", "found I16 [128,128]"}},
    {"mtp_in_part",
     [](SmallCheckpoint& c) { c.remove("model.language_model.layers.2.enorm.weight"); },
     {"layers.2.enorm.weight", "is missing", "MTP layer may be absent, but not in part"}},
    {"mtp_that_config_does_not_announce",
     [](SmallCheckpoint& c) {
       c.config = test::with(c.config, "\"num_nextn_predict_layers\": 1",
                             "\"num_nextn_predict_layers\": 0");
     },
     {"tensors of an MTP layer", "layers.2.", "b.safetensors", "num_nextn_predict_layers 0"}},
    {"vision_in_part",
     [](SmallCheckpoint& c) { c.remove("model.visual.merger.proj.weight"); },
     {"model.visual.merger.proj.weight", "is missing", "vision tower"}},
    {"vision_without_vision_config",
     [](SmallCheckpoint& c) { c.config = test::with(c.config, "vision_config", "vision_conf"); },
     {"tensors of a vision tower", "b.safetensors", "config.json has no vision_config"}},
    {"vision_config_without_sense",
     [](SmallCheckpoint& c) { c.config = test::with(c.config, "\"depth\": 1", "\"depth\": -1"); },
     {"tensors of a vision tower", "vision_config make no sense"}},
    {"tied_head_that_is_there_all_the_same",
     [](SmallCheckpoint& c) {
       c.config = test::with(c.config, "\"hidden_size\": 128,\n    \"vocab",
                             "\"tie_word_embeddings\": true, \"hidden_size\": 128, \"vocab");
     },
     {"'lm_head.weight' in a.safetensors", "not part of the model"}},
};
INSTANTIATE_TEST_SUITE_P(Inventory, DamagedFolder, ::testing::ValuesIn(kInventory), case_name);

const Case kExl3[] = {
    {"no_suh",
     [](SmallCheckpoint& c) { c.remove(expert("suh")); },
     {expert("suh"), "is missing", "F16 [128]", "safetensors"}},
    {"no_svh",
     [](SmallCheckpoint& c) { c.remove(expert("svh")); },
     {expert("svh"), "is missing", "F16 [128]"}},
    {"suh_and_su",
     [](SmallCheckpoint& c) {
       c.add({expert("su"), "I16", {8}, {}});
     },
     {expert("su"), expert("suh"), "found both"}},
    {"suh_of_wrong_length",
     [](SmallCheckpoint& c) { c.tensor(expert("suh")).shape = {64}; },
     {expert("suh"), "wanted F16 [128], found F16 [64]"}},
    {"suh_of_wrong_type",
     [](SmallCheckpoint& c) { c.tensor(expert("suh")).dtype = "BF16"; },
     {expert("suh"), "wanted F16 [128], found BF16 [128]"}},
    {"trellis_of_wrong_type",
     [](SmallCheckpoint& c) { c.tensor(expert("trellis")).dtype = "I32"; },
     {expert("trellis"), "wanted I16 [8,8,16·K]", "found I32 [8,8,64]"}},
    {"trellis_of_nine_bits",
     [](SmallCheckpoint& c) {
       c.tensor(expert("trellis")).shape = {8, 8, 144};
     },
     {expert("trellis"), "K = 1 to 8", "found I16 [8,8,144]"}},
    {"trellis_of_half_a_bit",
     [](SmallCheckpoint& c) {
       c.tensor(expert("trellis")).shape = {8, 8, 8};
     },
     {expert("trellis"), "K = 1 to 8", "found I16 [8,8,8]"}},
    {"trellis_of_no_bits",
     [](SmallCheckpoint& c) {
       c.tensor(expert("trellis")).shape = {8, 8, 0};
     },
     {expert("trellis"), "K = 1 to 8", "found I16 [8,8,0]"}},
    {"trellis_of_another_matrix",
     [](SmallCheckpoint& c) {
       c.tensor(expert("trellis")).shape = {8, 16, 64};
     },
     {expert("trellis"), "wanted I16 [8,8,16·K]", "found I16 [8,16,64]"}},
    {"trellis_of_rank_two",
     [](SmallCheckpoint& c) {
       c.tensor(expert("trellis")).shape = {8, 512};
     },
     {expert("trellis"), "found I16 [8,512]"}},
    {"trellis_and_dense",
     [](SmallCheckpoint& c) {
       c.add({expert("weight"), "BF16", {128, 128}, {}});
     },
     {expert("weight"), "b.safetensors", "found both"}},
    {"sizes_that_are_no_multiples_of_128",
     [](SmallCheckpoint& c) {
       c.remove("model.language_model.layers.0.self_attn.b_proj.weight");
       const std::string stem = "model.language_model.layers.0.self_attn.b_proj.";
       c.add({stem + "trellis", "I16", {8, 8, 64}, {}});
       c.add({stem + "suh", "F16", {128}, {}});
       c.add({stem + "svh", "F16", {128}, {}});
     },
     {"b_proj.trellis", "multiples of 128", "128 in, 2 out"}},
    {"two_codebooks",
     [](SmallCheckpoint& c) {
       c.add({expert("mul1"), "I32", {}, test::little_endian(0x83DCD12D)});
     },
     {expert("mul1"), "one codebook", expert("mcg")}},
    {"marker_with_another_value",
     [](SmallCheckpoint& c) { c.tensor(expert("mcg")).content = test::little_endian(0xCBAC1FEE); },
     {expert("mcg"), "wanted 0xCBAC1FED, found 0xCBAC1FEE"}},
    {"marker_of_two_elements",
     [](SmallCheckpoint& c) { c.tensor(expert("mcg")).shape = {2}; },
     {expert("mcg"), "wanted I32 [] or [1], found I32 [2]"}},
    {"marker_of_wrong_type",
     [](SmallCheckpoint& c) { c.tensor(expert("mcg")).dtype = "F32"; },
     {expert("mcg"), "wanted I32 [] or [1], found F32 []"}},
    {"unknown_part",
     [](SmallCheckpoint& c) {
       c.add({expert("tlut"), "F16", {4}, {}});
     },
     {expert("tlut"), "not part of the model"}},
    {"bias_where_the_model_has_none",
     [](SmallCheckpoint& c) {
       c.add({expert("bias"), "F16", {128}, {}});
     },
     {expert("bias"), "not part of the model"}},
};
INSTANTIATE_TEST_SUITE_P(Exl3, DamagedFolder, ::testing::ValuesIn(kExl3), case_name);

const Case kLayouts[] = {
    {"fp8_scales",
     [](SmallCheckpoint& c) {
       c.tensor(kQ).dtype = "F8_E4M3";
       c.add({std::string(kQ) + "_scale_inv", "F32", {1, 1}, {}});
     },
     {"2 tensors such as", kQ, "FP8", "BF16 release"}},
    {"rank_slices",
     [](SmallCheckpoint& c) {
       c.add({expert("rank0.trellis"), "I16", {4, 8, 64}, {}});
     },
     {"1 tensor such as", "rank0.trellis", "b.safetensors", "sliced per rank"}},
    {"gptq",
     [](SmallCheckpoint& c) {
       c.add({expert("qweight"), "I32", {16, 128}, {}});
     },
     {"GPTQ or AWQ", "EXL3"}},
    {"compressed_tensors",
     [](SmallCheckpoint& c) {
       c.add({expert("weight_packed"), "I32", {16, 128}, {}});
     },
     {"compressed-tensors"}},
    {"bitsandbytes",
     [](SmallCheckpoint& c) {
       c.add({expert("weight.absmax"), "F32", {16}, {}});
     },
     {"bitsandbytes"}},
    {"tile_order_marker",
     [](SmallCheckpoint& c) {
       c.add({expert("tile_order"), "I32", {}, {}});
     },
     {"reordered", "without tile_order"}},
    {"text_only_names",
     [](SmallCheckpoint& c) {
       c.add({"model.layers.0.input_layernorm.weight", "BF16", {128}, {}});
     },
     {"text-only export"}},
    {"in_memory_names",
     [](SmallCheckpoint& c) {
       c.add({"model.language_model.layers.0.attn_hc.fn", "BF16", {24, 512}, {}});
     },
     {"in memory"}},
    {"quant_method_fp8",
     [](SmallCheckpoint& c) {
       c.config =
           test::with(c.config, "\"text_config\"",
                      "\"quantization_config\": {\"quant_method\": \"fp8\"}, \"text_config\"");
     },
     {"config.json: quantization_config: quant_method 'fp8' is not supported", "BF16"}},
    {"quant_method_of_tomorrow",
     [](SmallCheckpoint& c) {
       c.config =
           test::with(c.config, "\"text_config\"",
                      "\"quantization_config\": {\"quant_method\": \"x9\"}, \"text_config\"");
     },
     {"quant_method 'x9' is not supported", "EXL3"}},
    {"quantization_without_method",
     [](SmallCheckpoint& c) {
       c.config =
           test::with(c.config, "\"text_config\"", "\"quantization_config\": {}, \"text_config\"");
     },
     {"quant_method is missing, wanted 'exl3'"}},
    {"tile_order_in_config",
     [](SmallCheckpoint& c) {
       c.config =
           test::with(c.config, "\"text_config\"",
                      "\"quantization_config\": {\"quant_method\": \"exl3\", \"tile_order\": "
                      "\"sm70_colmajor\"}, \"text_config\"");
     },
     {"tile_order 'sm70_colmajor' is not supported", "reordered"}},
};
INSTANTIATE_TEST_SUITE_P(Layouts, DamagedFolder, ::testing::ValuesIn(kLayouts), case_name);

std::string one_entry_index(const std::string& file) {
  return "{\"weight_map\": {\"lm_head.weight\": " + file + "}}";
}

const Case kIndex[] = {
    {"tensor_in_another_shard",
     [](SmallCheckpoint& c) {
       c.index = test::with(test::index_of(c.shards), "\"lm_head.weight\":\"a.safetensors\"",
                            "\"lm_head.weight\":\"b.safetensors\"");
     },
     {"index.json", "'lm_head.weight' is placed in b.safetensors, but is in a.safetensors"}},
    {"tensor_that_no_shard_holds",
     [](SmallCheckpoint& c) {
       c.index =
           test::with(test::index_of(c.shards),
                      "\"lm_head.weight\":", "\"ghost\":\"a.safetensors\",\"lm_head.weight\":");
     },
     {"'ghost' is placed in a.safetensors, which does not hold it"}},
    {"tensor_that_the_index_forgets",
     [](SmallCheckpoint& c) {
       c.index = test::with(test::index_of(c.shards), "\"lm_head.weight\":\"a.safetensors\",", "");
     },
     {"'lm_head.weight' of a.safetensors is not in weight_map"}},
    {"name_twice",
     [](SmallCheckpoint& c) {
       c.index = test::with(test::index_of(c.shards), "\"lm_head.weight\":\"a.safetensors\",",
                            "\"lm_head.weight\":\"a.safetensors\","
                            "\"lm_head.weight\":\"a.safetensors\",");
     },
     {"index.json", "'lm_head.weight' appears twice"}},
    {"tensor_in_two_shards",
     [](SmallCheckpoint& c) {
       c.index = test::index_of(c.shards);
       c.add(c.tensor("lm_head.weight"));
     },
     {"'lm_head.weight' is in a.safetensors and again in b.safetensors"}},
    {"shard_that_is_not_there",
     [](SmallCheckpoint& c) {
       c.index = test::index_of(c.shards);
       c.shards.pop_back();
     },
     {"b.safetensors", "is missing", "index.json"}},
    {"parent_folder",
     [](SmallCheckpoint& c) { c.index = one_entry_index("\"../a.safetensors\""); },
     {"'lm_head.weight'", "'../a.safetensors'", "without any path"}},
    {"dots",
     [](SmallCheckpoint& c) { c.index = one_entry_index("\"..\""); },
     {"'..'", "without any path"}},
    {"absolute_path",
     [](SmallCheckpoint& c) { c.index = one_entry_index("\"/etc/passwd\""); },
     {"'/etc/passwd'", "without any path"}},
    {"sub_folder",
     [](SmallCheckpoint& c) { c.index = one_entry_index("\"x/a.safetensors\""); },
     {"'x/a.safetensors'", "without any path"}},
    {"nul_byte",
     [](SmallCheckpoint& c) { c.index = one_entry_index("\"a\\u0000.safetensors\""); },
     {"'a\\x00.safetensors'", "without any path"}},
    {"line_break_in_a_file_name",
     [](SmallCheckpoint& c) { c.index = one_entry_index("\"a\\n.safetensors\""); },
     {"'a\\x0a.safetensors'", "without any path"}},
    {"empty_name",
     [](SmallCheckpoint& c) { c.index = one_entry_index("\"\""); },
     {"is placed in ''"}},
    {"number_for_a_name",
     [](SmallCheckpoint& c) { c.index = one_entry_index("7"); },
     {"'lm_head.weight'", "wanted the name of a file"}},
    {"no_weight_map",
     [](SmallCheckpoint& c) { c.index = "{}"; },
     {"model.safetensors.index.json", "wanted 'weight_map'"}},
    {"list_for_a_map",
     [](SmallCheckpoint& c) { c.index = "{\"weight_map\": []}"; },
     {"wanted 'weight_map'"}},
    {"empty_map",
     [](SmallCheckpoint& c) { c.index = "{\"weight_map\": {}}"; },
     {"wanted 'weight_map'"}},
    {"list_at_the_top", [](SmallCheckpoint& c) { c.index = "[]"; }, {"wanted a JSON object"}},
    {"no_json",
     [](SmallCheckpoint& c) { c.index = "{\"weight_map\""; },
     {"not valid JSON at byte 13"}},
    {"empty_file", [](SmallCheckpoint& c) { c.index = ""; }, {"not valid JSON at byte 0"}},
    {"too_many_shards",
     [](SmallCheckpoint& c) {
       c.index = "{\"weight_map\": {\"x\": \"a.safetensors\"";
       for (int i = 0; i < 600; ++i)
         *c.index += ",\"t" + std::to_string(i) + "\":\"f" + std::to_string(i) + "\"";
       *c.index += "}}";
     },
     {"names 601 files, at most 512"}},
};
INSTANTIATE_TEST_SUITE_P(Index, DamagedFolder, ::testing::ValuesIn(kIndex), case_name);

TEST(HostileFolder, the_undamaged_one_can_be_served) {
  TempFolder folder;
  SmallCheckpoint().write(folder.path());
  EXPECT_EQ(verdict(folder.path()), "");
}

TEST(HostileFolder, every_float_type_is_accepted_for_dense_tensors) {
  for (const char* dtype : {"BF16", "F16", "F32"}) {
    SmallCheckpoint checkpoint;
    for (auto& shard : checkpoint.shards)
      for (FileTensor& t : shard.second)
        if (t.dtype == "BF16" || t.dtype == "F32") t.dtype = dtype;
    TempFolder folder;
    checkpoint.write(folder.path());
    EXPECT_EQ(verdict(folder.path()), "") << dtype;
  }
}

TEST(HostileFolder, any_matrix_of_the_model_may_be_exl3_at_any_bits_with_any_codebook) {
  for (const char* marker : {"mcg", "mul1", ""}) {
    for (int bits = 1; bits <= 8; ++bits) {
      const auto quantise = [&](const ExpectedTensor& t) {
        return t.dims[0] % 128 == 0 && t.dims[1] % 128 == 0 ? bits : 0;
      };
      TempFolder folder;
      SmallCheckpoint({.bits = quantise, .marker = marker}).write(folder.path());
      const auto checkpoint = Checkpoint::open(folder.path());
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
      EXPECT_EQ(problem_summary(checkpoint->census()), "") << marker << " " << bits;
      const auto group = checkpoint->find_exl3("model.language_model.embed_tokens.weight");
      ASSERT_TRUE(group.has_value());
      EXPECT_EQ(group->bits, bits);
      EXPECT_EQ(group->in, 128);
      EXPECT_EQ(group->out, 256);
      EXPECT_EQ(group->codebook, *marker == 0                   ? kernels::Codebook::threeinst
                                 : std::string(marker) == "mcg" ? kernels::Codebook::mcg
                                                                : kernels::Codebook::mul1);
    }
  }
}

TEST(HostileFolder, legacy_signs_a_stray_scale_and_a_marker_of_rank_one_are_accepted) {
  SmallCheckpoint checkpoint;
  checkpoint.tensor(expert("suh")) = {expert("su"), "I16", {8}, {}};
  checkpoint.tensor(expert("svh")) = {expert("sv"), "I16", {8}, {}};
  checkpoint.tensor(expert("mcg")).shape = {1};
  checkpoint.add({expert("scale"), "F16", {}, {}});
  TempFolder folder;
  checkpoint.write(folder.path());
  EXPECT_EQ(verdict(folder.path()), "");
}

TEST(HostileFolder, mtp_and_vision_may_be_absent_as_a_whole) {
  TempFolder folder;
  SmallCheckpoint({.mtp = false, .vision = false}).write(folder.path());
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(problem_summary(checkpoint->census()), "");
  EXPECT_FALSE(checkpoint->census().has_mtp);
  EXPECT_FALSE(checkpoint->census().has_vision);
  EXPECT_EQ(checkpoint->config().num_mtp_layers, 0);
}

TEST(HostileFolder, mtp_in_its_own_file_beside_the_index_is_found) {
  SmallCheckpoint checkpoint;
  const auto is_mtp = [](const FileTensor& t) {
    return t.name.starts_with("model.language_model.layers.2.");
  };
  std::vector<FileTensor> mtp;
  for (const auto& shard : checkpoint.shards)
    std::copy_if(shard.second.begin(), shard.second.end(), std::back_inserter(mtp), is_mtp);
  checkpoint.remove_if(is_mtp);
  TempFolder folder;
  checkpoint.write(folder.path());
  test::write_safetensors(folder.path() / "mtp.safetensors", mtp);
  const auto opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(problem_summary(opened->census()), "");
  EXPECT_TRUE(opened->census().has_mtp);
}

TEST(HostileFolder, an_unreadable_shard_is_named_and_its_tensors_are_not_reported_one_by_one) {
  TempFolder folder;
  SmallCheckpoint().write(folder.path());
  const auto path = folder.path() / "b.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const std::string text = verdict(folder.path());
  expect_one_line(text);
  EXPECT_THAT(text, HasSubstr("b.safetensors: tensor"));
  EXPECT_THAT(text, HasSubstr("truncated, download it again"));
}

TEST(HostileFolder, both_a_single_file_and_an_index_is_ambiguous) {
  SmallCheckpoint checkpoint;
  TempFolder folder;
  checkpoint.write(folder.path());
  test::write_safetensors(folder.path() / "model.safetensors", checkpoint.shards[0].second);
  EXPECT_THAT(verdict(folder.path()), HasSubstr("both model.safetensors and"));
}

TEST(HostileFolder, many_problems_are_counted_and_twenty_are_shown) {
  SmallCheckpoint checkpoint;
  checkpoint.remove_if(
      [](const FileTensor& t) { return t.name.starts_with("model.language_model.layers."); });
  TempFolder folder;
  checkpoint.write(folder.path());
  const auto opened = Checkpoint::open(folder.path());
  ASSERT_TRUE(opened.ok());
  const uint64_t count = opened->census().problem_count;
  EXPECT_GT(count, 50u);
  EXPECT_EQ(count, opened->census().problems.size());
  const std::string text = problem_summary(opened->census());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21) << text;
  EXPECT_THAT(text, HasSubstr("… and " + std::to_string(count - 20) + " more\n"));
}

TEST(HostileFolder, what_is_no_checkpoint_is_refused_in_one_line) {
  TempFolder folder;
  const auto& path = folder.path();
  expect_one_line(verdict(path / "nowhere"));
  EXPECT_THAT(verdict(path / "nowhere"), HasSubstr("no config.json in"));
  EXPECT_THAT(verdict(path), HasSubstr("no config.json in"));

  test::write_file(path / "config.json", test::testdata("small_config.json"));
  EXPECT_THAT(verdict(path), HasSubstr("no weights in"));

  std::filesystem::create_directory(path / "model.safetensors");
  EXPECT_THAT(verdict(path), HasSubstr("is not a regular file"));

  std::filesystem::remove(path / "model.safetensors");
  ASSERT_EQ(::mkfifo((path / "model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(verdict(path), HasSubstr("is not a regular file")) << "and must not wait on it";

  std::filesystem::remove(path / "config.json");
  std::filesystem::create_directory(path / "config.json");
  EXPECT_THAT(verdict(path), HasSubstr("is not a regular file"));
}

TEST(HostileFolder, an_absurdly_large_config_is_not_read) {
  TempFolder folder;
  test::write_file(folder.path() / "config.json", "{}");
  std::filesystem::resize_file(folder.path() / "config.json", 1ull << 40);
  EXPECT_THAT(verdict(folder.path()), HasSubstr("1099511627776 bytes, at most"));
}

TEST(HostileFolder, control_characters_in_names_do_not_reach_the_terminal) {
  SmallCheckpoint checkpoint;
  checkpoint.add({"x\\u001b[2J\\ny", "BF16", {1}, {}});
  TempFolder folder;
  checkpoint.write(folder.path());
  const std::string text = verdict(folder.path());
  expect_one_line(text);
  EXPECT_THAT(text, HasSubstr("'x\\x1b[2J\\x0ay'"));
}

}  // namespace
}  // namespace yoke::engine
