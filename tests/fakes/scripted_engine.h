// An engine that does what a test says: the second implementation of GenerationService.
//
// A request either plays a script at once (all its events are in the mailbox when submit()
// returns), or waits for orders: the test then starts it, gives it tokens step by step, and ends
// it. Nothing here reads a clock or a random number.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/generation.h"

namespace yoke::tests {

/// What one request gets.
struct Script {
  bool manual = false;                      ///< wait for orders instead of playing at once
  std::vector<std::vector<int32_t>> steps;  ///< tokens per engine step
  engine::FinishReason reason = engine::FinishReason::stop;
  std::string message;
  int32_t cached_tokens = 0;
};

class ScriptedEngine final : public engine::GenerationService {
 public:
  /// For every request: its script. Called under a lock, from the submitting thread.
  using Director = std::function<Script(const engine::GenerationRequest&)>;

  ScriptedEngine();

  config::Result<engine::RequestId> submit(engine::GenerationRequest request,
                                           std::shared_ptr<engine::Mailbox> mailbox) override;
  void cancel(engine::RequestId id) override;
  engine::ServiceStatus status() const override;

  // Orders of the test. Any thread.
  void set_director(Director director);
  /// All requests wait for orders.
  void hold_all();
  void set_state(engine::ReadyState state, std::string detail = "");
  void set_stalled(config::Duration stalled);
  void set_max_live(size_t requests);
  /// The prompt's first row ran.
  void start(engine::RequestId id, int32_t cached_tokens = 0);
  void emit(engine::RequestId id, std::vector<int32_t> tokens);
  void finish(engine::RequestId id, engine::FinishReason reason = engine::FinishReason::stop,
              std::string message = "");

  // Waiting for the server. Each aborts the test program when nothing happens for a minute.
  /// The n-th request submitted (from 0).
  engine::RequestId wait_for_request(size_t n);
  void wait_until_cancelled(engine::RequestId id);
  void wait_until_no_live();

  engine::GenerationRequest request(engine::RequestId id) const;
  size_t submitted() const;
  size_t live() const;
  size_t cancelled() const;

 private:
  struct Entry {
    engine::GenerationRequest request;
    std::shared_ptr<engine::Mailbox> mailbox;
    bool live = true;
    bool started = false;
    bool cancelled = false;
  };
  void end(Entry& entry, engine::FinishReason reason, std::string message,
           std::vector<int32_t> tokens);
  Entry& entry_of(engine::RequestId id);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Director director_;
  std::map<uint64_t, Entry> entries_;
  engine::ServiceStatus status_;
  size_t max_live_ = 64;
  uint64_t next_id_ = 0;
};

}  // namespace yoke::tests
