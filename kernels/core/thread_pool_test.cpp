#include "kernels/core/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace yoke::kernels {
namespace {

class ThreadPools : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPools, ::testing::Range(1, 9));

TEST_P(ThreadPools, every_index_runs_exactly_once) {
  ThreadPool pool(GetParam());
  ASSERT_EQ(pool.threads(), GetParam());
  for (const int64_t count : {0, 1, 2, 7, 8, 9, 100, 1001}) {
    for (const int64_t grain : {1, 3, 64, 5000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      pool.for_range(count, grain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) ++calls[static_cast<size_t>(i)];
      });
      for (const auto& c : calls) ASSERT_EQ(c, 1) << "count " << count << ", grain " << grain;
    }
  }
}

TEST_P(ThreadPools, ranges_respect_the_grain) {
  ThreadPool pool(GetParam());
  constexpr int64_t kCount = 1000;
  constexpr int64_t kGrain = 37;
  std::atomic<int> short_ranges{0};
  pool.for_range(kCount, kGrain, [&](int64_t begin, int64_t end, int) {
    EXPECT_LT(begin, end);
    if (end - begin < kGrain) {
      EXPECT_EQ(end, kCount);
      ++short_ranges;
    }
  });
  EXPECT_LE(short_ranges, 1);
}

TEST_P(ThreadPools, thread_number_is_unique_among_running_ranges) {
  ThreadPool pool(GetParam());
  std::vector<std::atomic<bool>> busy(static_cast<size_t>(pool.threads()));
  std::atomic<bool> shared{false};
  for (int job = 0; job < 50; ++job) {
    pool.for_range(200, 1, [&](int64_t, int64_t, int thread) {
      ASSERT_GE(thread, 0);
      ASSERT_LT(thread, pool.threads());
      if (busy[static_cast<size_t>(thread)].exchange(true)) shared = true;
      busy[static_cast<size_t>(thread)] = false;
    });
  }
  EXPECT_FALSE(shared);
}

TEST_P(ThreadPools, many_tiny_jobs_all_finish_before_the_call_returns) {
  ThreadPool pool(GetParam());
  // Not atomic on purpose: the caller must see all writes (TSan watches).
  std::vector<int> sums(16, 0);
  for (int job = 0; job < 5000; ++job) {
    pool.for_range(16, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) sums[static_cast<size_t>(i)] += job;
    });
    ASSERT_EQ(sums[static_cast<size_t>(job % 16)], job * (job + 1) / 2);
  }
}

TEST(ThreadPool, a_slow_range_does_not_stop_the_others) {
  ThreadPool pool(2);
  // The first range waits until all the others are done: the other thread must take them.
  std::atomic<int> done{0};
  pool.for_range(8, 1, [&](int64_t begin, int64_t end, int) {
    if (begin == 0) {
      while (done < 8 - static_cast<int>(end - begin)) std::this_thread::yield();
    }
    done += static_cast<int>(end - begin);
  });
  EXPECT_EQ(done, 8);
}

TEST(ThreadPool, small_counts_stay_on_the_calling_thread) {
  ThreadPool pool(4);
  const std::thread::id caller = std::this_thread::get_id();
  pool.for_range(10, 10, [&](int64_t begin, int64_t end, int thread) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 10);
    EXPECT_EQ(thread, 0);
  });
}

TEST(ThreadPool, at_least_one_thread) {
  EXPECT_EQ(ThreadPool(0).threads(), 1);
  EXPECT_EQ(ThreadPool(-3).threads(), 1);
}

/// Threads of this process that the kernel calls running or ready to run, the caller left out.
int running_threads() {
  int running = 0;
  const auto self = std::to_string(gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == self) continue;
    std::ifstream stat(task.path() / "stat");
    std::string text;
    std::getline(stat, text);
    const size_t name_end = text.rfind(')');  // "tid (name) state ..."
    if (name_end != std::string::npos && text.substr(name_end + 2, 1) == "R") ++running;
  }
  return running;
}

TEST(ThreadPool, idle_workers_sleep_in_the_kernel) {
  ThreadPool pool(4);
  pool.for_range(100, 1, [](int64_t, int64_t, int) {});
  // A worker that spun would be running at every look; a sleeping one soon is not.
  bool asleep = false;
  for (int look = 0; look < 100'000 && !asleep; ++look) asleep = running_threads() == 0;
  EXPECT_TRUE(asleep);
}

TEST(GrainFor, makes_ranges_of_about_20_microseconds) {
  EXPECT_EQ(grain_for(0), 20'000);
  EXPECT_EQ(grain_for(1), 20'000);
  EXPECT_EQ(grain_for(100), 200);
  EXPECT_EQ(grain_for(1'000'000), 1);
}

}  // namespace
}  // namespace yoke::kernels
