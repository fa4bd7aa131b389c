#include "engine/memory_plan.h"

#include <gtest/gtest.h>

namespace yoke::engine {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kMiB = uint64_t{1} << 20;

MemoryPlan plan_of(uint64_t weights, uint64_t host, uint64_t reserve) {
  MemoryPlan plan;
  plan.classes = {{"weights", weights}, {kHostBuffers, host}, {kReserve, reserve}};
  return plan;
}

TEST(MemoryPlan, what_is_filled_later_is_not_expected_at_start) {
  const MemoryPlan plan = plan_of(80 * kGiB, kGiB, 4 * kGiB);
  EXPECT_EQ(plan.total(), 85 * kGiB);
  EXPECT_EQ(allocated_at_start(plan), 80 * kGiB);
}

TEST(MemoryPlan, the_drop_is_compared_with_the_plan) {
  const MemoryPlan plan = plan_of(80 * kGiB, kGiB, 4 * kGiB);
  const auto verdict = [&](uint64_t before, uint64_t after) {
    return compare_with_plan(plan, {119 * kGiB, before}, {119 * kGiB, after});
  };
  EXPECT_EQ(verdict(100 * kGiB, 20 * kGiB), MemoryVerdict::as_planned);
  EXPECT_EQ(verdict(100 * kGiB, 20 * kGiB - 1600 * kMiB), MemoryVerdict::as_planned) << "2 %";
  EXPECT_EQ(verdict(100 * kGiB, 20 * kGiB - 1700 * kMiB), MemoryVerdict::exceeded);
  EXPECT_EQ(verdict(100 * kGiB, 40 * kGiB), MemoryVerdict::as_planned) << "others gave some back";
  EXPECT_EQ(verdict(100 * kGiB, 15 * kGiB), MemoryVerdict::exceeded)
      << "more than the reserve, but the reserve is still there";
  EXPECT_EQ(verdict(88 * kGiB, 3 * kGiB), MemoryVerdict::refused);
  EXPECT_EQ(verdict(88 * kGiB, 5 * kGiB), MemoryVerdict::exceeded);
}

TEST(MemoryPlan, a_small_model_may_be_lost_in_the_noise) {
  const MemoryPlan plan = plan_of(50 * kMiB, kGiB, 128 * kMiB);
  const auto verdict = [&](int64_t taken_mib) {
    const uint64_t before = 8 * kGiB;
    return compare_with_plan(
        plan, {16 * kGiB, before},
        {16 * kGiB, before - static_cast<uint64_t>(taken_mib) * static_cast<uint64_t>(kMiB)});
  };
  EXPECT_EQ(verdict(50 + 60), MemoryVerdict::as_planned);
  EXPECT_EQ(verdict(0), MemoryVerdict::as_planned);
  EXPECT_EQ(verdict(50 + 70), MemoryVerdict::exceeded);
  EXPECT_EQ(verdict(50 + 1000), MemoryVerdict::exceeded);
}

TEST(MemoryPlan, the_reserve_grows_with_the_machine) {
  EXPECT_EQ(default_reserve(2 * kGiB), 128 * kMiB);
  EXPECT_EQ(default_reserve(24 * kGiB), 768 * kMiB);
  EXPECT_EQ(default_reserve(119 * kGiB), 119 * kGiB / 32);
  EXPECT_EQ(default_reserve(1024 * kGiB), 4 * kGiB);
}

}  // namespace
}  // namespace yoke::engine
