// The line between the server's coroutines and the engine thread: plain messages, bounded queues
// (design.md 3).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "config/clock.h"
#include "config/result.h"
#include "engine/sampling/sampling.h"

namespace yoke::engine {

enum class RequestId : uint64_t {};

enum class FinishReason {
  stop,       ///< EOS or a stop token id; that token is the last of the tokens delivered
  length,     ///< max_tokens or the context is full
  cancelled,  ///< cancel() was called
  error,      ///< the engine could not go on; `message` says why
};

struct GenerationRequest {
  std::vector<int32_t> prompt;  ///< at least one token
  std::vector<int32_t>
      boundaries;  ///< token offsets of message ends, ascending: where prefixes may be resumed
  SamplingParams sampling;
  int32_t max_tokens = 0;               ///< ≥ 1; the caller clamped it to the context
  std::vector<int32_t> stop_token_ids;  ///< EOS ids and the request's own
  std::string key_label;                ///< fairness class: the API key's label, or empty
};

struct GenerationEvent {
  std::vector<int32_t> tokens;  ///< new tokens, in order; may be empty
  /// Set on the first event: how many prompt tokens came from the prefix cache, and when the
  /// prompt's first row ran.
  std::optional<int32_t> cached_tokens;
  struct Finish {
    FinishReason reason;
    std::string message;
  };
  std::optional<Finish> finish;  ///< the last event of a request, exactly once
};

/// Where the engine leaves events for one request. Thread: both sides. Bounded by the request's
/// max_tokens.
class Mailbox {
 public:
  /// `notify` is called, outside the lock, whenever the mailbox goes from empty to not empty; it
  /// must not block or throw (post to a strand). Set it before submit().
  void set_notify(std::function<void()> notify);
  void push(GenerationEvent event);
  /// Takes all events, joined in order into one; nullopt when there is none.
  std::optional<GenerationEvent> take();

 private:
  std::mutex mutex_;
  std::deque<GenerationEvent> events_;
  std::function<void()> notify_;
};

enum class ReadyState { loading, warming_up, ready, draining, failed };

struct ServiceStatus {
  ReadyState state = ReadyState::loading;
  std::string detail;  ///< one line for people: progress or why it failed
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t prefilling = 0;
  /// Time since the last finished step while there is work; zero when idle. Watchdog input.
  config::Duration stalled{};
  uint64_t steps = 0;
  uint64_t prompt_tokens_computed = 0;
  uint64_t prompt_tokens_cached = 0;
  uint64_t generated_tokens = 0;
  uint64_t nonfinite_rows = 0;
  double cache_usage = 0;  ///< share of KV blocks that requests hold
  /// Of the prefix cache: places filled, places, those given to another prefix or for blocks, and
  /// tokens in blocks that it alone holds.
  int32_t snapshots = 0;
  int32_t max_snapshots = 0;
  uint64_t snapshot_evictions = 0;
  int64_t idle_tokens = 0;
};

/// What the server knows of the engine. Two implementations: Engine, and the scripted one of tests.
class GenerationService {
 public:
  virtual ~GenerationService() = default;
  /// Errors: unavailable (not ready, draining, failed), exhausted (queue full), invalid_input (bad
  /// ids, prompt too long). On success exactly one finish event follows in `mailbox`. Thread: any.
  virtual config::Result<RequestId> submit(GenerationRequest request,
                                           std::shared_ptr<Mailbox> mailbox) = 0;
  /// Idempotent; unknown ids are ignored. Takes effect within one step. Thread: any.
  virtual void cancel(RequestId id) = 0;
  virtual ServiceStatus status() const = 0;  ///< Thread: any; never waits for a step.
};

}  // namespace yoke::engine
