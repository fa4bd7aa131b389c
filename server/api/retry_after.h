// How long a refused client shall wait (spec/api.md 6.3). Pure; the caller serialises access.
#pragma once

#include "config/clock.h"

namespace yoke::server {

/// A moving average of how long requests take, and what it says about a full queue.
class RetryAfter {
 public:
  void record(config::Duration request_time);
  /// Seconds, 1 to 30: until one of `waiting` requests gets its turn when `parallel` run at once.
  int seconds(int waiting, int parallel) const;

 private:
  double average_s_ = 0;
  bool any_ = false;
};

}  // namespace yoke::server
