#include "engine/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

namespace yoke::engine {
namespace {

using std::chrono::seconds;
using Kind = SchedulerEvent::Kind;

const config::TimePoint kStart{};

SchedulerLimits small_limits() {
  SchedulerLimits limits;
  limits.max_sequences = 3;
  limits.max_batched_tokens = 16;
  limits.max_waiting = 8;
  limits.max_model_len = 64;
  limits.block_tokens = 4;
  limits.num_blocks = 48;  // enough for three whole sequences
  return limits;
}

SequenceId submit(Scheduler& scheduler, int32_t prompt, int32_t max_tokens,
                  const std::string& label = "") {
  return *scheduler.submit({prompt, max_tokens, label}, kStart);
}

/// Runs one step in which every sampled row gives an ordinary token.
std::vector<PlannedRows> step(Scheduler& scheduler) {
  const auto plan = scheduler.plan(kStart);
  const std::vector<PlannedRows> rows(plan.begin(), plan.end());
  const auto sampled = std::ranges::count_if(rows, [](const auto& r) { return r.samples; });
  if (!rows.empty())
    scheduler.commit(
        std::vector<SampleOutcome>(static_cast<size_t>(sampled), SampleOutcome::token));
  return rows;
}

/// Rows of `id` in a plan.
int32_t rows_of(const std::vector<PlannedRows>& plan, SequenceId id) {
  for (const PlannedRows& rows : plan) {
    if (rows.id == id) return rows.rows;
  }
  return 0;
}

std::vector<SequenceId> ended(Scheduler& scheduler, EndReason reason) {
  std::vector<SequenceId> ids;
  for (const SchedulerEvent& event : scheduler.take_events()) {
    if (event.kind == Kind::ended && event.reason == reason) ids.push_back(event.id);
  }
  return ids;
}

TEST(Scheduler, one_sequence_from_prompt_to_length) {
  Scheduler scheduler(small_limits());
  const SequenceId id = submit(scheduler, 5, 3);
  auto plan = step(scheduler);
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].start, 0);
  EXPECT_EQ(plan[0].rows, 5);
  EXPECT_TRUE(plan[0].samples);
  plan = step(scheduler);
  EXPECT_EQ(plan[0].start, 5);
  EXPECT_EQ(plan[0].rows, 1);
  EXPECT_FALSE(scheduler.idle());
  plan = step(scheduler);
  EXPECT_EQ(plan[0].start, 6);
  EXPECT_TRUE(scheduler.idle());
  const auto events = scheduler.take_events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, Kind::started);
  EXPECT_EQ(events[1].kind, Kind::ended);
  EXPECT_EQ(events[1].reason, EndReason::length);
  EXPECT_EQ(events[1].id, id);
  EXPECT_EQ(scheduler.blocks().used_blocks(), 0);
  EXPECT_TRUE(scheduler.plan(kStart).empty());
}

TEST(Scheduler, a_long_prompt_runs_in_chunks_and_samples_once) {
  Scheduler scheduler(small_limits());
  submit(scheduler, 40, 1);
  for (const auto& [start, rows, samples] :
       {std::tuple{0, 16, false}, std::tuple{16, 16, false}, std::tuple{32, 8, true}}) {
    const auto plan = step(scheduler);
    ASSERT_EQ(plan.size(), 1u);
    EXPECT_EQ(plan[0].start, start);
    EXPECT_EQ(plan[0].rows, rows);
    EXPECT_EQ(plan[0].samples, samples);
  }
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, running_sequences_are_in_every_step_of_a_long_prompt) {
  Scheduler scheduler(small_limits());
  const SequenceId a = submit(scheduler, 2, 30), b = submit(scheduler, 2, 30);
  step(scheduler);
  submit(scheduler, 60, 1);
  for (int i = 0; i < 4; ++i) {
    const auto plan = step(scheduler);
    EXPECT_EQ(rows_of(plan, a), 1);
    EXPECT_EQ(rows_of(plan, b), 1);
    EXPECT_EQ(plan.size(), 3u);
  }
}

