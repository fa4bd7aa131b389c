#include "server/server.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace yoke::server {

namespace {

/// What aborted streams get to write their last event and close.
constexpr config::Duration kCloseTime = std::chrono::seconds(3);

size_t worker_count(const config::ServerConfig& server) {
  if (server.worker_threads > 0) return static_cast<size_t>(server.worker_threads);
  return std::max(1U, std::thread::hardware_concurrency() / 2);
}

HttpOptions http_options(const config::ServerConfig& server) {
  HttpOptions options;
  options.limits.header_bytes = static_cast<size_t>(server.max_header_kib) << 10;
  options.limits.body_bytes = static_cast<size_t>(server.max_body_mib) << 20;
  options.max_buffered_bytes = static_cast<size_t>(server.max_buffered_mib) << 20;
  options.max_connections = static_cast<size_t>(server.max_connections);
  options.header_timeout = server.header_timeout;
  options.body_timeout = server.body_timeout;
  options.idle_timeout = server.idle_timeout;
  options.write_timeout = server.write_timeout;
  return options;
}

}  // namespace

Server::Server(const config::Config& config, KeyRing keys, config::Logger log)
    : workers_(worker_count(config.server)),
      app_(config, std::move(keys), workers_, log),
      http_(io_, http_options(config.server), app_.application(), log),
      work_(io_.get_executor()),
      config_(config),
      log_(std::move(log)) {
  app_.set_http_counts([this] {
    return App::HttpCounts{http_.connections(), http_.buffered_bytes()};
  });
}

Server::~Server() {
  stop();
}

config::Result<void> Server::start() {
  const auto listening =
      http_.listen(config_.server.host, static_cast<uint16_t>(config_.server.port));
  if (!listening) return listening;
  app_.set_loopback_only(http_.loopback_only());
  for (int64_t i = 0; i < config_.server.io_threads; ++i)
    threads_.emplace_back([this] { io_.run(); });
  http_.start();
  return {};
}

config::Duration Server::io_cpu_time() const {
  config::Duration sum{};
  for (const std::thread& thread : threads_) {
    clockid_t clock{};
    timespec time{};
    if (pthread_getcpuclockid(const_cast<std::thread&>(thread).native_handle(), &clock) == 0 &&
        clock_gettime(clock, &time) == 0)
      sum += std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  return sum;
}

void Server::drain() {
  app_.drain();
  http_.close_idle();
}

void Server::stop() {
  if (std::exchange(stopped_, true)) return;
  app_.drain();
  http_.close_idle();
  http_.abort();
  http_.stop_accepting();
  if (!threads_.empty() && !http_.wait_until_closed(config::Clock::now() + kCloseTime))
    log_->warn("server.closing_hard connections={}", http_.connections());
  work_.reset();
  io_.stop();
  for (std::thread& thread : threads_) thread.join();
  workers_.stop();  // nobody waits for what is still queued
  workers_.join();
}

}  // namespace yoke::server
