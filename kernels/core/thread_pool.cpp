#include "kernels/core/thread_pool.h"

#include <algorithm>
#include <atomic>

namespace yoke::kernels {

/// The next unclaimed index of the running job, on a cache line of its own.
struct alignas(64) ThreadPoolCursor {
  std::atomic<int64_t> next{0};
};

ThreadPool::ThreadPool(int threads) : cursor_(std::make_unique<ThreadPoolCursor>()) {
  for (int i = 1; i < std::max(threads, 1); ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t count, int64_t grain, Call call, void* context) {
  // About four ranges per thread: enough to even out a slow core, few enough to keep ranges long.
  const int64_t even = (count + 4 * threads() - 1) / (4 * threads());
  const Job job{call, context, count, std::max({grain, even, int64_t{1}})};
  {
    const std::lock_guard lock(mutex_);
    job_ = job;
    cursor_->next.store(0, std::memory_order_relaxed);
    busy_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  wake_.notify_all();
  drain(job, 0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::drain(const Job& job, int thread) {
  for (;;) {
    const int64_t begin = cursor_->next.fetch_add(job.grain, std::memory_order_relaxed);
    if (begin >= job.count) return;
    job.call(job.context, begin, std::min(begin + job.grain, job.count), thread);
  }
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      job = job_;
    }
    drain(job, thread);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace yoke::kernels
