// The full `wide` model: all that traffic_test does on its short form, with the sizes that only
// 64 experts, two DSA layers and a vocabulary of 32,768 have. It takes minutes: the suite's name
// gives it the label `slow`. YOKE_SEED varies the traffic.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/exactness/targets.h"
#include "tests/exactness/traffic.h"

namespace yoke::tests {
namespace {

using kernels::SimdTarget;

uint64_t seed() {
  const char* text = std::getenv("YOKE_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

TEST(SlowWide, equals_serial_decoding_on_every_vector_target) {
  const TargetGuard guard;
  const Subject wide = Subject::wide({});
  SCOPED_TRACE("YOKE_SEED=" + std::to_string(seed()));
  // The first is sparse: beyond 260 tokens.
  const std::vector<Client> clients =
      random_clients(seed(), wide.config(), {.count = 5, .output_max = 16, .long_prompt = 270});
  for (const SimdTarget target : kernels::simd_targets()) {
    if (target == SimdTarget::scalar) continue;  // hours; the short form runs there
    kernels::set_simd_target(target);
    Truth truth = serial_decoding(wide, clients);
    for (const int threads : {1, 2, 3}) {
      kernels::ThreadPool pool(threads);
      const auto model = wide.load(traffic_options(wide, clients), pool);
      Knobs everything = kEverything;
      everything.slots = 4;
      everything.max_chunk = 40;
      const TrafficOutcome outcome =
          run_traffic(*model, clients, truth, everything, seed() + static_cast<uint64_t>(threads));
      EXPECT_EQ(outcome.failure, "")
          << "target " << simd_target_name(target) << ", " << threads << " threads";
      EXPECT_GT(outcome.wrong_drafts, 0);
      EXPECT_GT(outcome.mixed_steps, 0);
    }
  }
}

}  // namespace
}  // namespace yoke::tests
