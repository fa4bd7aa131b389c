// SIGTERM, SIGINT and SIGHUP as facts that a loop looks at, without handlers that run anywhere.
#pragma once

#include <csignal>

#include <chrono>

namespace yoke::server {

/// Blocks the signals for this thread and all that it starts later, and collects them in wait().
/// SIGPIPE is ignored. Thread: one.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  /// Returns after a signal, or when the time is over.
  void wait(std::chrono::milliseconds timeout);
  /// These look for signals first, without waiting.
  bool end_requested();
  bool end_requested_twice();
  /// SIGHUP came since the last call.
  bool take_reload();

 private:
  void take(int signal);

  sigset_t set_;
  sigset_t before_;
  int ends_ = 0;
  bool reload_ = false;
};

}  // namespace yoke::server
