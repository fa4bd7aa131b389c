// A step allocates nothing (design.md 8). This program's operator new counts.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/testing/random_model.h"

namespace {

std::atomic<int64_t> allocations{0};

void* counted(size_t bytes, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined: g++ would see one half of a pair without the other and call it mismatched.
[[gnu::noinline]] void* operator new(size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
// AddressSanitizer brings its own of this one, whose memory the operators below could not free.
[[gnu::noinline]] void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace yoke::engine {
namespace {

using kernels::testing::Random;
using kernels::testing::ScheduledStep;
using kernels::testing::ScheduleShape;

TEST(Allocation, steps_allocate_nothing_once_warm) {
  const ScheduleShape shape{.sequences = 3, .length = 40, .max_chunk = 16};
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    RandomCheckpoint what;
    what.config = exl3_config();
    what.bits = exl3_everything();
    kernels::ThreadPool threads(2);
    const std::unique_ptr<LoadedModel> model =
        load_random_model(what, options_for(shape, precision), threads);
    Random random(3);
    SCOPED_TRACE(random.trace());
    const ScheduledTokens tokens(random, shape, model->config().vocab_size);
    const auto run = [&] {
      int64_t during = 0;
      for (ScheduledStep step : random_schedule(random, shape)) {
        const StepPlan plan = tokens.plan(step, *model);
        const int64_t before = allocations.load();
        model->step(plan);
        during += allocations.load() - before;
        const std::vector<float> hidden = to_floats(model->hidden());
        const int64_t before_mtp = allocations.load();
        model->mtp_step(plan, hidden);
        during += allocations.load() - before_mtp;
      }
      return during;
    };
    run();  // warm-up: SIMD dispatch and the like
    EXPECT_EQ(run(), 0);
  }
}

TEST(Allocation, snapshots_are_taken_and_restored_without_allocating) {
  const ScheduleShape shape{.sequences = 2, .length = 60, .max_chunk = 60};
  RandomCheckpoint what;
  what.config = tiny_config();
  ModelOptions options = options_for(shape, Precision::bf16);
  options.max_snapshots = 2;
  kernels::ThreadPool threads(2);
  const std::unique_ptr<LoadedModel> model = load_random_model(what, options, threads);
  StepPlan first, second;
  StepSequence& s = first.sequences.emplace_back();
  s.tokens.assign(30, 5);
  s.commit = 30;
  s.save = 1;
  s.blocks = {0};
  second = first;
  second.sequences[0].slot = 1;
  second.sequences[0].start_position = 30;
  second.sequences[0].restore = 1;
  second.sequences[0].save = 0;
  second.sequences[0].blocks = {1};
  for (const bool warm : {false, true}) {
    const int64_t before = allocations.load();
    for (const StepPlan* plan : {&first, &second}) {
      model->step(*plan);
      model->take_snapshots(*plan);
    }
    if (warm) {
      EXPECT_EQ(allocations.load(), before);
    }
  }
}

TEST(Allocation, the_counter_counts) {
  const int64_t before = allocations.load();
  ::operator delete(::operator new(16));
  EXPECT_EQ(allocations.load(), before + 1);
}

}  // namespace
}  // namespace yoke::engine
