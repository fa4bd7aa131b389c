// The whole server but for the model: threads, listener, API. serve.cpp and the scenario tests
// build it, give it a model, and shut it down.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "config/config.h"
#include "config/log.h"
#include "config/result.h"
#include "server/app.h"
#include "server/http/http_server.h"

namespace yoke::server {

/// Thread: one owner calls it; requests are served on its own threads.
class Server {
 public:
  /// `keys` of `config.access`, loaded by the caller, who reports what is wrong with them.
  Server(const config::Config& config, KeyRing keys, config::Logger log);
  /// stop(), if that was not called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Listens and answers: completions with 503 until a model is set and ready.
  config::Result<void> start();
  uint16_t port() const noexcept { return http_.port(); }
  bool loopback_only() const noexcept { return http_.loopback_only(); }

  void set_names(std::vector<std::string> names) { app_.set_names(std::move(names)); }
  /// What the model points to must outlive stop().
  void set_model(std::shared_ptr<const ServedModel> model) { app_.set_model(std::move(model)); }
  void set_keys(KeyRing keys) { app_.set_keys(std::move(keys)); }
  Metrics& metrics() noexcept { return app_.metrics(); }
  size_t connections() const { return http_.connections(); }
  size_t active_requests() const noexcept { return http_.active_requests(); }
  /// CPU time that the I/O threads have used so far. Between start() and stop().
  config::Duration io_cpu_time() const;

  /// New completions get 503; running ones go on, on open connections.
  void drain();
  /// False: at `deadline` requests were still running.
  bool wait_until_idle(config::TimePoint deadline) { return http_.wait_until_idle(deadline); }
  /// Running streams get an error and their end; connections close; threads are joined.
  void stop();

 private:
  asio::io_context io_;
  asio::thread_pool workers_;
  App app_;
  HttpServer http_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  config::Config config_;
  config::Logger log_;
  std::vector<std::thread> threads_;
  bool stopped_ = false;
};

}  // namespace yoke::server
