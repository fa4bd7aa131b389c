// One number for the behaviour of the whole engine on the CPU (style.md 2.11): tokens and step
// counts of fixed requests. A change leaves it alone, or updates it in the same commit and says
// why.
#include <gtest/gtest.h>

#include "kernels/testing/random.h"
#include "tests/exactness/model_loop.h"
#include "tests/exactness/targets.h"

namespace yoke::tests {
namespace {

using kernels::SimdTarget;

constexpr uint64_t kFingerprint = 7673978561818549181ull;
constexpr uint64_t kShortFingerprint = 2805571524002425119ull;
constexpr uint64_t kWideFingerprint = 8140442096131627196ull;

/// FNV-1a over 64-bit words.
class Hash {
 public:
  void add(uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      value_ = (value_ ^ ((word >> (8 * byte)) & 0xFF)) * 0x100000001B3ull;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325ull;
};

/// The BF16 dot's sums differ; exactness tests compare it with itself. So do those of the plain
/// loops, but not enough for nano's tokens.
bool is_comparable(SimdTarget target) {
  return target != SimdTarget::avx512_bf16;
}

void expect_fingerprint(ModelLoop& loop, const std::vector<engine::GenerationRequest>& requests,
                        SimdTarget target, uint64_t want) {
  const TargetGuard guard;
  kernels::set_simd_target(target);
  const Outcome outcome = loop.run(requests);
  Hash hash;
  for (const std::vector<int32_t>& output : outcome.outputs) {
    hash.add(output.size());
    for (const int32_t token : output) hash.add(static_cast<uint64_t>(token));
  }
  hash.add(outcome.steps);
  if (hash.value() == want) return;
  std::string texts;
  for (const std::vector<int32_t>& output : outcome.outputs) {
    for (const int32_t token : output) texts += std::to_string(token) + " ";
    texts += "\n";
  }
  ADD_FAILURE() << "fingerprint " << hash.value() << ", want " << want << "; target "
                << kernels::simd_target_name(target) << ", " << outcome.steps << " steps, tokens:\n"
                << texts;
}

constexpr LoopShape kShape{.slots = 3, .rows = 48, .blocks = 7, .threads = 2};

TEST(Fingerprint, short_answers_on_every_target) {
  if (looks_for_races()) GTEST_SKIP() << "no threads of its own";
  NanoLoop nano(kShape);
  std::vector<engine::GenerationRequest> requests = mixed_requests(nano);
  if (!is_short()) requests.erase(requests.begin() + 4);  // long: plain loops take seconds for it
  for (engine::GenerationRequest& request : requests) request.max_tokens = 8;
  for (const SimdTarget target : tested_targets()) {
    if (is_comparable(target)) expect_fingerprint(nano, requests, target, kShortFingerprint);
  }
}

TEST(Fingerprint, whole_answers_on_every_vector_target) {
  if (kernels::simd_targets().front() == SimdTarget::scalar)
    GTEST_SKIP() << "this machine has no vector target; the short answers were compared";
  if (is_short()) GTEST_SKIP() << "instrumented build; the short answers were compared";
  NanoLoop nano(kShape);
  for (const SimdTarget target : kernels::simd_targets()) {
    if (is_comparable(target) && target != SimdTarget::scalar)
      expect_fingerprint(nano, mixed_requests(nano), target, kFingerprint);
  }
}

/// Sizes of which one Hadamard block is only a part, EXL3 experts, sparse attention. Its
/// noise tells the plain loops' sums from the others', so those are left out.
TEST(Fingerprint, wide_on_every_vector_target) {
  if (looks_for_races()) GTEST_SKIP() << "no threads of its own";
  const TargetGuard guard;
  for (const SimdTarget target : tested_targets()) {
    if (!is_comparable(target) || target == SimdTarget::scalar) continue;
    kernels::set_simd_target(target);  // weights are packed for the target they are loaded on
    WideLoop wide(engine::kShortWide, {.slots = 2, .rows = 20, .blocks = 7, .threads = 2});
    kernels::testing::Random random(8);
    std::vector<engine::GenerationRequest> requests(3);
    for (size_t i = 0; i < requests.size(); ++i) {
      for (int32_t t = 0; t < (i == 0 ? 44 : 6); ++t)
        requests[i].prompt.push_back(static_cast<int32_t>(random.below(1280)));
      requests[i].max_tokens = 8;
      requests[i].sampling.temperature = i == 1 ? 0.7 : 0.0;
      requests[i].sampling.seed = 5;
    }
    expect_fingerprint(wide, requests, target, kWideFingerprint);
  }
}

}  // namespace
}  // namespace yoke::tests
