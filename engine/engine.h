// The engine thread: drain the inbox → plan → step → sample → commit → publish. It alone touches
// the model, the scheduler and the sequences; callers reach it through a bounded inbox and hear
// back through mailboxes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "config/clock.h"
#include "config/log.h"
#include "config/result.h"
#include "engine/generation.h"
#include "engine/model/model.h"
#include "engine/step_loop.h"

namespace yoke::engine {

struct EngineOptions {
  /// Ids from 0 that the tokenizer defines; the rest of the vocabulary is padding.
  int32_t defined_vocab = 0;
  /// Requests beyond those that run; one more is refused.
  int32_t max_waiting = 64;
  /// From submit() to the last token; a request that takes longer ends with an error. 0 = no limit.
  config::Duration time_limit{};
};

/// Thread: every member function may be called from any thread, except that only one may stop() or
/// destroy it.
class Engine final : public GenerationService {
 public:
  /// Runs on the engine thread, once.
  using LoadModel = std::function<config::Result<std::unique_ptr<Model>>(const LoadProgress&)>;
  /// Runs on the engine thread before the first request; an error means that the model cannot be
  /// trusted. It may use any slot and block: sequences start from the zero state.
  using WarmUp = std::function<config::Result<void>(Model&)>;

  /// Starts the thread, which loads the model, warms it up and serves. Until then submit() answers
  /// `unavailable`. Row, slot and block capacities are the model's.
  Engine(const EngineOptions& options, LoadModel load, WarmUp warm_up, config::Logger log);
  /// stop(), if that was not called.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  config::Result<RequestId> submit(GenerationRequest request,
                                   std::shared_ptr<Mailbox> mailbox) override;
  void cancel(RequestId id) override;
  ServiceStatus status() const override;

  /// Waits until the engine is ready (ok), or has failed or been stopped (unavailable, with the
  /// reason).
  config::Result<void> wait_until_ready() const;
  /// Waits until loading and warm-up are over, well or badly; false when the time is over first.
  bool wait_for_start(config::Duration timeout) const;
  /// Refuses new requests from now on; those that are in go on.
  void drain();
  /// Waits until no request is in, or the time is over; true in the first case.
  bool wait_until_idle(config::Duration timeout) const;
  /// Ends every request with an error event after the step in progress (or the loading in
  /// progress), and the thread with it. Idempotent.
  void stop();

 private:
  /// What callers left for the engine thread.
  struct Inbox {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancellations;
    bool empty() const noexcept { return submissions.empty() && cancellations.empty(); }
  };

  void run() noexcept;
  /// Loads and warms up; throws std::runtime_error with the reason when that fails.
  std::unique_ptr<Model> bring_up();
  StepLoop::Options loop_options();
  void serve(StepLoop& loop);
  void set_state(ReadyState state, std::string detail);
  bool started() const;  // needs mutex_
  /// Why no request is let in, if that is so. Needs mutex_.
  std::optional<config::Error> closed() const;
  config::Result<void> check(const GenerationRequest& request) const;
  /// Takes what is in the inbox; while `idle`, waits until something is. False: stop() was called.
  bool take_inbox(bool idle, Inbox& inbox);
  void publish(const StepLoop& loop);
  void forget(RequestId id);
  void end_inbox(const std::string& message);

  const EngineOptions options_;
  LoadModel load_;  // both are let go once they have run
  WarmUp warm_up_;
  const config::Logger log_;

  // Held for a few instructions at a time, never while a step or a callback runs.
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;  // state, inbox, live requests
  // All below are guarded by mutex_.
  ServiceStatus status_;  // `waiting` without the inbox
  bool busy_ = false;
  config::TimePoint last_progress_;
  Inbox inbox_;
  std::unordered_set<uint64_t> live_;       // submitted and not ended
  std::unordered_set<uint64_t> cancelled_;  // of these, those that cancel() was called for
  uint64_t next_id_ = 1;
  size_t live_max_ = 0;
  int32_t max_model_len_ = 0;
  bool draining_ = false;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace yoke::engine
