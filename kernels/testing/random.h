// Seeded inputs for tests and benches. Counter-based: value number n of a seed is a pure function
// of (seed, n), the same on every machine.
#pragma once

#include <cstdint>
#include <string>

namespace yoke::kernels::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}

  uint64_t bits() noexcept;
  /// In [0, 1), a multiple of 2^-53.
  double uniform() noexcept;
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  /// Mean 0, deviation 1: a sum of twelve uniforms, so never beyond ±6.
  double normal() noexcept;
  /// In [0, bound); bound > 0.
  int64_t below(int64_t bound) noexcept;

  /// For SCOPED_TRACE: a failure then prints the seed.
  std::string trace() const { return "seed " + std::to_string(seed_); }

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

}  // namespace yoke::kernels::testing
