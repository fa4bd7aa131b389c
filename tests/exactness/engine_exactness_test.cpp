// The lines of design.md 5 that the engine can spoil, on nano's real kernels: an answer's bytes
// depend on its request alone.
#include <gtest/gtest.h>

#include "tests/exactness/nano_loop.h"

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
  EXPECT_GT(tokens, 200u);
}

TEST_F(EngineExactness, batched_equals_alone) {
  EXPECT_EQ(together({.slots = 6, .rows = 512}).outputs, alone().outputs);
}

TEST_F(EngineExactness, prompts_in_small_chunks_equal_whole_ones) {
  EXPECT_EQ(together({.slots = 1, .rows = 7}).outputs, alone().outputs);
  EXPECT_EQ(together({.slots = 4, .rows = 13}).outputs, alone().outputs);
}

TEST_F(EngineExactness, preempted_equals_undisturbed) {
  const Outcome outcome = together({.slots = 6, .rows = 32, .blocks = 7});
  EXPECT_EQ(outcome.outputs, alone().outputs);
  EXPECT_GT(outcome.rows_computed, alone().rows_computed) << "nobody was preempted";
}

TEST_F(EngineExactness, threads_change_nothing) {
  EXPECT_EQ(together({.slots = 6, .rows = 64, .threads = 1}).outputs, alone().outputs);
  EXPECT_EQ(together({.slots = 6, .rows = 64, .threads = 3}).outputs, alone().outputs);
}

TEST_F(EngineExactness, the_second_run_equals_the_first) {
  NanoLoop nano({.slots = 3, .rows = 64});
  const Outcome first = nano.run(mixed_requests(nano)), second = nano.run(mixed_requests(nano));
  EXPECT_EQ(first.outputs, second.outputs);
  EXPECT_EQ(first.steps, second.steps);
}

}  // namespace
}  // namespace yoke::tests
