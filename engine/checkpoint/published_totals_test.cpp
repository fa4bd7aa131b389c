// The census of header-only copies of the released checkpoints gives the published totals
// (spec/glm5_next.md 3.8 and 4.2).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/test_folder.h"

namespace yoke::engine {
namespace {

using test::FileTensor;
using test::SyntheticOptions;

struct Totals {
  uint64_t tensors = 0;
  uint64_t parameters = 0;
  uint64_t bytes = 0;
};

Totals totals(const Census& census, const std::function<bool(const std::string&)>& wanted) {
  Totals sum;
  for (const Census::Class& c : census.classes) {
    if (!wanted(c.name)) continue;
    sum.tensors += c.tensors;
    sum.parameters += c.parameters;
    sum.bytes += c.bytes;
  }
  return sum;
}

bool is_routed(const std::string& name) {
  return name == "routed experts";
}

/// Files in the order of safetensors' own writer (large element types first, then names), split
/// evenly by count. All data is a hole but the markers.
void write_released(const std::filesystem::path& folder, std::vector<FileTensor> tensors,
                    size_t files) {
  std::vector<std::pair<std::string, std::vector<FileTensor>>> shards(files);
  for (size_t i = 0; i < files; ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, files);
    shards[i].first = name;
    for (size_t t = tensors.size() * i / files; t < tensors.size() * (i + 1) / files; ++t)
      shards[i].second.push_back(std::move(tensors[t]));
    std::stable_sort(shards[i].second.begin(), shards[i].second.end(),
                     [](const FileTensor& a, const FileTensor& b) {
                       return test::dtype_size(a.dtype) > test::dtype_size(b.dtype);
                     });
    test::write_safetensors(folder / name, shards[i].second);
  }
  test::write_file(folder / "model.safetensors.index.json", test::index_of(shards));
}

TEST(PublishedTotals, tr3_4bpw_in_120_shards) {
  const std::string text = test::testdata("glm53_flash_config.json");
  const auto config = parse_model_config(text, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  test::TempFolder folder;
  test::write_file(folder.path() / "config.json", text);
  SyntheticOptions options;
  options.bits = test::SmallCheckpoint::expert_bits;
  write_released(folder.path(), test::synthetic_tensors(*config, options), 120);

  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const Census& census = checkpoint->census();
  EXPECT_THAT(census.problems, ::testing::IsEmpty());
  EXPECT_EQ(checkpoint->shards().size(), 120u);
  EXPECT_EQ(census.tensors, 150'226u);
  EXPECT_EQ(census.bytes, 175'622'979'576u);
  EXPECT_EQ(census.parameters, 321'323'031'390u);
  EXPECT_TRUE(census.has_mtp);
  EXPECT_TRUE(census.has_vision);

  const Totals routed = totals(census, is_routed);
  EXPECT_EQ(routed.tensors, 148'608u);
  EXPECT_EQ(routed.bytes, 156'283'454'592u);
  const Totals native = totals(census, [](const std::string& name) { return !is_routed(name); });
  EXPECT_EQ(native.tensors, 1'618u);
  EXPECT_EQ(native.bytes, 19'339'524'984u);
  const Totals vision = totals(census, [](const std::string& name) { return name == "vision"; });
  EXPECT_EQ(vision.tensors, 347u);
}

TEST(PublishedTotals, bf16_release) {
  const std::string text = test::testdata("glm53_flash_config.json");
  const auto config = parse_model_config(text, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  test::TempFolder folder;
  test::write_file(folder.path() / "config.json", text);
  write_released(folder.path(), test::synthetic_tensors(*config, SyntheticOptions{}), 62);

  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const Census& census = checkpoint->census();
  EXPECT_THAT(census.problems, ::testing::IsEmpty());
  EXPECT_EQ(census.tensors, 38'770u);
  EXPECT_EQ(census.bytes, 642'646'653'816u);
  EXPECT_EQ(census.parameters, 321'323'031'390u);
}

}  // namespace
}  // namespace yoke::engine