TEST(Scheduler, a_short_prompt_passes_a_long_one_but_the_oldest_keeps_half) {
  Scheduler scheduler(small_limits());
  const SequenceId old = submit(scheduler, 60, 1);
  step(scheduler);
  const SequenceId longer = submit(scheduler, 20, 1), shorter = submit(scheduler, 3, 1);
  const auto plan = step(scheduler);
  EXPECT_EQ(rows_of(plan, old), 8);
  EXPECT_EQ(rows_of(plan, shorter), 3);
  EXPECT_EQ(rows_of(plan, longer), 5);
}

TEST(Scheduler, rows_that_nobody_else_needs_go_to_the_oldest) {
  Scheduler scheduler(small_limits());
  const SequenceId old = submit(scheduler, 60, 1), other = submit(scheduler, 3, 1);
  const auto plan = step(scheduler);
  EXPECT_EQ(rows_of(plan, other), 3);
  EXPECT_EQ(rows_of(plan, old), 13);
}

TEST(Scheduler, free_slots_go_round_robin_over_key_labels) {
  SchedulerLimits limits = small_limits();
  limits.max_sequences = 1;
  Scheduler scheduler(limits);
  std::vector<SequenceId> order;
  const SequenceId a1 = submit(scheduler, 1, 1, "a"), a2 = submit(scheduler, 1, 1, "a"),
                   a3 = submit(scheduler, 1, 1, "a"), b1 = submit(scheduler, 1, 1, "b"),
                   c1 = submit(scheduler, 1, 1, "c"), b2 = submit(scheduler, 1, 1, "b");
  while (!scheduler.idle()) order.push_back(step(scheduler)[0].id);
  EXPECT_EQ(order, (std::vector{a1, b1, c1, a2, b2, a3}));
}

TEST(Scheduler, the_queue_is_bounded) {
  SchedulerLimits limits = small_limits();
  limits.max_waiting = 2;
  Scheduler scheduler(limits);
  for (int i = 0; i < 5; ++i) submit(scheduler, 1, 5);
  const auto refused = scheduler.submit({1, 5, ""}, kStart);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, config::ErrorKind::exhausted);
  step(scheduler);
  scheduler.cancel(SequenceId{0});
  EXPECT_TRUE(scheduler.submit({1, 5, ""}, kStart).ok());
}

TEST(Scheduler, refuses_lengths_that_cannot_run) {
  Scheduler scheduler(small_limits());
  for (const SequenceSpec& spec : {SequenceSpec{0, 1, ""}, SequenceSpec{1, 0, ""},
                                   SequenceSpec{64, 1, ""}, SequenceSpec{-5, 1, ""}}) {
    const auto refused = scheduler.submit(spec, kStart);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().kind, config::ErrorKind::invalid_input);
  }
  EXPECT_TRUE(scheduler.idle());
}

TEST(Scheduler, the_context_limits_the_output) {
  Scheduler scheduler(small_limits());
  submit(scheduler, 62, std::numeric_limits<int32_t>::max());
  int generated = 0;
  while (!scheduler.idle()) {
    for (const PlannedRows& rows : step(scheduler)) generated += rows.samples;
  }
  EXPECT_EQ(generated, 2);
}

TEST(Scheduler, cancel_frees_at_every_stage) {
  Scheduler scheduler(small_limits());
  const SequenceId decoding = submit(scheduler, 2, 30);
  step(scheduler);
  const SequenceId prefilling = submit(scheduler, 60, 5);
  step(scheduler);
  submit(scheduler, 60, 5);
  const SequenceId waiting = submit(scheduler, 4, 5);
  for (const SequenceId id : {waiting, prefilling, decoding}) {
    EXPECT_TRUE(scheduler.cancel(id));
    EXPECT_FALSE(scheduler.cancel(id)) << "a second time it is unknown";
  }
  EXPECT_EQ(ended(scheduler, EndReason::cancelled), (std::vector{waiting, prefilling, decoding}));
  EXPECT_EQ(scheduler.blocks().used_blocks(), 0);
  EXPECT_EQ(scheduler.counts().waiting, 1);
}

