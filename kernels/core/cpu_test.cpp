#include "kernels/core/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "kernels/testing/simd.h"

namespace yoke::kernels {
namespace {

TEST(Cpu, starts_with_the_best_target_and_says_what_it_lacks) {
  ASSERT_FALSE(simd_targets().empty());
  EXPECT_EQ(simd_target(), simd_targets()[0]);
  EXPECT_FALSE(processor_name().empty());
  std::cout << processor_name() << ": tests run once for each of";
  for (const SimdTarget t : simd_targets()) std::cout << ' ' << simd_target_name(t);
  std::cout << "; not on this machine:";
  for (int i = 0; i <= static_cast<int>(SimdTarget::avx512_bf16); ++i) {
    const auto t = static_cast<SimdTarget>(i);
    if (std::ranges::count(simd_targets(), t) == 0) std::cout << ' ' << simd_target_name(t);
  }
  std::cout << '\n';
}

TEST(Cpu, each_target_is_used_in_turn_and_the_best_one_afterwards) {
  std::vector<SimdTarget> used;
  testing::for_each_simd_target([&] { used.push_back(simd_target()); });
  EXPECT_TRUE(std::ranges::equal(used, simd_targets()));
  EXPECT_EQ(simd_target(), simd_targets()[0]);
}

}  // namespace
}  // namespace yoke::kernels
