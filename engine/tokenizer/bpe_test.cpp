#include "engine/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

namespace yoke::engine {
namespace {

/// Bytes and merges, with ids in order of appearance.
struct Rules {
  Vocabulary vocabulary;
  std::vector<Merge> merges;

  Rules() {
    for (int byte = 0; byte < 256; ++byte)
      vocabulary.add(byte, std::string(1, static_cast<char>(byte)), Vocabulary::Kind::ordinary);
  }
  int32_t token(const std::string& bytes) {
    if (const auto known = vocabulary.find(bytes)) return *known;
    const int32_t id = vocabulary.size();
    vocabulary.add(id, bytes, Vocabulary::Kind::ordinary);
    return id;
  }
  void merge(const std::string& left, const std::string& right) {
    merges.push_back({token(left), token(right), token(left + right)});
  }
  void double_up(std::string unit, int doublings) {
    for (size_t i = 1; i < unit.size(); ++i) merge(unit.substr(0, i), unit.substr(i, 1));
    for (int k = 0; k < doublings; ++k, unit += unit) merge(unit, unit);
  }
};

std::vector<int32_t> merged(const Rules& rules, const MergeTable& table, std::string_view piece) {
  std::vector<int32_t> ids;
  Merger(rules.vocabulary, table).merge(piece, ids);
  return ids;
}

/// The definition: merge the leftmost pair of lowest rank until none is left.
std::vector<int32_t> merged_plainly(const Rules& rules, const MergeTable& table,
                                    std::string_view piece) {
  std::vector<int32_t> ids;
  for (const char c : piece) ids.push_back(rules.vocabulary.byte_token(static_cast<uint8_t>(c)));
  while (true) {
    uint32_t lowest = MergeTable::kNoRank;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const uint32_t rank = table.rank(ids[i], ids[i + 1]);
      if (rank < lowest) {
        lowest = rank;
        at = i;
      }
    }
    if (lowest == MergeTable::kNoRank) return ids;
    ids[at] = table.result(lowest);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

/// Merges of random pairs of known tokens; shuffled, so that a merge may enable one of lower rank.
Rules random_rules(std::mt19937& random, int letters, int count, bool shuffled) {
  Rules rules;
  std::vector<std::string> known;
  for (int i = 0; i < letters; ++i) known.emplace_back(1, static_cast<char>('a' + i));
  for (int i = 0; i < count; ++i) {
    const std::string left = known[random() % known.size()], right = known[random() % known.size()];
    if (left.size() + right.size() > 40) continue;
    rules.merge(left, right);
    known.push_back(left + right);
  }
  if (shuffled) std::shuffle(rules.merges.begin(), rules.merges.end(), random);
  return rules;
}

std::string random_letters(std::mt19937& random, int letters, size_t size) {
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % static_cast<unsigned>(letters));
  return text;
}

TEST(Merger, lowest_rank_first_and_leftmost_on_ties) {
  Rules rules;
  rules.merge("b", "c");
  rules.merge("a", "b");
  rules.merge("a", "a");
  const MergeTable table(rules.merges);
  EXPECT_EQ(merged(rules, table, "abc"), (std::vector<int32_t>{'a', rules.token("bc")}));
  EXPECT_EQ(merged(rules, table, "aaa"), (std::vector<int32_t>{rules.token("aa"), 'a'}));
  EXPECT_EQ(merged(rules, table, "x"), (std::vector<int32_t>{'x'}));
}

TEST(Merger, a_merge_may_enable_one_of_lower_rank_which_then_goes_first) {
  Rules rules;
  rules.merge("ab", "c");  // rank 0, possible only after rank 2
  rules.merge("c", "d");
  rules.merge("a", "b");
  const MergeTable table(rules.merges);
  const int32_t abc = rules.token("abc"), ab = rules.token("ab"), cd = rules.token("cd");
  EXPECT_EQ(merged(rules, table, "abcabcd"), (std::vector<int32_t>{abc, ab, cd}));
}

TEST(Merger, of_a_pair_that_is_listed_twice_the_later_rank_counts) {
  Rules rules;
  rules.merge("a", "b");
  rules.merge("b", "c");
  rules.merge("a", "b");
  const MergeTable table(rules.merges);
  EXPECT_EQ(merged(rules, table, "abc"), (std::vector<int32_t>{'a', rules.token("bc")}));
}

TEST(Merger, agrees_with_the_definition_for_pieces_of_all_lengths) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const int letters = 1 + static_cast<int>(random() % 4);
    const Rules rules =
        random_rules(random, letters, 1 + static_cast<int>(random() % 60), round % 2 == 0);
    const MergeTable table(rules.merges);
    Merger reused(rules.vocabulary, table);
    for (const size_t size : {size_t{1}, 1 + random() % Merger::kShortPieceBytes,
                              Merger::kShortPieceBytes + 1 + random() % 200}) {
      const std::string piece = random_letters(random, letters, size);
      std::vector<int32_t> ids;
      reused.merge(piece, ids);
      ASSERT_EQ(ids, merged_plainly(rules, table, piece)) << "round " << round << " " << piece;
    }
  }
}

