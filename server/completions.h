// One chat request from body to answer: worker pool → engine → stream or plain answer. The only
// coroutines of the server beside the connections; what they decide is in server/api.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <mutex>
#include <string>

#include "config/config.h"
#include "config/log.h"
#include "server/api/chat_prompt.h"
#include "server/api/retry_after.h"
#include "server/http/exchange.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace yoke::server {

/// What all chat requests share. Thread: any.
struct ChatService {
  config::ApiConfig api;
  config::Duration write_timeout{};
  bool accept_any_model = false;
  std::string log_requests = "meta";
  int max_preparing = 128;  ///< requests on the worker pool; one more is refused
  config::Logger log;
  Metrics* metrics = nullptr;            ///< outlives the requests
  asio::thread_pool* workers = nullptr;  ///< outlives the requests
  std::atomic<int> preparing{0};

  /// Of the lines about each request.
  spdlog::level::level_enum request_level() const {
    return log_requests == "none" ? spdlog::level::debug : spdlog::level::info;
  }
  void record_time(config::Duration request_time);
  int retry_after_s(int waiting, int parallel) const;

 private:
  mutable std::mutex mutex_;
  RetryAfter retry_after_;  // guarded by mutex_
};

/// Answers one chat request. `key_label`: whose key it came with.
asio::awaitable<void> serve_chat(std::shared_ptr<Exchange> exchange,
                                 std::shared_ptr<ChatService> service,
                                 std::shared_ptr<const ServedModel> model, std::string key_label);

/// Answers with what is already known.
asio::awaitable<void> serve_response(std::shared_ptr<Exchange> exchange, Response response);

}  // namespace yoke::server
