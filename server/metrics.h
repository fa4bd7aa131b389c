// What /metrics shows (spec/api.md 4.3), prefix yoke_. Label values never contain user input.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/clock.h"
#include "engine/generation.h"

namespace yoke::server {

/// How a completion request ended.
enum class Outcome { stop, length, tool_calls, cancelled, error, rejected };
/// Why a request was refused before it reached the engine.
enum class Rejection { queue_full, context, invalid, auth, origin, loading, draining, failed };
/// Where a request was when its client went away.
enum class DisconnectStage { queued, prefill, decode, writing };

const char* name_of(Outcome outcome);
const char* name_of(DisconnectStage stage);

/// Thread: any; counters are atomic. No method waits for the engine.
class Metrics {
 public:
  struct Build {
    std::string version;
    std::string backend;  ///< what computes
  };
  explicit Metrics(const Build& build);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// `route` is the route's template or "other", never the raw path.
  void http_request(std::string_view route, std::string_view method, int status);
  void request_ended(Outcome outcome);
  void request_rejected(Rejection reason);
  void client_disconnected(DisconnectStage stage);
  void cancel_latency(config::Duration from_close_to_free);
  void generated_tokens(int64_t content, int64_t reasoning, int64_t tool);
  void time_to_first_token(config::Duration d);
  void inter_token(config::Duration d);
  void queue_time(config::Duration d);
  void prefill_time(config::Duration d);
  void decode_time(config::Duration d);
  void request_time(config::Duration d);
  void tool_calls(int64_t complete);
  void slow_reader_stall();
  /// Answer bytes that wait for their readers, as a difference.
  void stream_buffer(int64_t more_bytes);

  /// Facts read when somebody asks.
  struct Snapshot {
    std::string model;  ///< the main name
    size_t http_connections = 0;
    size_t request_body_bytes = 0;
    std::optional<engine::ServiceStatus> engine;  ///< none before loading
  };
  /// Prometheus text exposition, format 0.0.4.
  std::string text(const Snapshot& snapshot) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke::server
