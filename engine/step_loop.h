// The body of the engine thread without the thread: sequences, scheduler and model, advanced one
// step per call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/clock.h"
#include "config/log.h"
#include "engine/generation.h"
#include "engine/model/model.h"
#include "engine/scheduler/scheduler.h"

namespace yoke::engine {

/// A request as it leaves the inbox.
struct Submission {
  RequestId id;
  GenerationRequest request;
  TokenCounts counts;  ///< of the prompt, if the sampling parameters use counts
  std::shared_ptr<Mailbox> mailbox;
  config::TimePoint at;
};

/// Thread: engine only.
class StepLoop {
 public:
  /// So many rows with non-finite logits one after another mean that the model is broken.
  static constexpr int kNonfiniteRowsInARow = 3;

  struct Options {
    int32_t defined_vocab = 0;
    int32_t max_waiting = 0;
    config::Duration time_limit{};
    /// Called with each request that ends, before its last event is in the mailbox.
    std::function<void(RequestId)> on_end;
  };

  /// What `model` can run at once.
  static SchedulerLimits limits(const Model& model, const Options& options);

  /// `model` must outlive the loop; limits() must pass check_limits().
  StepLoop(Model& model, Options options, config::Logger log);

  void add(Submission submission, config::TimePoint now);
  void cancel(RequestId id);
  bool idle() const noexcept { return scheduler_.idle(); }

  /// Decides what runs next and ends what ran out of time. False: there is nothing to run.
  bool plan(config::TimePoint now);
  /// Runs what was planned; publishes tokens and ends. Throws what the model throws, and
  /// std::runtime_error after kNonfiniteRowsInARow; end_all() is all that is left then.
  void run();
  /// Ends every request with an error event.
  void end_all(const std::string& message);

  /// Writes the counters and loads of this loop into `status`.
  void report(ServiceStatus& status) const;

 private:
  struct Running {
    Submission submission;
    std::vector<int32_t> tokens;  // prompt and output
    GenerationEvent pending;      // not yet in the mailbox
  };

  void build_step_plan(std::span<const PlannedRows> plan);
  SampleOutcome sample(Running& running, std::span<const float> logits);
  void publish();
  void finish(SequenceId id, FinishReason reason, std::string message);
  FinishReason finish_reason(EndReason reason) const;
  std::string finish_message(EndReason reason) const;

  Model& model_;
  const Options options_;
  const config::Logger log_;
  Scheduler scheduler_;
  std::map<SequenceId, Running> running_;        // with a slot or waiting for one
  std::map<RequestId, SequenceId> sequence_of_;  // same entries
  StepPlan step_plan_;
  std::vector<SequenceId> sampled_;  // of the current plan, in its order
  std::vector<SampleOutcome> outcomes_;
  SamplingScratch scratch_;
  ServiceStatus counters_;
  int nonfinite_in_a_row_ = 0;
};

}  // namespace yoke::engine
