#include "server/api/retry_after.h"

#include <algorithm>
#include <cmath>

namespace yoke::server {

namespace {
constexpr double kWeight = 0.2;  // of the newest request
constexpr int kMost = 30;        // SDKs give up on long ones
}  // namespace

void RetryAfter::record(config::Duration request_time) {
  const double s = config::seconds(request_time);
  average_s_ = any_ ? average_s_ + kWeight * (s - average_s_) : s;
  any_ = true;
}

int RetryAfter::seconds(int waiting, int parallel) const {
  // One place in the queue is free after one of the running requests ends.
  const double wait = average_s_ / std::max(1, std::min(parallel, std::max(1, waiting)));
  return std::clamp(static_cast<int>(std::ceil(wait)), 1, kMost);
}

}  // namespace yoke::server
