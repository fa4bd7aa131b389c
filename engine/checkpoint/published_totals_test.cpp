// The census of header-only copies of the released checkpoints gives the published totals
// (spec/glm5_next.md 3.8 and 4.2).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/test_folder.h"

namespace yoke::engine {
namespace {

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

TEST(PublishedTotals, tr3_4bpw_in_120_shards) {
  const std::string text = test::testdata("glm53_flash_config.json");
  const auto config = parse_model_config(text, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  test::TempFolder folder;
  test::write_file(folder.path() / "config.json", text);
  SyntheticOptions options;
  options.bits = test::SmallCheckpoint::expert_bits;
  test::write_released(folder.path(), test::synthetic_tensors(*config, options), 120);

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
  test::write_released(folder.path(), test::synthetic_tensors(*config, SyntheticOptions{}), 62);

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
