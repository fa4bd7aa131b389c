// The lines of design.md 5 on the model's real kernels: whatever a row shares its step with, and
// however its sequence came there, each op computes the bits of serial decoding for it.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "engine/testing/step_driver.h"
#include "tests/exactness/targets.h"
#include "tests/exactness/traffic.h"

namespace yoke::tests {
namespace {

using kernels::SimdTarget;

const std::vector<Knobs>& lines() {
  static const std::vector<Knobs> all = {
      {.name = "batched", .slots = 5, .random_arrival = true},
      {.name = "chunked", .max_chunk = 7},
      {.name = "preempted", .slots = 3, .max_chunk = 20, .preempt = true},
      {.name = "cancelled", .slots = 4, .max_chunk = 20, .random_arrival = true, .cancel = true},
      {.name = "resumed",
       .slots = 3,
       .max_chunk = 20,
       .preempt = true,
       .cancel = true,
       .snapshots = true},
      {.name = "padded", .slots = 3, .max_chunk = 20, .pad = true},
      {.name = "drafted", .max_drafts = 6},
      {.name = "drafted_all_wrong", .slots = 2, .max_drafts = 6, .right_drafts = 0},
      {.name = "drafted_by_mtp", .slots = 3, .max_drafts = 4, .mtp = true},
  };
  return all;
}

/// What a test asks for: long enough to be sparse on nano (260 tokens) and on the short `wide` (20)
/// where that is affordable. Plain loops take half a second per row of `wide`.
ClientShape client_shape(const Subject& subject) {
  const bool nano = subject.name() == "nano";
  if (kernels::simd_target() == SimdTarget::scalar && !nano)
    return {.count = 2, .prompt_min = 2, .prompt_max = 5, .output_min = 2, .output_max = 3};
  if (kernels::simd_target() == SimdTarget::scalar || is_short())
    return {.count = 2, .prompt_max = 8, .output_max = 10, .long_prompt = nano ? 20 : 24};
  if (nano) return {.long_prompt = 266};
  return {.count = 4, .prompt_max = 24, .output_max = 12, .long_prompt = 44};
}

/// The vector targets but the BF16 dot share their sums (kernels/core/cpu.h), so they are compared
/// with one serial decoding: a machine's answers do not depend on its age.
bool share_sums(SimdTarget a, SimdTarget b) {
  const auto is_alone = [](SimdTarget t) {
    return t == SimdTarget::scalar || t == SimdTarget::avx512_bf16;
  };
  return a == b || (!is_alone(a) && !is_alone(b));
}

/// A subject with what serial decoding makes of its clients, on the target that is set.
struct Bench {
  explicit Bench(const Subject& of)
      : subject(of),
        target(kernels::simd_target()),
        clients(random_clients(21, of.config(), client_shape(of))),
        truth(serial_decoding(of, clients)) {}

  void expect_exact(engine::LoadedModel& model, const Knobs& knobs, uint64_t seed) {
    outcome = run_traffic(model, clients, truth, knobs, seed);
    EXPECT_EQ(outcome.failure, "")
        << subject.name() << ", target " << simd_target_name(kernels::simd_target()) << ", "
        << model.parts().stream.threads().threads() << " threads";
    EXPECT_GT(outcome.compared, 500);
  }

