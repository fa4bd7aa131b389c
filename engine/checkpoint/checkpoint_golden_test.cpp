// The checkpoints and reference files of the repository open, and what they hold is what their
// READMEs say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/safetensors.h"

namespace yoke::engine {
namespace {

namespace fs = std::filesystem;

fs::path golden_root() {
  const char* root = std::getenv("YOKE_GOLDEN_ROOT");
  return root != nullptr ? root : YOKE_GOLDEN_ROOT;
}

fs::path nano() {
  return fs::path(YOKE_SOURCE_DIR) / "tools/nano/checkpoint";
}

TEST(Goldens, every_safetensors_file_reads) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(golden_root())) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = SafetensorsFile::read(entry.path());
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_FALSE(file->names().empty()) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 30);
}

TEST(Goldens, the_small_model_opens_without_problems) {
  const auto checkpoint = Checkpoint::open(golden_root() / "glm5_next");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->census().problems, testing::IsEmpty());
  EXPECT_FALSE(checkpoint->census().has_mtp);
  EXPECT_FALSE(checkpoint->census().has_vision);
  EXPECT_EQ(checkpoint->config().num_layers, 6);
  EXPECT_EQ(checkpoint->config().num_mtp_layers, 0);
}

TEST(Goldens, the_mtp_layer_of_another_file_stands_over_the_small_model) {
  const fs::path folder = golden_root() / "glm5_next";
  auto text = read_text_file(folder / "config.json", 1 << 20);
  ASSERT_TRUE(text.ok());
  const std::string before = "\"num_nextn_predict_layers\": 0";
  ASSERT_NE(text->find(before), std::string::npos);
  text->replace(text->find(before), before.size(), "\"num_nextn_predict_layers\": 1");
  const std::vector<fs::path> extra = {golden_root() / "mtp" / "model.safetensors"};
  const auto checkpoint = Checkpoint::open(folder, extra, *text);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->census().problems, testing::IsEmpty());
  EXPECT_TRUE(checkpoint->census().has_mtp);
  EXPECT_EQ(checkpoint->config().num_mtp_layers, 1);
  EXPECT_NE(checkpoint->find("model.language_model.layers.6.eh_proj.weight"), nullptr);
}

TEST(Goldens, nano_opens_without_problems) {
  const auto checkpoint = Checkpoint::open(nano());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const Census& census = checkpoint->census();
  EXPECT_THAT(census.problems, testing::IsEmpty());
  EXPECT_EQ(census.tensors, 1124u);
  EXPECT_EQ(census.bytes, 8382544u);
  EXPECT_TRUE(census.has_mtp);
  EXPECT_EQ(checkpoint->shards().size(), 3u);
  EXPECT_EQ(checkpoint->name(), "checkpoint");
  EXPECT_EQ(checkpoint->generation().temperature, 0.0);
  EXPECT_EQ(checkpoint->generation().max_new_tokens, 1024);
}

TEST(Goldens, the_experts_of_nano_are_exl3_groups_with_finite_scales) {
  const auto checkpoint = Checkpoint::open(nano());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const std::string stem = "model.language_model.layers.1.mlp.experts.15.down_proj";
  EXPECT_EQ(checkpoint->find(stem + ".weight"), nullptr);
  const auto group = checkpoint->find_exl3(stem + ".weight");
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->bits, 4);
  EXPECT_EQ(group->codebook, kernels::Codebook::mcg);
  EXPECT_EQ(group->in, checkpoint->config().moe_intermediate_size);
  EXPECT_EQ(group->out, checkpoint->config().hidden_size);
  std::vector<kernels::f16> scales(static_cast<size_t>(group->in));
  ASSERT_TRUE(checkpoint->read_scales(*group->in_scales, scales).ok());
  EXPECT_NE(kernels::to_float(scales[0]), 0.0f);
  EXPECT_FALSE(checkpoint->find_exl3("model.language_model.embed_tokens.weight").has_value());
  EXPECT_FALSE(checkpoint->find_exl3("no such tensor").has_value());
}

TEST(Goldens, reading_a_tensor_gives_the_bytes_of_the_file) {
  const fs::path folder = golden_root() / "glm5_next";
  const auto checkpoint = Checkpoint::open(folder);
  const auto whole = SafetensorsFile::read(folder / "model.safetensors");
  ASSERT_TRUE(checkpoint.ok() && whole.ok());
  for (const std::string& name : whole->names()) {
    const TensorInfo* info = checkpoint->find(name);
    ASSERT_NE(info, nullptr) << name;
    std::vector<std::byte> bytes(info->bytes);
    ASSERT_TRUE(checkpoint->read(*info, bytes).ok());
    const auto view = whole->tensor(name);
    ASSERT_EQ(view.bytes(), bytes.size());
    EXPECT_EQ(std::memcmp(view.data, bytes.data(), bytes.size()), 0) << name;
  }
}

}  // namespace
}  // namespace yoke::engine
