#include "server/commands/signals.h"

#include <ctime>
#include <utility>

namespace yoke::server {

Signals::Signals() {
  sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, &before_);
  std::signal(SIGPIPE, SIG_IGN);
}

Signals::~Signals() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Signals::wait(std::chrono::milliseconds timeout) {
  const auto count = timeout.count();
  const timespec time{static_cast<time_t>(count / 1000),
                      static_cast<long>(count % 1000) * 1'000'000};
  take(sigtimedwait(&set_, nullptr, &time));
}

bool Signals::end_requested() {
  wait(std::chrono::milliseconds(0));
  return ends_ > 0;
}

bool Signals::end_requested_twice() {
  wait(std::chrono::milliseconds(0));
  return ends_ > 1;
}

bool Signals::take_reload() {
  wait(std::chrono::milliseconds(0));
  return std::exchange(reload_, false);
}

void Signals::take(int signal) {
  if (signal == SIGTERM || signal == SIGINT) ++ends_;
  if (signal == SIGHUP) reload_ = true;
}

}  // namespace yoke::server
