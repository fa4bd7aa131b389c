// identity() follows the content of headers, sizes and config, and nothing else.
#include <gtest/gtest.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/test_folder.h"

namespace yoke::engine {
namespace {

using test::SmallCheckpoint;
using test::TempFolder;

constexpr const char* kNorm = "model.language_model.norm.weight";

std::string identity_of(const std::filesystem::path& folder) {
  const auto checkpoint = Checkpoint::open(folder);
  EXPECT_TRUE(checkpoint.ok());
  return checkpoint ? checkpoint->identity() : "";
}

std::string identity_of(const SmallCheckpoint& checkpoint) {
  TempFolder folder;
  checkpoint.write(folder.path());
  return identity_of(folder.path());
}

TEST(Identity, is_32_hex_digits_and_the_same_in_any_folder) {
  TempFolder folder;
  SmallCheckpoint().write(folder.path());
  const std::string first = identity_of(folder.path());
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(identity_of(folder.path() / "."), first);

  TempFolder elsewhere;
  std::filesystem::copy(folder.path(), elsewhere.path() / "copy");
  EXPECT_EQ(identity_of(elsewhere.path() / "copy"), first);
}

TEST(Identity, changes_with_any_name_shape_dtype_offset_and_with_the_config) {
  std::vector<std::string> seen = {identity_of(SmallCheckpoint())};
  const auto expect_new = [&](const char* what, const std::function<void(SmallCheckpoint&)>& edit) {
    SmallCheckpoint checkpoint;
    edit(checkpoint);
    const std::string identity = identity_of(checkpoint);
    for (const std::string& other : seen) EXPECT_NE(identity, other) << what;
    seen.push_back(identity);
  };
  expect_new("name", [](auto& c) { c.tensor(kNorm).name = "model.language_model.nurm.weight"; });
  expect_new("shape", [](auto& c) { c.tensor(kNorm).shape = {64, 2}; });
  expect_new("dtype of the same width", [](auto& c) { c.tensor(kNorm).dtype = "F16"; });
  expect_new("order", [](auto& c) { std::swap(c.shards[0].second[0], c.shards[0].second[1]); });
  expect_new("missing", [](auto& c) { c.remove(kNorm); });
  expect_new("another shard", [](auto& c) {
    c.shards[1].second.push_back(c.tensor(kNorm));
    c.shards[0].second.erase(c.locate(kNorm).second);
  });
  expect_new("config", [](auto& c) { c.config = test::with(c.config, "2.5", "2.25"); });
}

TEST(Identity, does_not_read_tensor_data) {
  SmallCheckpoint changed;
  changed.tensor(kNorm).content = "other bytes";
  EXPECT_EQ(identity_of(changed), identity_of(SmallCheckpoint()));
}

}  // namespace
}  // namespace yoke::engine
