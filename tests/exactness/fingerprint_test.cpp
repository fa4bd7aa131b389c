// One number for the behaviour of the whole engine on the CPU (style.md 2.11): tokens and step
// counts of fixed requests. A change leaves it alone, or updates it in the same commit and says
// why.
#include <gtest/gtest.h>

#include "kernels/core/cpu.h"
#include "tests/exactness/nano_loop.h"

namespace yoke::tests {
namespace {

using kernels::SimdTarget;

constexpr uint64_t kFingerprint = 7673978561818549181ull;
constexpr uint64_t kShortFingerprint = 2805571524002425119ull;

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

/// Back to the best target when a test is over.
class TargetGuard {
 public:
  ~TargetGuard() { kernels::set_simd_target(best_); }

 private:
  SimdTarget best_ = kernels::simd_target();
};

/// The one target whose sums differ is left out; exactness tests compare it with itself.
bool is_comparable(SimdTarget target) {
  return target != SimdTarget::avx512_bf16;
}

void expect_fingerprint(NanoLoop& nano, const std::vector<engine::GenerationRequest>& requests,
                        SimdTarget target, uint64_t want) {
  const TargetGuard guard;
  kernels::set_simd_target(target);
  const Outcome outcome = nano.run(requests);
  Hash hash;
  for (const std::vector<int32_t>& output : outcome.outputs) {
    hash.add(output.size());
    for (const int32_t token : output) hash.add(static_cast<uint64_t>(token));
  }
  hash.add(outcome.steps);
  if (hash.value() == want) return;
  std::string texts;
  for (const std::vector<int32_t>& output : outcome.outputs)
    texts += nano.tokenizer().decode(output) + "\n---\n";
  ADD_FAILURE() << "fingerprint " << hash.value() << ", want " << want << "; target "
                << kernels::simd_target_name(target) << ", " << outcome.steps
                << " steps, outputs:\n"
                << texts;
}

constexpr LoopShape kShape{.slots = 3, .rows = 48, .blocks = 7, .threads = 2};

TEST(Fingerprint, short_answers_on_every_target) {
  NanoLoop nano(kShape);
  std::vector<engine::GenerationRequest> requests = mixed_requests(nano);
  requests.erase(requests.begin() + 4);  // the long prompt: plain loops take seconds for it
  for (engine::GenerationRequest& request : requests) request.max_tokens = 8;
  for (const SimdTarget target : kernels::simd_targets()) {
    if (is_comparable(target)) expect_fingerprint(nano, requests, target, kShortFingerprint);
  }
}

TEST(Fingerprint, whole_answers_on_every_vector_target) {
  if (kernels::simd_targets().front() == SimdTarget::scalar)
    GTEST_SKIP() << "this machine has no vector target; the short answers were compared";
  NanoLoop nano(kShape);
  for (const SimdTarget target : kernels::simd_targets()) {
    if (is_comparable(target) && target != SimdTarget::scalar)
      expect_fingerprint(nano, mixed_requests(nano), target, kFingerprint);
  }
}

}  // namespace
}  // namespace yoke::tests
