#include "engine/kv_cache/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace yoke::engine {
namespace {

TEST(BlockPool, hands_out_each_block_once) {
  BlockPool pool(5);
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.allocate(3, blocks));
  ASSERT_TRUE(pool.allocate(2, blocks));
  EXPECT_EQ(std::set<BlockId>(blocks.begin(), blocks.end()).size(), 5u);
  EXPECT_EQ(pool.free_blocks(), 0);
  EXPECT_EQ(pool.used_blocks(), 5);
}

TEST(BlockPool, takes_nothing_when_it_cannot_give_all) {
  BlockPool pool(2);
  std::vector<BlockId> blocks;
  EXPECT_FALSE(pool.allocate(3, blocks));
  EXPECT_TRUE(blocks.empty());
  EXPECT_EQ(pool.free_blocks(), 2);
}

TEST(BlockPool, a_shared_block_is_free_after_its_last_holder) {
  BlockPool pool(1);
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.allocate(1, blocks));
  pool.retain(blocks[0]);
  EXPECT_EQ(pool.references(blocks[0]), 2);
  pool.release(blocks[0]);
  EXPECT_EQ(pool.free_blocks(), 0);
  pool.release(blocks[0]);
  EXPECT_EQ(pool.free_blocks(), 1);
  EXPECT_EQ(pool.references(blocks[0]), 0);
}

TEST(BlockPool, a_kept_block_is_idle_while_nobody_else_holds_it) {
  BlockPool pool(2);
  std::vector<BlockId> blocks;
  ASSERT_TRUE(pool.allocate(1, blocks));
  pool.keep(blocks[0]);
  EXPECT_EQ(pool.idle_blocks(), 0);
  pool.release(blocks[0]);
  EXPECT_EQ(pool.idle_blocks(), 1);
  EXPECT_EQ(pool.free_blocks(), 1);
  pool.retain(blocks[0]);
  EXPECT_EQ(pool.idle_blocks(), 0);
  pool.drop(blocks[0]);
  EXPECT_EQ(pool.idle_blocks(), 0);
  EXPECT_EQ(pool.references(blocks[0]), 1);
  pool.keep(blocks[0]);
  pool.release(blocks[0]);
  pool.drop(blocks[0]);
  EXPECT_EQ(pool.idle_blocks(), 0);
  EXPECT_EQ(pool.free_blocks(), 2);
}

TEST(BlockPoolDeathTest, releasing_a_free_block_is_a_bug) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.release(BlockId{0}), "releasing a free block");
  EXPECT_DEATH(pool.retain(BlockId{0}), "retaining a free block");
  EXPECT_DEATH(pool.release(BlockId{1}), "no such block");
  EXPECT_DEATH(pool.drop(BlockId{0}), "not kept");
  EXPECT_DEATH(pool.keep(BlockId{0}), "retaining a free block");
}

TEST(BlockPool, random_traffic_keeps_the_books) {
  constexpr uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  BlockPool pool(37);
  std::vector<BlockId> held;  // one entry per reference
  for (int i = 0; i < 20000; ++i) {
    switch (random() % 3) {
      case 0: {
        const auto count = static_cast<int32_t>(random() % 5);
        const int32_t free = pool.free_blocks();
        ASSERT_EQ(pool.allocate(count, held), count <= free);
        break;
      }
      case 1:
        if (!held.empty()) {
          held.push_back(held[random() % held.size()]);
          pool.retain(held.back());
        }
        break;
      default:
        if (!held.empty()) {
          std::swap(held[random() % held.size()], held.back());
          pool.release(held.back());
          held.pop_back();
        }
    }
    const std::set<BlockId> distinct(held.begin(), held.end());
    ASSERT_EQ(pool.used_blocks(), static_cast<int32_t>(distinct.size()))
        << "seed " << kSeed << " operation " << i;
  }
}

}  // namespace
}  // namespace yoke::engine