TEST(Scheduler, stop_token_and_failure_end_a_sequence) {
  Scheduler scheduler(small_limits());
  const SequenceId a = submit(scheduler, 2, 30), b = submit(scheduler, 2, 30),
                   c = submit(scheduler, 2, 30);
  ASSERT_EQ(scheduler.plan(kStart).size(), 3u);
  scheduler.commit(
      std::vector{SampleOutcome::stop_token, SampleOutcome::failed, SampleOutcome::token});
  std::vector<std::pair<SequenceId, EndReason>> ends;
  for (const SchedulerEvent& event : scheduler.take_events()) {
    if (event.kind == Kind::ended) ends.emplace_back(event.id, event.reason);
  }
  EXPECT_EQ(ends, (std::vector<std::pair<SequenceId, EndReason>>{{a, EndReason::stop},
                                                                 {b, EndReason::failed}}));
  EXPECT_EQ(scheduler.counts().running, 1);
  EXPECT_EQ(scheduler.plan(kStart)[0].id, c);
}

TEST(Scheduler, a_stop_token_at_the_limit_is_a_stop) {
  Scheduler scheduler(small_limits());
  submit(scheduler, 2, 1);
  static_cast<void>(scheduler.plan(kStart));
  scheduler.commit(std::vector{SampleOutcome::stop_token});
  EXPECT_EQ(ended(scheduler, EndReason::stop).size(), 1u);
}

TEST(Scheduler, the_time_limit_ends_running_and_waiting_sequences) {
  SchedulerLimits limits = small_limits();
  limits.max_sequences = 1;
  limits.time_limit = seconds(10);
  Scheduler scheduler(limits);
  const SequenceId running = submit(scheduler, 2, 30), waiting = submit(scheduler, 2, 30);
  const SequenceId later = *scheduler.submit({2, 30, ""}, kStart + seconds(5));
  step(scheduler);
  const auto plan = scheduler.plan(kStart + seconds(10));
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].id, later);
  EXPECT_EQ(ended(scheduler, EndReason::expired), (std::vector{running, waiting}));
}

TEST(Scheduler, the_newest_gives_its_blocks_back_and_starts_again) {
  SchedulerLimits limits = small_limits();
  limits.max_sequences = 2;
  limits.max_model_len = 32;
  limits.num_blocks = 8;  // one whole sequence
  Scheduler scheduler(limits);
  const SequenceId old = submit(scheduler, 12, 20), recent = submit(scheduler, 8, 20);
  int32_t recent_tokens = 8;
  bool preempted = false;
  for (int i = 0; i < 100 && !preempted; ++i) {
    const auto plan = step(scheduler);
    EXPECT_GT(rows_of(plan, old), 0) << "the oldest always runs";
    recent_tokens += rows_of(plan, recent) > 0 ? 1 : 0;
    for (const SchedulerEvent& event : scheduler.take_events()) {
      if (event.kind != Kind::preempted) continue;
      EXPECT_EQ(event.id, recent);
      preempted = true;
    }
  }
  ASSERT_TRUE(preempted);
  ASSERT_GT(recent_tokens, 8);
  // A newcomer does not overtake it.
  const SequenceId newcomer = submit(scheduler, 1, 1);
  bool resumed = false;
  while (!scheduler.idle()) {
    const auto plan = step(scheduler);
    for (const PlannedRows& rows : plan) {
      if (rows.id == newcomer) {
        EXPECT_TRUE(resumed);
      }
      if (rows.id != recent || resumed) continue;
      resumed = true;
      EXPECT_EQ(rows.start, 0) << "from the first token";
      EXPECT_EQ(rows.rows, std::min(recent_tokens, 15)) << "prompt and output alike";
    }
  }
  EXPECT_TRUE(resumed);
}

