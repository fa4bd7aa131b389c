// The lines of design.md 5 that the engine can spoil, on nano's real kernels: an answer's bytes
// depend on its request alone.
#include <gtest/gtest.h>

#include "kernels/testing/random.h"
#include "tests/exactness/model_loop.h"

namespace yoke::tests {
namespace {

class EngineExactness : public ::testing::Test {
 protected:
  /// Each request by itself, its prompt in one piece.
  static const Outcome& alone() {
    static const Outcome outcome = [] {
      NanoLoop nano({.slots = 1, .rows = 512});
      Outcome all;
      for (const engine::GenerationRequest& request : mixed_requests(nano)) {
        const Outcome one = nano.run({request});
        all.outputs.push_back(one.outputs[0]);
        all.rows_computed += one.rows_computed;
      }
      return all;
    }();
    return outcome;
  }

  static Outcome together(const LoopShape& shape) {
    NanoLoop nano(shape);
    return nano.run(mixed_requests(nano));
  }
};

TEST_F(EngineExactness, answers_are_not_trivial) {
  size_t tokens = 0;
  for (const auto& output : alone().outputs) tokens += output.size();
  EXPECT_GT(tokens, is_short() ? 30u : 200u);
}

TEST_F(EngineExactness, batched_equals_alone) {
  EXPECT_TRUE(same_answers(together({.slots = 6, .rows = 512}).outputs, alone().outputs));
}

TEST_F(EngineExactness, prompts_in_small_chunks_equal_whole_ones) {
  EXPECT_TRUE(same_answers(together({.slots = 1, .rows = 7}).outputs, alone().outputs));
  EXPECT_TRUE(same_answers(together({.slots = 4, .rows = 13}).outputs, alone().outputs));
}

TEST_F(EngineExactness, preempted_equals_undisturbed) {
  if (is_short()) GTEST_SKIP() << "the short answers leave nothing to preempt; traffic_test does";
  const Outcome outcome = together({.slots = 6, .rows = 32, .blocks = 7});
  EXPECT_TRUE(same_answers(outcome.outputs, alone().outputs));
  EXPECT_GT(outcome.rows_computed, alone().rows_computed) << "nobody was preempted";
}

TEST_F(EngineExactness, others_that_come_late_or_are_cancelled_change_nothing) {
  NanoLoop nano({.slots = 3, .rows = 24});
  const std::vector<engine::GenerationRequest> requests = mixed_requests(nano);
  // Each twice: one that stays and one that is cancelled while it waits, reads or writes.
  std::vector<engine::GenerationRequest> all = requests;
  all.insert(all.end(), requests.begin(), requests.end());
  kernels::testing::Random random(31);
  SCOPED_TRACE(random.trace());
  Arrivals arrivals;
  for (size_t i = 0; i < all.size(); ++i) {
    arrivals.at.push_back(static_cast<uint64_t>(random.below(40)));
    arrivals.cancelled_at.push_back(
        i < requests.size() ? Arrivals::kNever
                            : arrivals.at[i] + 1 + static_cast<uint64_t>(random.below(60)));
  }
  Outcome outcome = nano.run(all, arrivals);
  outcome.outputs.resize(requests.size());
  EXPECT_TRUE(same_answers(outcome.outputs, alone().outputs));
}

TEST_F(EngineExactness, threads_change_nothing) {
  EXPECT_TRUE(
      same_answers(together({.slots = 6, .rows = 64, .threads = 1}).outputs, alone().outputs));
  EXPECT_TRUE(
      same_answers(together({.slots = 6, .rows = 64, .threads = 3}).outputs, alone().outputs));
}

TEST_F(EngineExactness, the_second_run_equals_the_first) {
  NanoLoop nano({.slots = 3, .rows = 64});
  const Outcome first = nano.run(mixed_requests(nano)), second = nano.run(mixed_requests(nano));
  EXPECT_TRUE(same_answers(second.outputs, first.outputs));
  EXPECT_EQ(first.steps, second.steps);
}

}  // namespace
}  // namespace yoke::tests
