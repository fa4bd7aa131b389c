// The compute threads of one engine. Work is split into contiguous ranges of an index; which thread
// gets which range never changes a result, because no op lets one index depend on another's range.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace yoke::kernels {

/// The grain for indices that take about `ns_per_index` each: a range shorter than about 20 µs is
/// not worth waking a thread for. Small ops so run on the calling thread alone.
constexpr int64_t grain_for(int64_t ns_per_index) noexcept {
  return std::max<int64_t>(1, 20'000 / std::max<int64_t>(1, ns_per_index));
}

/// Threads sleep on a condition variable when there is nothing to do: an idle server uses no CPU.
class ThreadPool {
 public:
  /// `threads` includes the calling thread; 1 means no worker at all. Throws std::system_error when
  /// a thread cannot start.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const noexcept { return static_cast<int>(workers_.size()) + 1; }

  /// Calls `body(begin, end, thread)` for disjoint ranges that cover [0, count), each at least
  /// `grain` long except the last, and returns when all are done. `thread` is in [0, threads()) and
  /// unique among the ranges that run at the same time. `body` must not throw and must not call
  /// for_range again. Allocates nothing. Thread: one caller at a time.
  template <class Body>
  void for_range(int64_t count, int64_t grain, Body&& body) {
    if (count <= 0) return;
    if (workers_.empty() || count <= grain) {
      body(int64_t{0}, count, 0);
      return;
    }
    run(
        count, grain,
        [](void* context, int64_t begin, int64_t end, int thread) {
          (*static_cast<std::remove_reference_t<Body>*>(context))(begin, end, thread);
        },
        &body);
  }

 private:
  using Call = void (*)(void* context, int64_t begin, int64_t end, int thread);
  struct Job {
    Call call = nullptr;
    void* context = nullptr;
    int64_t count = 0;
    int64_t grain = 1;
  };

  void run(int64_t count, int64_t grain, Call call, void* context);
  void work(int thread);
  /// Takes ranges of the current job until none is left.
  void drain(const Job& job, int thread);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Job job_;                  // guarded by mutex_
  uint64_t generation_ = 0;  // guarded by mutex_; counts jobs
  int busy_ = 0;             // guarded by mutex_; workers that have not finished the current job
  bool stop_ = false;        // guarded by mutex_
  std::unique_ptr<struct ThreadPoolCursor> cursor_;
  std::vector<std::thread> workers_;
};

}  // namespace yoke::kernels
