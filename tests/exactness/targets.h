// The instruction sets that the suite runs on: all that this machine has.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/core/cpu.h"
#include "tests/exactness/short.h"

namespace yoke::tests {

/// Back to the best target when a test is over.
class TargetGuard {
 public:
  TargetGuard() = default;
  ~TargetGuard() { kernels::set_simd_target(best_); }
  TargetGuard(const TargetGuard&) = delete;
  TargetGuard& operator=(const TargetGuard&) = delete;

 private:
  kernels::SimdTarget best_ = kernels::simd_target();
};

/// Best first; only the best in the short form.
inline std::span<const kernels::SimdTarget> tested_targets() {
  const auto all = kernels::simd_targets();
  return is_short() ? all.first(1) : all;
}

/// Names of the targets with kernels of their own that this machine does not have.
inline std::string missing_targets() {
  using kernels::SimdTarget;
#if defined(__x86_64__)
  const std::vector<SimdTarget> compiled = {SimdTarget::avx2, SimdTarget::avx512,
                                            SimdTarget::avx512_dl, SimdTarget::avx512_bf16};
#else
  const std::vector<SimdTarget> compiled = {SimdTarget::neon};
#endif
  std::string names;
  for (const SimdTarget target : compiled) {
    bool found = false;
    for (const SimdTarget has : kernels::simd_targets()) found = found || has == target;
    if (!found) names += std::string(names.empty() ? "" : ", ") + simd_target_name(target);
  }
  return names;
}

}  // namespace yoke::tests
