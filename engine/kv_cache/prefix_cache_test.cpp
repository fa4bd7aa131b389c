#include "engine/kv_cache/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>
#include <set>

namespace yoke::engine {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int32_t kBlock = 4;

Tokens count_from(int32_t first, int32_t count) {
  Tokens tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCacheTest : public ::testing::Test {
 protected:
  /// What a sequence does that computes `tokens` from nothing, leaves a snapshot, and ends.
  /// The snapshot's place, or nullopt.
  std::optional<SnapshotId> keep(const Tokens& tokens) {
    std::vector<BlockId> blocks;
    if (!pool.allocate(static_cast<int32_t>((tokens.size() + kBlock - 1) / kBlock), blocks))
      return std::nullopt;
    const auto id = cache.reserve(tokens);
    if (id) cache.publish(*id, tokens, blocks);
    for (const BlockId block : blocks) pool.release(block);
    return id;
  }
  int32_t found(const Tokens& tokens) {
    const auto match = cache.find(tokens);
    return match ? match->position : 0;
  }

  BlockPool pool{64};
  PrefixCache cache{pool, kBlock, 4};
};

TEST_F(PrefixCacheTest, finds_the_longest_kept_prefix_that_leaves_a_token) {
  const Tokens all = count_from(0, 40);
  for (const int32_t n : {3, 8, 21}) keep(count_from(0, n));
  EXPECT_EQ(found(all), 21);
  EXPECT_EQ(found(count_from(0, 22)), 21);
  EXPECT_EQ(found(count_from(0, 21)), 8) << "a token must be left";
  EXPECT_EQ(found(count_from(0, 8)), 3);
  EXPECT_EQ(found(count_from(0, 3)), 0);
  EXPECT_EQ(found(joined(count_from(0, 20), {99, 99})), 8);
  EXPECT_EQ(found(joined(count_from(0, 7), {99, 99})), 3);
  EXPECT_EQ(found({1, 1, 2, 3}), 0);
  EXPECT_EQ(found({}), 0);
}

TEST_F(PrefixCacheTest, holds_full_blocks_only_and_only_while_a_snapshot_needs_them) {
  keep(count_from(0, 8));
  EXPECT_EQ(pool.used_blocks(), 1) << "the second block is the snapshot's own copy";
  keep(count_from(0, 9));
  EXPECT_EQ(pool.used_blocks(), 2);
  const auto match = cache.find(count_from(0, 20));
  ASSERT_TRUE(match);
  EXPECT_EQ(match->position, 9);
  EXPECT_EQ(match->shared_blocks, 2);
  EXPECT_EQ(match->idle_blocks, 2);
  cache.forget(count_from(0, 9));
  EXPECT_EQ(pool.used_blocks(), 0);
  EXPECT_EQ(cache.snapshots(), 0);
}

TEST_F(PrefixCacheTest, prefixes_that_part_at_a_block_border_share_only_what_lies_before_it) {
  // The MTP layer's last row of a block depends on the token after it.
  keep(joined(count_from(0, 8), {50}));
  keep(joined(count_from(0, 8), {60}));
  EXPECT_EQ(pool.used_blocks(), 3) << "the first in common, the second twice";
  EXPECT_EQ(found(joined(count_from(0, 8), {50, 1})), 9);
  EXPECT_EQ(found(joined(count_from(0, 8), {60, 1})), 9);
  EXPECT_EQ(found(joined(count_from(0, 8), {70, 1})), 0);
}

TEST_F(PrefixCacheTest, equal_tokens_are_kept_once) {
  ASSERT_TRUE(keep(count_from(0, 17)));
  EXPECT_FALSE(keep(count_from(0, 17)));
  EXPECT_EQ(cache.snapshots(), 1);
  keep(count_from(0, 30));
  EXPECT_EQ(pool.used_blocks(), 7) << "4 blocks of the first and 3 more";
}

TEST_F(PrefixCacheTest, what_is_acquired_outlives_its_eviction) {
  keep(count_from(0, 9));
  const auto match = cache.find(count_from(0, 12));
  std::vector<BlockId> blocks;
  cache.acquire(*match, blocks);
  EXPECT_EQ(blocks.size(), 2u);
  for (int32_t i = 1; i <= 4; ++i) keep(count_from(100 * i, 5));
  EXPECT_EQ(found(count_from(0, 12)), 9) << "pinned";
  cache.forget(count_from(0, 9));
  EXPECT_EQ(found(count_from(0, 12)), 0);
  EXPECT_EQ(cache.snapshots(), 4) << "its place is still being read";
  for (const BlockId block : blocks) EXPECT_EQ(pool.references(block), 1);
  cache.unpin(match->snapshot);
  EXPECT_EQ(cache.snapshots(), 3);
  for (const BlockId block : blocks) pool.release(block);
}

TEST_F(PrefixCacheTest, an_abandoned_place_is_free_and_finds_nothing) {
  const auto id = cache.reserve(count_from(0, 9));
  ASSERT_TRUE(id);
  EXPECT_EQ(found(count_from(0, 12)), 0);
  cache.abandon(*id);
  EXPECT_EQ(cache.snapshots(), 0);
}

TEST_F(PrefixCacheTest, without_places_nothing_is_kept) {
  PrefixCache none(pool, kBlock, 0);
  EXPECT_FALSE(none.reserve(count_from(0, 9)));
  EXPECT_FALSE(none.find(count_from(0, 9)));
  EXPECT_TRUE(none.make_free(64));
  EXPECT_FALSE(none.make_free(65));
}

TEST_F(PrefixCacheTest, the_oldest_of_equals_goes_first_and_use_renews) {
  for (int32_t i = 1; i <= 4; ++i) keep(count_from(100 * i, 10));
  std::vector<BlockId> blocks;
  const auto match = cache.find(count_from(100, 12));
  cache.acquire(*match, blocks);
  cache.unpin(match->snapshot);
  keep(count_from(500, 10));
  EXPECT_EQ(found(count_from(100, 12)), 10);
  EXPECT_EQ(found(count_from(200, 12)), 0);
  EXPECT_EQ(cache.evictions(), 1u);
}

TEST_F(PrefixCacheTest, what_is_cheap_to_compute_again_goes_before_what_is_dear) {
  keep(count_from(0, 60));    // oldest, but 60 tokens
  keep(count_from(100, 10));  // 10 tokens
  keep(count_from(0, 62));    // 2 tokens more than the first
  keep(count_from(200, 20));
  keep(count_from(300, 20));
  EXPECT_EQ(found(count_from(0, 64)), 60) << "the two tokens went";
  EXPECT_EQ(found(count_from(100, 12)), 10);
  keep(count_from(400, 20));
  EXPECT_EQ(found(count_from(100, 12)), 0);
  EXPECT_EQ(found(count_from(0, 64)), 60);
}

TEST_F(PrefixCacheTest, instructions_in_common_outlive_the_turns_of_one_conversation) {
  const Tokens instructions = count_from(0, 60);
  keep(instructions);
  Tokens conversation = instructions;
  for (int32_t turn = 1; turn <= 10; ++turn) {
    const auto match = cache.find(joined(conversation, {-1}));
    ASSERT_TRUE(match);
    EXPECT_EQ(match->position, static_cast<int32_t>(conversation.size())) << "the turn before";
    std::vector<BlockId> blocks;
    cache.acquire(*match, blocks);
    cache.unpin(match->snapshot);
    for (const BlockId block : blocks) pool.release(block);
    conversation = joined(conversation, count_from(1000 * turn, 4));
    keep(conversation);
  }
  EXPECT_GE(cache.evictions(), 7u);
  EXPECT_EQ(found(joined(instructions, {-1, -2})), 60) << "for the next conversation";
}

TEST_F(PrefixCacheTest, blocks_are_made_free_by_dropping_those_that_hold_some) {
  keep(count_from(0, 33));    // 8 blocks
  keep(count_from(0, 36));    // the same 8
  keep(count_from(100, 41));  // 10 blocks
  EXPECT_EQ(pool.free_blocks(), 46);
  EXPECT_EQ(pool.idle_blocks(), 18);
  EXPECT_FALSE(cache.make_free(65));
  EXPECT_EQ(cache.snapshots(), 3) << "nothing is dropped in vain";
  EXPECT_TRUE(cache.make_free(50));
  EXPECT_EQ(cache.snapshots(), 2) << "the one that holds blocks of its own";
  EXPECT_EQ(pool.free_blocks(), 56);
  EXPECT_TRUE(cache.make_free(64));
  EXPECT_EQ(cache.snapshots(), 0);
}

/// A map of everything that is kept, beside the cache: what is found must be the longest there.
TEST(PrefixCacheProperty, random_traffic_finds_exactly_what_is_kept) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return static_cast<int32_t>(random() % n); };
    BlockPool pool(40 + below(40));
    const int32_t block = 1 + below(5);
    PrefixCache cache(pool, block, 1 + below(12));
    std::map<SnapshotId, Tokens> kept;
    struct Held {
      SnapshotId id;
      std::vector<BlockId> blocks;
    };
    std::vector<Held> held;
    const auto random_tokens = [&] {  // two letters: prefixes coincide often
      Tokens tokens(static_cast<size_t>(1 + below(30)));
      for (int32_t& t : tokens) t = below(8) == 0;
      return tokens;
    };
    for (int i = 0; i < 2000; ++i) {
      const Tokens tokens = random_tokens();
      switch (random() % 6) {
        case 0:
        case 1: {
          std::vector<BlockId> blocks;
          const auto count = (static_cast<int32_t>(tokens.size()) + block - 1) / block;
          if (!cache.make_free(count)) break;
          std::erase_if(kept, [&](const auto& k) { return !cache.find(joined(k.second, {7})); });
          ASSERT_TRUE(pool.allocate(count, blocks));
          if (const auto id = cache.reserve(tokens)) {
            ASSERT_FALSE(std::ranges::any_of(held, [&](const Held& h) { return h.id == *id; }))
                << "a pinned place was given away";
            if (random() % 4 == 0) {
              kept.erase(*id);
              cache.abandon(*id);
            } else {
              cache.publish(*id, tokens, blocks);
              kept[*id] = tokens;
            }
          }
          for (const BlockId b : blocks) pool.release(b);
          break;
        }
        case 2: {
          const auto match = cache.find(tokens);
          if (!match) break;
          Held h{match->snapshot, {}};
          cache.acquire(*match, h.blocks);
          ASSERT_EQ(static_cast<int32_t>(h.blocks.size()), match->shared_blocks);
          ASSERT_EQ(match->shared_blocks, (match->position - 1) / block);
          held.push_back(h);
          break;
        }
        case 3:
          if (held.empty()) break;
          cache.unpin(held.back().id);
          for (const BlockId b : held.back().blocks) pool.release(b);
          held.pop_back();
          break;
        case 4:
          if (random() % 10 != 0) break;
          cache.forget(tokens);
          break;
        default:
          break;
      }
      // Eviction, forgetting and reuse change what is kept; the cache itself says what is left, and
      // must agree with the tokens that were published.
      std::erase_if(kept, [&](const auto& k) {
        const auto match = cache.find(joined(k.second, {7}));
        return !match || match->position != static_cast<int32_t>(k.second.size());
      });
      const Tokens probe = random_tokens();
      int32_t longest = 0;
      for (const auto& [id, t] : kept) {
        if (t.size() < probe.size() && std::equal(t.begin(), t.end(), probe.begin()))
          longest = std::max(longest, static_cast<int32_t>(t.size()));
      }
      const auto match = cache.find(probe);
      ASSERT_EQ(match ? match->position : 0, longest);
      if (match) {
        ASSERT_EQ(kept.at(match->snapshot).size(), static_cast<size_t>(longest));
      }
      ASSERT_LE(cache.snapshots(), cache.max_snapshots());
    }
    while (!held.empty()) {
      cache.unpin(held.back().id);
      for (const BlockId b : held.back().blocks) pool.release(b);
      held.pop_back();
    }
    ASSERT_EQ(pool.used_blocks(), pool.idle_blocks());
    ASSERT_TRUE(cache.make_free(pool.size()));
    ASSERT_EQ(pool.used_blocks(), 0) << "references balance";
  }
}

}  // namespace
}  // namespace yoke::engine