TEST(Merger, agrees_with_the_definition_for_pieces_that_go_through_buckets) {
  std::mt19937 random(6);
  for (int round = 0; round < 24; ++round) {
    const int letters = 1 + static_cast<int>(random() % 4);
    const Rules rules =
        random_rules(random, letters, 1 + static_cast<int>(random() % 200), round % 2 == 0);
    const MergeTable table(rules.merges);
    Merger reused(rules.vocabulary, table);
    for (int repeat = 0; repeat < 2; ++repeat) {
      const std::string piece =
          random_letters(random, letters, Merger::kMiddlePieceBytes + 1 + random() % 1000);
      std::vector<int32_t> ids;
      reused.merge(piece, ids);
      ASSERT_EQ(ids, merged_plainly(rules, table, piece)) << "round " << round;
    }
  }
}

// --- cost: at most 40 steps per byte ---

constexpr double kStepsPerByteMax = 40;

double steps_per_byte(const Rules& rules, const MergeTable& table, const std::string& piece) {
  Merger merger(rules.vocabulary, table);
  std::vector<int32_t> ids;
  merger.merge(piece, ids);
  size_t bytes = 0;
  for (const int32_t id : ids) bytes += rules.vocabulary.bytes(id).size();
  EXPECT_EQ(bytes, piece.size());
  return static_cast<double>(merger.operations()) / static_cast<double>(piece.size());
}

std::string repeated(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

TEST(MergerCost, runs_that_merge_fully_take_at_most_40_steps_per_byte) {
  Rules rules;
  for (const std::string_view unit : {"a", "7", " ", "\xF0\x9F\x98\x80"})
    rules.double_up(std::string(unit), 20);
  const MergeTable table(rules.merges);
  for (const std::string_view unit : {"a", "7", " ", "\xF0\x9F\x98\x80"}) {
    for (const size_t size : {2, 20, 24, 28, 100, 1000, 2048, 2052, 10'000, 100'000, 1 << 20}) {
      const std::string piece = repeated(unit, size);
      EXPECT_LE(steps_per_byte(rules, table, piece), kStepsPerByteMax)
          << "unit " << unit << ", " << size << " bytes";
    }
    std::vector<int32_t> ids;
    Merger(rules.vocabulary, table).merge(repeated(unit, 4 << 18), ids);
    EXPECT_EQ(ids.size(), 1u) << "the run merges into one token";
  }
}

TEST(MergerCost, steps_per_byte_do_not_grow_with_the_length_of_a_run) {
  Rules rules;
  rules.double_up("a", 20);
  const MergeTable table(rules.merges);
  const double at_8k = steps_per_byte(rules, table, repeated("a", 1 << 13));
  const double at_1m = steps_per_byte(rules, table, repeated("a", 1 << 20));
  EXPECT_LE(at_1m, at_8k * 1.05);
}

TEST(MergerCost, random_text_under_random_rules_takes_at_most_40_steps_per_byte) {
  std::mt19937 random(7);
  for (int round = 0; round < 8; ++round) {
    const int letters = 1 + round % 4;
    const Rules rules = random_rules(random, letters, 300, round >= 4);
    const MergeTable table(rules.merges);
    const std::string piece = random_letters(random, letters, 200'000);
    EXPECT_LE(steps_per_byte(rules, table, piece), kStepsPerByteMax) << "round " << round;
  }
}

}  // namespace
}  // namespace yoke::engine
