// Prefix reuse as the scheduler decides it: what is resumed, where chunks end, what may be written.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "engine/scheduler/scheduler.h"

namespace yoke::engine {
namespace {

using Tokens = std::vector<int32_t>;
using Kind = SchedulerEvent::Kind;

SchedulerLimits limits_with_snapshots() {
  SchedulerLimits limits;
  limits.max_sequences = 3;
  limits.max_batched_tokens = 16;
  limits.max_waiting = 20;
  limits.max_model_len = 64;
  limits.block_tokens = 4;
  limits.num_blocks = 48;
  limits.max_snapshots = 4;
  limits.max_window = 2;
  return limits;
}

/// A scheduler and the tokens of its sequences. Generated tokens are 1000 and the position.
class Fixture {
 public:
  explicit Fixture(const SchedulerLimits& limits = limits_with_snapshots())
      : scheduler(limits,
                  [this](SequenceId id) { return std::span<const int32_t>(tokens.at(id)); }) {}

  SequenceId submit(const Tokens& prompt, std::vector<int32_t> snapshot_at,
                    int32_t max_tokens = 1) {
    const SequenceId id = *scheduler.submit(
        {static_cast<int32_t>(prompt.size()), max_tokens, "", std::move(snapshot_at)}, {});
    tokens[id] = prompt;
    return id;
  }

  std::vector<PlannedRows> step(SampleOutcome outcome = SampleOutcome::token) {
    const auto plan = scheduler.plan({});
    const std::vector<PlannedRows> rows(plan.begin(), plan.end());
    std::vector<SampleOutcome> outcomes;
    for (const PlannedRows& r : rows) {
      if (!r.samples) continue;
      outcomes.push_back(outcome);
      if (outcome != SampleOutcome::failed)
        tokens.at(r.id).push_back(1000 + static_cast<int32_t>(tokens.at(r.id).size()));
    }
    if (!rows.empty()) scheduler.commit(outcomes);
    for (const SchedulerEvent& event : scheduler.take_events()) {
      if (event.kind == Kind::started) cached[event.id] = event.cached_tokens;
      if (event.kind == Kind::ended) reasons[event.id] = event.reason;
    }
    return rows;
  }

  void run_until_idle() {
    while (!scheduler.idle()) step();
  }

  std::map<SequenceId, Tokens> tokens;
  std::map<SequenceId, int32_t> cached;
  std::map<SequenceId, EndReason> reasons;
  Scheduler scheduler;
};

Tokens letters(const std::string& text) {
  return {text.begin(), text.end()};
}

TEST(SchedulerPrefix, a_prompt_is_resumed_where_a_snapshot_was_taken) {
  Fixture fixture;
  const SequenceId first = fixture.submit(letters("system.hello"), {7});
  auto plan = fixture.step();
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].rows, 7) << "the chunk ends at the snapshot: more follows than a window holds";
  EXPECT_TRUE(plan[0].save.has_value());
  fixture.run_until_idle();
  EXPECT_EQ(fixture.cached[first], 0);

  const SequenceId second = fixture.submit(letters("system.again"), {7});
  plan = fixture.step();
  EXPECT_EQ(plan[0].start, 7);
  EXPECT_EQ(plan[0].rows, 5);
  EXPECT_TRUE(plan[0].restore.has_value());
  EXPECT_FALSE(plan[0].save.has_value()) << "it is there";
  EXPECT_EQ(fixture.cached[second], 7);
  EXPECT_TRUE(fixture.scheduler.idle());
  EXPECT_EQ(fixture.scheduler.blocks().used_blocks(), 1) << "of 7 tokens one full block";
}

TEST(SchedulerPrefix, what_follows_a_snapshot_runs_in_the_same_step_if_a_window_holds_it) {
  Fixture fixture;
  fixture.submit(letters("question<>"), {8}, 3);
  auto plan = fixture.step();
  EXPECT_EQ(plan[0].rows, 10);
  EXPECT_EQ(plan[0].commit, 8);
  EXPECT_TRUE(plan[0].samples);
  EXPECT_TRUE(plan[0].save.has_value());
  plan = fixture.step();
  EXPECT_EQ(plan[0].start, 10);
  EXPECT_EQ(plan[0].replay, 2);
  EXPECT_EQ(plan[0].commit, 1);
  plan = fixture.step();
  EXPECT_EQ(plan[0].replay, 0);
}

TEST(SchedulerPrefix, a_sequence_that_ends_leaves_its_snapshots) {
  Fixture fixture;
  const SequenceId cancelled = fixture.submit(letters("a long question of some kind"), {12});
  fixture.step();
  fixture.scheduler.cancel(cancelled);
  const SequenceId next = fixture.submit(letters("a long questionnaire"), {});
  fixture.run_until_idle();
  EXPECT_EQ(fixture.cached[next], 12);
}

