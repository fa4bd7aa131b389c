#include "kernels/testing/random.h"

namespace yoke::kernels::testing {
namespace {

/// Spreads every input bit over the whole word: two rounds of multiply and fold.
uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  x ^= x >> 32;
  return x;
}

}  // namespace

uint64_t Random::bits() noexcept {
  constexpr uint64_t kOddStep = 0x9E3779B97F4A7C15u;  // 2^64 / golden ratio
  return mix(mix(seed_ + 1) ^ (++counter_ * kOddStep));
}

double Random::uniform() noexcept {
  return static_cast<double>(bits() >> 11) * 0x1p-53;
}

double Random::normal() noexcept {
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

int64_t Random::below(int64_t bound) noexcept {
  return static_cast<int64_t>(uniform() * static_cast<double>(bound));
}

}  // namespace yoke::kernels::testing
