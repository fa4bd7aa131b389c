// One monotonic clock for the whole program. Decisions take a TimePoint as an argument and never
// read it themselves.
#pragma once

#include <chrono>

namespace yoke::config {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

inline double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace yoke::config