TEST(SchedulerPrefix, a_snapshot_that_was_not_reached_is_not_there) {
  Fixture fixture;
  const SequenceId cancelled = fixture.submit(letters("0123456789abcdefghij0123456789"), {24});
  fixture.step();  // 16 rows
  fixture.scheduler.cancel(cancelled);
  const SequenceId next = fixture.submit(letters("0123456789abcdefghij0123456789"), {24});
  EXPECT_EQ(fixture.step()[0].start, 0);
  fixture.run_until_idle();
  EXPECT_EQ(fixture.cached[next], 0);
}

TEST(SchedulerPrefix, what_a_failed_sequence_left_is_dropped) {
  Fixture fixture;
  fixture.submit(letters("question is"), {8});
  fixture.step();
  fixture.step(SampleOutcome::failed);
  EXPECT_EQ(fixture.scheduler.prefixes().snapshots(), 0);
  fixture.submit(letters("question<>"), {8});
  fixture.step(SampleOutcome::failed);  // in the step of the snapshot
  EXPECT_EQ(fixture.scheduler.prefixes().snapshots(), 0);
  EXPECT_EQ(fixture.scheduler.blocks().used_blocks(), 0);
}

TEST(SchedulerPrefix, who_fails_on_a_kept_prefix_is_computed_again_without_it) {
  Fixture fixture;
  fixture.submit(letters("question<>"), {8});
  fixture.run_until_idle();
  const SequenceId id = fixture.submit(letters("question[]"), {8});
  EXPECT_EQ(fixture.step(SampleOutcome::failed)[0].start, 8);
  EXPECT_FALSE(fixture.reasons.contains(id));
  EXPECT_EQ(fixture.scheduler.prefixes().snapshots(), 0);
  EXPECT_EQ(fixture.step()[0].start, 0);
  EXPECT_EQ(fixture.reasons.at(id), EndReason::length);
  // Twice is the model's fault.
  const SequenceId again = fixture.submit(letters("question{}"), {8});
  fixture.step(SampleOutcome::failed);
  fixture.step(SampleOutcome::failed);
  EXPECT_EQ(fixture.reasons.at(again), EndReason::failed);
}

TEST(SchedulerPrefix, kept_prefixes_give_way_before_sequences_do) {
  SchedulerLimits limits = limits_with_snapshots();
  limits.max_sequences = 1;
  limits.num_blocks = 16;  // one whole sequence
  Fixture fixture(limits);
  for (const char* prompt : {"aaaaaaaaaaaaaaaaaaaaaaaaa.", "bbbbbbbbbbbbbbbbbbbbbbbbb."}) {
    fixture.submit(letters(prompt), {25});
    fixture.run_until_idle();
  }
  EXPECT_EQ(fixture.scheduler.blocks().idle_blocks(), 12);
  const SequenceId big = fixture.submit(Tokens(50, 7), {}, 10);
  fixture.run_until_idle();
  EXPECT_EQ(fixture.reasons.at(big), EndReason::length);
  EXPECT_EQ(fixture.tokens.at(big).size(), 60u);
  EXPECT_LT(fixture.scheduler.prefixes().snapshots(), 2);
}

TEST(SchedulerPrefix, a_preempted_sequence_goes_on_from_its_own_snapshot) {
  SchedulerLimits limits = limits_with_snapshots();
  limits.max_sequences = 2;
  limits.max_model_len = 32;
  limits.num_blocks = 9;
  Fixture fixture(limits);
  fixture.submit(Tokens(12, 1), {}, 20);
  const SequenceId recent = fixture.submit(Tokens(9, 2), {8}, 20);
  bool preempted = false, resumed = false;
  while (!fixture.scheduler.idle()) {
    for (const PlannedRows& rows : fixture.step()) {
      if (rows.id != recent) continue;
      if (preempted && !resumed) {
        resumed = true;
        EXPECT_EQ(rows.start, 8);
      }
    }
    preempted |= fixture.scheduler.counts().waiting > 0;
  }
  EXPECT_TRUE(resumed);
  EXPECT_EQ(fixture.cached[recent], 0) << "told once, when it started";
}

