// The order in which ops run. Every op takes a Stream and hands it its work; on the CPU the work
// runs at once on the stream's threads, or is recorded and replayed later, as a CUDA graph would
// be.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/thread_pool.h"

namespace yoke::kernels {

/// Thread: one at a time (the engine thread). The pool must outlive the stream.
class Stream {
 public:
  explicit Stream(ThreadPool& threads) : threads_(&threads) {}

  ThreadPool& threads() const noexcept { return *threads_; }

  /// Runs `work` (a callable without arguments) now, or appends it to the recording. While running
  /// directly nothing is allocated. `work` must read whatever varies between steps from memory, not
  /// from captured values: a replay runs it again.
  template <class Work>
  void launch(const char* op, Work&& work) {
    if (recording_ != nullptr) {
      recording_->push_back({op, std::forward<Work>(work)});
    } else {
      work();
    }
  }

  struct Recorded {
    const char* op;
    std::function<void()> work;
  };
  using Recording = std::vector<Recorded>;

  /// From here on ops are appended to `recording` and not run. It must outlive the recording phase.
  void begin_recording(Recording& recording) noexcept { recording_ = &recording; }
  void end_recording() noexcept { recording_ = nullptr; }

  static void replay(const Recording& recording) {
    for (const Recorded& step : recording) step.work();
  }

 private:
  ThreadPool* threads_;
  Recording* recording_ = nullptr;
};

}  // namespace yoke::kernels
