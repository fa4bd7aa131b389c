// The API behind the HTTP layer: routes, access, readiness, and the small answers. Thread: any;
// what changes while serving (model, keys, draining) is swapped as a whole.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/log.h"
#include "server/api/access.h"
#include "server/api/routes.h"
#include "server/completions.h"
#include "server/http/exchange.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace yoke::server {

/// Whether the server works, for /health and /ready.
struct Health {
  bool ok = false;
  std::string message;  ///< "ok", "Loading model", …
};
/// A pure function; `status` is null before there is an engine.
Health health_of(const engine::ServiceStatus* status, bool draining, config::Duration watchdog);

class App {
 public:
  /// `connections`: open sockets and buffered body bytes, for metrics.
  struct HttpCounts {
    size_t connections = 0;
    size_t buffered_bytes = 0;
  };

  App(const config::Config& config, KeyRing keys, asio::thread_pool& workers, config::Logger log);

  /// What HttpServer calls. `this` must outlive it.
  Application application();
  void set_http_counts(std::function<HttpCounts()> counts) { http_counts_ = std::move(counts); }
  /// Only this machine can reach us: then web pages are the danger (spec/api.md 6.2).
  void set_loopback_only(bool value) { loopback_only_ = value; }

  /// Names to list while there is no model yet.
  void set_names(std::vector<std::string> names);
  void set_model(std::shared_ptr<const ServedModel> model);
  void set_keys(KeyRing keys);
  /// New completions get 503 from now on.
  void drain() { draining_ = true; }

  Metrics& metrics() noexcept { return metrics_; }
  bool has_keys() const;

 private:
  std::optional<Response> check(const RequestHead& head);
  std::optional<ApiError> check_access(const RequestHead& head, Route route) const;
  std::optional<ApiError> check_ready() const;
  asio::awaitable<void> handle(std::shared_ptr<Exchange> exchange);
  Response answer(const RequestHead& head, const RouteMatch& match) const;
  void decorate(const RequestHead& head, Headers& headers) const;

  Response health(const RequestHead& head) const;
  Response ready() const;
  Response models() const;
  Response model(const std::string& id) const;
  Response version() const;
  Response metrics_page() const;
  Response status_page() const;

  std::shared_ptr<const ServedModel> model_now() const;
  std::shared_ptr<const KeyRing> keys_now() const;
  std::vector<std::string> names_now() const;
  Health health_now() const;
  std::string key_label(const Headers& headers) const;

  const config::AccessConfig access_;
  const ReaderLimits limits_;
  const config::Duration watchdog_;
  const int64_t created_;
  const OriginPolicy origins_;
  config::Logger log_;
  Metrics metrics_;
  std::shared_ptr<ChatService> chat_;
  std::function<HttpCounts()> http_counts_;
  std::atomic<bool> loopback_only_{true};
  std::atomic<bool> draining_{false};

  mutable std::mutex mutex_;  // guards the pointers below, held for a copy of them
  std::shared_ptr<const ServedModel> model_;
  std::shared_ptr<const KeyRing> keys_;
  std::vector<std::string> names_;
};

}  // namespace yoke::server
