#include "engine/kv_cache/snapshot_positions.h"

#include <gtest/gtest.h>

namespace yoke::engine {
namespace {

using Positions = std::vector<int32_t>;

TEST(SnapshotPositions, the_end_of_the_last_message) {
  EXPECT_EQ(snapshot_positions(Positions{12, 40, 90}, 93), (Positions{90}));
  EXPECT_EQ(snapshot_positions(Positions{12, 40, 93}, 93), (Positions{40}))
      << "one token must be left to compute";
}

TEST(SnapshotPositions, long_instructions_too) {
  EXPECT_EQ(snapshot_positions(Positions{3000, 3100, 9000}, 9003), (Positions{3000, 9000}));
  EXPECT_EQ(snapshot_positions(Positions{255, 9000}, 9003), (Positions{9000}));
  EXPECT_EQ(snapshot_positions(Positions{3000}, 3003), (Positions{3000}));
}

TEST(SnapshotPositions, a_prompt_without_messages_is_kept_up_to_its_last_token) {
  EXPECT_EQ(snapshot_positions({}, 50), (Positions{49}));
  EXPECT_EQ(snapshot_positions({}, 1), Positions{});
  EXPECT_EQ(snapshot_positions(Positions{0, 50}, 50), Positions{}) << "messages, but no use";
}

}  // namespace
}  // namespace yoke::engine