  const Subject& subject;
  SimdTarget target;
  std::vector<Client> clients;
  Truth truth;
  TrafficOutcome outcome;  // of the last traffic
};

const Subject& nano() {
  static const Subject subject = Subject::nano();
  return subject;
}

const Subject& short_wide() {
  static const Subject subject = Subject::wide(engine::kShortWide);
  return subject;
}

class Line : public ::testing::TestWithParam<Knobs> {};

TEST_P(Line, equals_serial_decoding) {
  if (looks_for_races()) GTEST_SKIP() << "Everything has the same threads";
  const Knobs& knobs = GetParam();
  Bench bench(nano());
  kernels::ThreadPool threads(2);
  const auto model = nano().load(traffic_options(nano(), bench.clients), threads);
  const int64_t often = is_short() ? 1 : 10;
  for (const uint64_t seed : {1u, 2u}) {
    bench.expect_exact(*model, knobs, seed);
    const TrafficOutcome& got = bench.outcome;
    if (knobs.preempt) {
      EXPECT_GT(got.preemptions, 0);
    }
    if (knobs.cancel) {
      EXPECT_GT(got.cancellations, 0);
    }
    if (knobs.snapshots) {
      EXPECT_GT(got.resumed_tokens, 0);
    }
    if (knobs.pad) {
      EXPECT_GT(got.padding_rows, 10 * often);
    }
    if (knobs.max_drafts > 0) {
      EXPECT_GT(got.wrong_drafts, often);
    }
    if (knobs.max_drafts > 0 && knobs.right_drafts > 0) {
      EXPECT_GT(got.right_drafts, often);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lines, Line, ::testing::ValuesIn(lines()),
                         [](const auto& test) { return test.param.name; });

/// Every target, all disturbances at once; one to three threads on the best target.
void expect_everything_exact(const Subject& subject) {
  const TargetGuard guard;
  std::optional<Bench> bench;
  TrafficOutcome sum;
  for (const SimdTarget target : tested_targets()) {
    SCOPED_TRACE(simd_target_name(target));
    kernels::set_simd_target(target);
    if (!bench || !share_sums(bench->target, target)) bench.emplace(subject);
    const bool best = target == kernels::simd_targets().front();
    for (const int threads : best ? std::vector{1, 2, 3} : std::vector{2}) {
      kernels::ThreadPool pool(threads);
      const auto model = subject.load(traffic_options(subject, bench->clients), pool);
      bench->expect_exact(*model, kEverything, static_cast<uint64_t>(10 + threads));
      sum.mixed_steps += bench->outcome.mixed_steps;
      sum.wrong_drafts += bench->outcome.wrong_drafts;
      sum.right_drafts += bench->outcome.right_drafts;
      sum.preemptions += bench->outcome.preemptions + bench->outcome.cancellations;
    }
  }
  EXPECT_GT(sum.mixed_steps, 1);
  EXPECT_GT(sum.wrong_drafts, 5);
  EXPECT_GT(sum.right_drafts, 2);
  EXPECT_GT(sum.preemptions, 0);
}

TEST(Everything, on_nano) {
  expect_everything_exact(nano());
}

TEST(Everything, on_wide) {
  expect_everything_exact(short_wide());
}

TEST(Everything, the_second_run_takes_the_same_steps_to_the_same_tokens) {
  Bench bench(nano());
  kernels::ThreadPool threads(3);
  const auto model = nano().load(traffic_options(nano(), bench.clients), threads);
  bench.expect_exact(*model, kEverything, 5);
  const TrafficOutcome first = bench.outcome;
  bench.expect_exact(*model, kEverything, 5);
  EXPECT_EQ(first.fingerprint, bench.outcome.fingerprint);
  EXPECT_EQ(first.steps, bench.outcome.steps);
}

TEST(Subjects, wide_computes_with_sane_numbers_and_says_more_than_one_word) {
  const Subject& wide = short_wide();
  const std::vector<Client> clients = random_clients(3, wide.config(), {.count = 2});
  const Truth truth = serial_decoding(wide, clients);
  for (size_t i = 0; i < clients.size(); ++i) {
    const std::set<int32_t> different(
        truth.tokens[i].begin() + static_cast<std::ptrdiff_t>(clients[i].prompt.size()),
        truth.tokens[i].end());
    EXPECT_GE(different.size(), static_cast<size_t>(clients[i].output) / 2);
  }
  kernels::ThreadPool threads(2);
  const auto model = wide.load(traffic_options(wide, clients), threads);
  model->set_trace([](int32_t layer, kernels::ConstTensorView streams) {
    double sum = 0;
    for (int64_t i = 0; i < streams.elements(); ++i) {
      const double x = kernels::load_float(streams, i);
      sum += x * x;
    }
    const double rms = std::sqrt(sum / static_cast<double>(streams.elements()));
    EXPECT_GT(rms, 0.3) << "layer " << layer;
    EXPECT_LT(rms, 30.0) << "layer " << layer;
  });
  engine::run_prompt(*model, truth.tokens[0], 32);
}

/// Not a fault: which of the project's targets still have to be tested elsewhere.
TEST(Targets, those_this_machine_lacks_are_named) {
  const std::string missing = missing_targets();
  if (!missing.empty()) GTEST_SKIP() << "NOT TESTED ON THIS MACHINE: " << missing;
}

}  // namespace
}  // namespace yoke::tests