TEST(Scheduler, preempted_sequences_end_like_any_other) {
  SchedulerLimits limits = small_limits();
  limits.max_sequences = 2;
  limits.max_model_len = 32;
  limits.num_blocks = 8;
  Scheduler scheduler(limits);
  submit(scheduler, 12, 20);
  const SequenceId recent = submit(scheduler, 12, 20);
  while (scheduler.counts().waiting == 0) step(scheduler);
  EXPECT_TRUE(scheduler.cancel(recent));
  EXPECT_EQ(ended(scheduler, EndReason::cancelled), (std::vector{recent}));
  while (!scheduler.idle()) step(scheduler);
  EXPECT_EQ(scheduler.blocks().used_blocks(), 0);
}

TEST(Scheduler, contradictory_limits_are_named) {
  const auto message = [](auto change) {
    SchedulerLimits limits;
    change(limits);
    const auto result = check_limits(limits);
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_EQ(message([](auto&) {}), "");
  EXPECT_EQ(message([](auto& l) { l.max_sequences = 0; }), "max_num_seqs: want at least 1, got 0");
  EXPECT_NE(message([](auto& l) { l.max_batched_tokens = 7; }).find("want at least 8, got 7"),
            std::string::npos);
  EXPECT_NE(message([](auto& l) { l.num_blocks = 1; }).find("want at least 8192, got 64"),
            std::string::npos);
}

/// Plays random traffic and checks every promise of the header after every step, with books of its
/// own.
class Traffic {
 public:
  Traffic(const SchedulerLimits& limits, uint64_t seed)
      : limits_(limits), scheduler_(limits), random_(seed) {}

  void play(int arrivals) {
    int steps = 0;
    for (int arrived = 0; arrived < arrivals || !scheduler_.idle(); ++steps) {
      ASSERT_LT(steps, 200 * arrivals) << "somebody starves";
      while (arrived < arrivals && chance(0.3)) {
        ++arrived;
        arrive();
      }
      if (chance(0.02)) cancel_one();
      now_ += std::chrono::milliseconds(random_() % 100);
      run_step();
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(scheduler_.blocks().used_blocks(), 0);
    EXPECT_TRUE(live_.empty());
    EXPECT_GT(ends_, 0);
  }

  int preemptions() const { return preemptions_; }

 private:
  struct Live {
    int32_t known;
    int32_t limit;
    int32_t computed = 0;
    bool started = false;
    config::TimePoint deadline;
  };

  bool chance(double p) { return static_cast<double>(random_() % 1000000) < p * 1e6; }

  void arrive() {
    SequenceSpec spec;
    spec.prompt_tokens =
        1 + static_cast<int32_t>(random_() % static_cast<uint64_t>(limits_.max_model_len - 1));
    if (chance(0.6)) spec.prompt_tokens = 1 + spec.prompt_tokens % 12;
    spec.max_tokens = 1 + static_cast<int32_t>(random_() % 60);
    spec.key_label = std::string(1, static_cast<char>('a' + random_() % 3));
    const auto id = scheduler_.submit(spec, now_);
    if (live_.size() >= static_cast<size_t>(limits_.max_sequences + limits_.max_waiting)) {
      ASSERT_FALSE(id.ok());
      return;
    }
    ASSERT_TRUE(id.ok());
    live_[*id] = {
        spec.prompt_tokens, std::min(spec.prompt_tokens + spec.max_tokens, limits_.max_model_len),
        0, false,
        limits_.time_limit.count() > 0 ? now_ + limits_.time_limit : config::TimePoint::max()};
  }

  void cancel_one() {
    if (live_.empty()) return;
    const auto it = std::next(live_.begin(), static_cast<std::ptrdiff_t>(random_() % live_.size()));
    const int32_t used = scheduler_.blocks().used_blocks();
    ASSERT_TRUE(scheduler_.cancel(it->first));
    ASSERT_LE(scheduler_.blocks().used_blocks(), used);
    cancelled_.insert(it->first);
  }

  void run_step() {
    const auto plan = scheduler_.plan(now_);
    read_events();
    check(plan);
    std::vector<SampleOutcome> outcomes;
    for (const PlannedRows& rows : plan) {
      Live& live = live_.at(rows.id);
      live.computed += rows.rows;
      if (!rows.samples) continue;
      ++live.known;
      outcomes.push_back(chance(0.03)   ? SampleOutcome::stop_token
                         : chance(0.01) ? SampleOutcome::failed
                                        : SampleOutcome::token);
    }
    if (!plan.empty()) scheduler_.commit(outcomes);
    read_events();
    for (const auto& [id, live] : live_)
      ASSERT_LT(live.known, live.limit) << "a full sequence must have ended";
  }

  void check(std::span<const PlannedRows> plan) {
    ASSERT_EQ(plan.empty(), live_.empty());
    int32_t rows_in_all = 0, oldest_prompt_rows = -1;
    bool oldest_prompt_is_done = false;
    std::set<int32_t> slots;
    std::set<BlockId> blocks;
    std::set<SequenceId> ids;
    for (const PlannedRows& rows : plan) {
      ASSERT_TRUE(live_.contains(rows.id));
      const Live& live = live_.at(rows.id);
      ASSERT_TRUE(ids.insert(rows.id).second);
      ASSERT_TRUE(ids.empty() || *ids.rbegin() == rows.id) << "plans are in age order";
      ASSERT_TRUE(slots.insert(rows.slot).second) << "two sequences share a slot";
      ASSERT_GE(rows.slot, 0);
      ASSERT_LT(rows.slot, limits_.max_sequences);
      ASSERT_EQ(rows.start, live.computed);
      ASSERT_GT(rows.rows, 0);
      ASSERT_LE(rows.start + rows.rows, live.known);
      ASSERT_EQ(rows.samples, rows.start + rows.rows == live.known);
      ASSERT_EQ(static_cast<int32_t>(rows.blocks.size()),
                (rows.start + rows.rows + limits_.block_tokens - 1) / limits_.block_tokens);
      for (const BlockId block : rows.blocks)
        ASSERT_TRUE(blocks.insert(block).second) << "two sequences share a block";
      rows_in_all += rows.rows;
      if (live.known - live.computed > 1 && oldest_prompt_rows < 0) {
        oldest_prompt_rows = rows.rows;
        oldest_prompt_is_done = rows.samples;
      }
    }
    ASSERT_LE(rows_in_all, limits_.max_batched_tokens);
    if (oldest_prompt_rows >= 0 && !oldest_prompt_is_done) {
      ASSERT_GE(4 * oldest_prompt_rows, rows_in_all) << "the oldest prompt gets a quarter";
    }
    for (const auto& [id, live] : live_) {
      // Whoever has begun and was not preempted runs in every step while it decodes.
      if (live.computed > 0 && live.known - live.computed == 1) {
        ASSERT_TRUE(ids.contains(id));
      }
    }
    const SchedulerCounts counts = scheduler_.counts();
    ASSERT_EQ(counts.running + counts.waiting, static_cast<int32_t>(live_.size()));
  }

  void read_events() {
    for (const SchedulerEvent& event : scheduler_.take_events()) {
      ASSERT_TRUE(live_.contains(event.id)) << "an event after the end";
      Live& live = live_.at(event.id);
      switch (event.kind) {
        case Kind::started:
          ASSERT_FALSE(live.started);
          live.started = true;
          break;
        case Kind::preempted:
          live.computed = 0;
          ++preemptions_;
          break;
        case Kind::ended:
          ASSERT_EQ(event.reason == EndReason::cancelled, cancelled_.contains(event.id));
          if (event.reason == EndReason::expired) {
            ASSERT_GE(now_, live.deadline);
          }
          if (event.reason == EndReason::length) {
            ASSERT_EQ(live.known, live.limit);
          }
          live_.erase(event.id);
          ++ends_;
          break;
      }
    }
  }

  SchedulerLimits limits_;
  Scheduler scheduler_;
  std::mt19937_64 random_;
  config::TimePoint now_ = kStart;
  std::map<SequenceId, Live> live_;
  std::set<SequenceId> cancelled_;
  int ends_ = 0;
  int preemptions_ = 0;
};

TEST(SchedulerProperty, random_traffic_keeps_every_promise) {
  int preemptions = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    SchedulerLimits limits;
    limits.max_sequences = 1 + static_cast<int32_t>(random() % 6);
    limits.max_batched_tokens = 2 * limits.max_sequences + static_cast<int32_t>(random() % 40);
    limits.max_waiting = static_cast<int32_t>(random() % 10);
    limits.block_tokens = 1 + static_cast<int32_t>(random() % 8);
    limits.max_model_len = 40 + static_cast<int32_t>(random() % 100);
    limits.num_blocks =
        limits.max_model_len / limits.block_tokens + 1 + static_cast<int32_t>(random() % 40);
    if (random() % 2 == 0) limits.time_limit = seconds(20);
    Traffic traffic(limits, seed);
    traffic.play(150);
    if (HasFatalFailure()) return;
    preemptions += traffic.preemptions();
  }
  EXPECT_GT(preemptions, 100) << "the traffic must meet what it is meant to test";
}

/// Time of a step in ms: what a step costs anyway, and what each row adds.
struct CostModel {
  double step;
  double decode_row;
  double prompt_row;
};

TEST(SchedulerProperty, the_oldest_prompt_gets_a_fifth_of_the_time_beside_any_load) {
  // A GB10-like machine (reading the weights dominates), a compute-bound one, and one on which rows
  // of decoding sequences cost more because of their long contexts.
  for (const CostModel& cost :
       {CostModel{30, 0.3, 0.3}, CostModel{0, 1, 1}, CostModel{5, 1.25, 1}}) {
    SchedulerLimits limits;
    limits.max_sequences = 32;
    limits.max_batched_tokens = 64;
    limits.max_waiting = 1000;
    limits.max_model_len = 100000;
    limits.num_blocks = 50000;
    Scheduler scheduler(limits);
    for (int i = 0; i < 31; ++i) submit(scheduler, 1, 90000);
    step(scheduler);
    const SequenceId prompt = submit(scheduler, 20000, 1);
    std::mt19937_64 random(5);
    double time = 0, share = 0;
    int32_t prompt_tokens_max = 0;
    while (scheduler.counts().prefilling > 0 || time == 0) {
      if (random() % 2 == 0) submit(scheduler, 30, 5);  // keeps the other half of the budget busy
      const auto plan = step(scheduler);
      double decode = 0, prompts = 0;
      for (const PlannedRows& rows : plan) (rows.rows == 1 ? decode : prompts) += rows.rows;
      prompt_tokens_max = std::max(prompt_tokens_max, static_cast<int32_t>(prompts));
      const double work = decode * cost.decode_row + prompts * cost.prompt_row;
      const double mine = rows_of(plan, prompt) * cost.prompt_row;
      time += cost.step + work;
      share += (cost.step + work) * mine / work;
      EXPECT_GE(decode, 31) << "every running sequence is in every step";
    }
    EXPECT_LE(prompt_tokens_max, limits.max_batched_tokens);
    EXPECT_GE(share / time, 0.2);
  }
}

TEST(SchedulerProperty, a_flood_from_one_key_does_not_delay_another) {
  SchedulerLimits limits = small_limits();
  limits.max_sequences = 1;
  limits.max_waiting = 1000;
  Scheduler scheduler(limits);
  for (int i = 0; i < 500; ++i) submit(scheduler, 3, 4, "flood");
  for (int i = 0; i < 10; ++i) step(scheduler);
  const SequenceId other = submit(scheduler, 3, 1, "other");
  int steps = 0;
  for (bool served = false; !served; ++steps) served = rows_of(step(scheduler), other) > 0;
  EXPECT_LE(steps, 5) << "at most the one that runs goes first";
}

}  // namespace
}  // namespace yoke::engine