TEST(SchedulerPrefix, snapshots_do_not_take_the_oldest_prompts_share_of_the_time) {
  // A step costs 30 and each row 0.3, as where reading the weights dominates; and rows alone count.
  for (const auto& [step_cost, row_cost] : {std::pair{30.0, 0.3}, {0.0, 1.0}}) {
    SchedulerLimits limits = limits_with_snapshots();
    limits.max_sequences = 12;
    limits.max_batched_tokens = 64;
    limits.max_waiting = 500;
    limits.max_model_len = 20000;
    limits.num_blocks = 20000;
    Fixture fixture(limits);
    std::set<SequenceId> decoding;
    for (int i = 0; i < 6; ++i) decoding.insert(fixture.submit({1, i}, {}, 9000));
    fixture.step();
    Tokens prompt(8000);
    for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i % 997);
    const SequenceId oldest = fixture.submit(prompt, {1000, 7990});
    std::mt19937_64 random(9);
    double time = 0, share = 0;
    while (!fixture.reasons.contains(oldest)) {
      if (random() % 2 == 0) {  // keeps the other half of the budget busy, and ends chunks
        Tokens other(30);
        for (int32_t& t : other) t = static_cast<int32_t>(random() % 1000);
        fixture.submit(other, {10, 20}, 2);
      }
      double rows_in_all = 0, mine = 0;
      size_t decoded = 0;
      for (const PlannedRows& rows : fixture.step()) {
        rows_in_all += rows.rows;
        if (rows.id == oldest) mine = rows.rows;
        decoded += decoding.contains(rows.id);
      }
      ASSERT_LE(rows_in_all, limits.max_batched_tokens);
      ASSERT_EQ(decoded, decoding.size()) << "every running sequence is in every step";
      const double cost = step_cost + rows_in_all * row_cost;
      time += cost;
      share += cost * mine / rows_in_all;
    }
    EXPECT_GE(share / time, 0.2);
  }
}

/// Random conversations in small pools: every promise of prefix_cache.h and scheduler.h, with the
/// contents of blocks and snapshots simulated.
class Conversations {
 public:
  Conversations(const SchedulerLimits& limits, uint64_t seed)
      : limits_(limits),
        random_(seed),
        scheduler_(limits,
                   [this](SequenceId id) { return std::span<const int32_t>(live_.at(id).tokens); }),
        block_contents_(static_cast<size_t>(limits.num_blocks)),
        snapshots_(static_cast<size_t>(limits.max_snapshots)) {}

  void play(int turns) {
    for (int turn = 0, steps = 0; turn < turns || !scheduler_.idle(); ++steps) {
      ASSERT_LT(steps, 300 * turns) << "somebody starves";
      if (turn < turns && below(3) == 0) {
        ++turn;
        arrive();
      }
      if (below(40) == 0 && !live_.empty()) {
        const auto victim = std::next(live_.begin(), below(static_cast<int32_t>(live_.size())));
        scheduler_.cancel(victim->first);
        read_events();
      }
      run_step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    const BlockPool& blocks = scheduler_.blocks();
    EXPECT_EQ(blocks.used_blocks(), blocks.idle_blocks()) << "references balance";
    if (limits_.max_snapshots == 0) {
      EXPECT_EQ(blocks.used_blocks(), 0);
    }
  }

  int64_t cached = 0;
  int preempted = 0;

 private:
  struct Live {
    Tokens tokens;
    int32_t computed = 0, window = 0;
    size_t conversation = 0;
  };

  int32_t below(int32_t n) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(n)); }

  void arrive() {
    // A turn goes on from the history of a conversation, or from an earlier point of it.
    if (histories_.size() < 4) histories_.push_back(Tokens(static_cast<size_t>(5 + below(8)), 1));
    const auto which = static_cast<size_t>(below(static_cast<int32_t>(histories_.size())));
    Tokens prompt = histories_[which];
    if (below(5) == 0)
      prompt.resize(static_cast<size_t>(1 + below(static_cast<int32_t>(prompt.size()))));
    if (static_cast<int32_t>(prompt.size()) > limits_.max_model_len / 2) prompt.resize(6);
    const auto history = static_cast<int32_t>(prompt.size());
    for (int32_t i = 1 + below(12); i > 0; --i) prompt.push_back(below(3));
    const auto size = static_cast<int32_t>(prompt.size());
    std::set<int32_t> at = {std::min(history, size - 1), std::max(1, size - 1 - below(4))};
    histories_[which] = prompt;
    const auto id = scheduler_.submit({size,
                                       1 + below(10),
                                       std::string(1, static_cast<char>('a' + which)),
                                       {at.begin(), at.end()}},
                                      {});
    if (!id.ok()) return;
    live_[*id] = {prompt, 0, 0, which};
  }

  void run_step() {
    const auto plan = scheduler_.plan({});
    read_events();
    std::vector<SampleOutcome> outcomes;
    std::vector<std::pair<SnapshotId, Tokens>> saved;
    std::set<SnapshotId> targets;
    for (const PlannedRows& rows : plan) {
      Live& live = live_.at(rows.id);
      if (rows.restore) restore(rows, live);
      ASSERT_EQ(rows.start, live.computed);
      ASSERT_EQ(rows.replay, rows.restore ? 0 : live.window);
      ASSERT_GE(rows.commit, 0);
      ASSERT_LE(rows.rows - rows.commit, limits_.max_window);
      write(rows, live);
      live.computed += rows.rows;
      live.window = rows.rows - rows.commit;
      if (rows.save) {
        ASSERT_TRUE(targets.insert(*rows.save).second);
        saved.emplace_back(*rows.save, Tokens(live.tokens.begin(),
                                              live.tokens.begin() + rows.start + rows.commit));
      }
    }
    ASSERT_EQ(plan.empty(), live_.empty());
    for (auto& [id, tokens] : saved) snapshots_[static_cast<size_t>(id)] = std::move(tokens);
    for (const PlannedRows& rows : plan) {
      if (!rows.samples) continue;
      const bool fails = below(30) == 0;
      outcomes.push_back(fails            ? SampleOutcome::failed
                         : below(30) == 0 ? SampleOutcome::stop_token
                                          : SampleOutcome::token);
      if (!fails) live_.at(rows.id).tokens.push_back(below(3));
    }
    if (!plan.empty()) scheduler_.commit(outcomes);
    read_events();
  }

  /// Snapshot and shared blocks hold the very tokens of this sequence.
  void restore(const PlannedRows& rows, Live& live) {
    const Tokens& kept = snapshots_[static_cast<size_t>(*rows.restore)];
    ASSERT_EQ(live.computed, 0);
    ASSERT_EQ(static_cast<int32_t>(kept.size()), rows.start);
    ASSERT_LT(kept.size(), live.tokens.size());
    ASSERT_TRUE(std::equal(kept.begin(), kept.end(), live.tokens.begin()));
    const int32_t last = (rows.start - 1) / limits_.block_tokens;
    for (int32_t i = 0; i < last; ++i) {
      const auto from = kept.begin() + i * limits_.block_tokens;
      ASSERT_EQ(contents(rows, i), Tokens(from, from + limits_.block_tokens));
    }
    contents(rows, last).assign(kept.begin() + last * limits_.block_tokens, kept.end());
    ASSERT_EQ(scheduler_.blocks().references(rows.blocks[static_cast<size_t>(last)]), 1);
    live.computed = rows.start;
  }

  void write(const PlannedRows& rows, const Live& live) {
    for (int32_t position = rows.start; position < rows.start + rows.rows; ++position) {
      const int32_t index = position / limits_.block_tokens;
      ASSERT_EQ(scheduler_.blocks().references(rows.blocks[static_cast<size_t>(index)]), 1)
          << "a block is written that somebody else may read";
      Tokens& block = contents(rows, index);
      block.resize(static_cast<size_t>(position % limits_.block_tokens));
      block.push_back(live.tokens[static_cast<size_t>(position)]);
    }
  }

  Tokens& contents(const PlannedRows& rows, int32_t index) {
    return block_contents_[static_cast<size_t>(rows.blocks[static_cast<size_t>(index)])];
  }

  void read_events() {
    for (const SchedulerEvent& event : scheduler_.take_events()) {
      Live& live = live_.at(event.id);
      switch (event.kind) {
        case Kind::started:
          cached += event.cached_tokens;
          break;
        case Kind::preempted:
          live.computed = live.window = 0;
          ++preempted;
          break;
        case Kind::ended:
          if (event.reason == EndReason::stop || event.reason == EndReason::length)
            histories_[live.conversation] = live.tokens;
          live_.erase(event.id);
          break;
      }
    }
  }

  SchedulerLimits limits_;
  std::mt19937_64 random_;
  std::map<SequenceId, Live> live_;
  Scheduler scheduler_;
  std::vector<Tokens> histories_;
  std::vector<Tokens> block_contents_;  // [blocks]
  std::vector<Tokens> snapshots_;       // [max_snapshots]
};

TEST(SchedulerPrefixProperty, random_conversations_in_small_pools) {
  int64_t cached = 0;
  int preempted = 0;
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return static_cast<int32_t>(random() % n); };
    SchedulerLimits limits;
    limits.max_sequences = 1 + below(5);
    limits.max_batched_tokens = 2 * limits.max_sequences + below(30);
    limits.max_waiting = below(10);
    limits.block_tokens = 1 + below(8);
    limits.max_model_len = 60 + below(60);
    limits.num_blocks = limits.max_model_len / limits.block_tokens + 1 + below(30);
    limits.max_snapshots = below(8);
    limits.max_window = below(4);
    Conversations conversations(limits, seed);
    conversations.play(120);
    if (HasFatalFailure()) return;
    cached += conversations.cached;
    preempted += conversations.preempted;
  }
  EXPECT_GT(cached, 10000) << "the traffic must meet what it is meant to test";
  EXPECT_GT(preempted, 100);
}

}  // namespace
}  // namespace yoke::engine
