#include "engine/step_loop.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "config/check.h"
#include "engine/kv_cache/snapshot_positions.h"

namespace yoke::engine {

SchedulerLimits StepLoop::limits(const Model& model, const Options& options) {
  SchedulerLimits limits;
  limits.max_sequences = std::min(model.options().max_slots, model.options().max_logit_rows);
  limits.max_batched_tokens = model.options().max_rows;
  limits.max_waiting = options.max_waiting;
  limits.max_model_len = model.options().max_model_len;
  limits.block_tokens = model.block_tokens();
  limits.num_blocks = model.num_blocks();
  limits.time_limit = options.time_limit;
  limits.max_snapshots = model.options().max_snapshots;
  limits.max_window = model.options().max_window;
  return limits;
}

StepLoop::StepLoop(Model& model, Options options, config::Logger log)
    : model_(model),
      options_(std::move(options)),
      log_(std::move(log)),
      scheduler_(limits(model, options_), [this](SequenceId id) {
        return std::span<const int32_t>(running_.at(id).tokens);
      }) {}

void StepLoop::add(Submission submission, config::TimePoint now) {
  SequenceSpec spec;
  spec.prompt_tokens = static_cast<int32_t>(submission.request.prompt.size());
  spec.max_tokens = submission.request.max_tokens;
  spec.key_label = submission.request.key_label;
  spec.snapshot_at = snapshot_positions(submission.request.boundaries, spec.prompt_tokens);
  const auto id = scheduler_.submit(spec, submission.at);
  YOKE_CHECK(id.ok(), "the engine let a request in that the scheduler refuses");
  log_->debug("request.queued id={} prompt_tokens={} queue_ms={:.1f}",
              static_cast<uint64_t>(submission.id), spec.prompt_tokens,
              config::seconds(now - submission.at) * 1e3);
  sequence_of_.emplace(submission.id, *id);
  Running running;
  running.tokens = submission.request.prompt;
  running.submission = std::move(submission);
  running_.emplace(*id, std::move(running));
}

void StepLoop::cancel(RequestId id) {
  const auto it = sequence_of_.find(id);
  if (it == sequence_of_.end()) return;
  scheduler_.cancel(it->second);
  publish();
}

bool StepLoop::plan(config::TimePoint now) {
  build_step_plan(scheduler_.plan(now));
  publish();  // those that ran out of time
  return !step_plan_.sequences.empty();
}

void StepLoop::run() {
  const StepResult result = model_.step(step_plan_);
  model_.take_snapshots(step_plan_);
  YOKE_CHECK(result.logit_count == static_cast<int32_t>(sampled_.size()),
             "the model returned another number of rows than was asked for");

  outcomes_.clear();
  for (size_t i = 0; i < sampled_.size(); ++i)
    outcomes_.push_back(sample(running_.at(sampled_[i]), result.row(static_cast<int32_t>(i))));
  scheduler_.commit(outcomes_);
  ++counters_.steps;
  publish();
  if (nonfinite_in_a_row_ >= kNonfiniteRowsInARow)
    throw std::runtime_error(std::to_string(nonfinite_in_a_row_) +
                             " rows of logits in a row were not finite");
}

void StepLoop::build_step_plan(std::span<const PlannedRows> plan) {
  sampled_.clear();
  step_plan_.sequences.resize(plan.size());
  for (size_t i = 0; i < plan.size(); ++i) {
    const PlannedRows& rows = plan[i];
    const Running& running = running_.at(rows.id);
    StepSequence& sequence = step_plan_.sequences[i];
    sequence.slot = rows.slot;
    sequence.start_position = rows.start;
    const auto first = running.tokens.begin() + rows.start;
    sequence.tokens.assign(first, first + rows.rows);
    sequence.commit = rows.commit;
    sequence.replay = rows.replay;
    sequence.restore = rows.restore ? static_cast<int32_t>(*rows.restore) : -1;
    sequence.save = rows.save ? static_cast<int32_t>(*rows.save) : -1;
    sequence.logit_rows.clear();
    if (rows.samples) {
      sequence.logit_rows.push_back(rows.rows - 1);
      sampled_.push_back(rows.id);
    }
    sequence.blocks.clear();
    for (const BlockId block : rows.blocks) sequence.blocks.push_back(static_cast<int32_t>(block));
    const auto prompt = static_cast<int32_t>(running.submission.request.prompt.size());
    counters_.prompt_tokens_computed +=
        static_cast<uint64_t>(std::max(0, std::min(prompt, rows.start + rows.rows) - rows.start));
  }
}

SampleOutcome StepLoop::sample(Running& running, std::span<const float> logits) {
  const GenerationRequest& request = running.submission.request;
  const std::optional<int32_t> token =
      sample_token(logits, request.sampling, running.submission.counts, options_.defined_vocab,
                   running.tokens.size(), scratch_);
  if (!token) {
    ++nonfinite_in_a_row_;
    ++counters_.nonfinite_rows;
    log_->error("request.nonfinite_logits id={} position={}",
                static_cast<uint64_t>(running.submission.id), running.tokens.size());
    return SampleOutcome::failed;
  }
  nonfinite_in_a_row_ = 0;
  ++counters_.generated_tokens;
  running.tokens.push_back(*token);
  running.pending.tokens.push_back(*token);
  if (request.sampling.uses_counts()) running.submission.counts.add_output(*token);
  const std::vector<int32_t>& stops = request.stop_token_ids;
  return std::find(stops.begin(), stops.end(), *token) == stops.end() ? SampleOutcome::token
                                                                      : SampleOutcome::stop_token;
}

/// Turns the scheduler's events and the tokens of this step into mailbox events, one per request.
void StepLoop::publish() {
  for (const SchedulerEvent& event : scheduler_.take_events()) {
    switch (event.kind) {
      case SchedulerEvent::Kind::started:
        running_.at(event.id).pending.cached_tokens = event.cached_tokens;
        counters_.prompt_tokens_cached += static_cast<uint64_t>(event.cached_tokens);
        break;
      case SchedulerEvent::Kind::preempted:
        log_->info("request.preempted id={} tokens={}",
                   static_cast<uint64_t>(running_.at(event.id).submission.id),
                   running_.at(event.id).tokens.size());
        break;
      case SchedulerEvent::Kind::ended:
        finish(event.id, finish_reason(event.reason), finish_message(event.reason));
        break;
    }
  }
  for (auto& [id, running] : running_) {
    GenerationEvent& pending = running.pending;
    if (pending.tokens.empty() && !pending.cached_tokens) continue;
    running.submission.mailbox->push(std::exchange(pending, {}));
  }
}

void StepLoop::finish(SequenceId id, FinishReason reason, std::string message) {
  const auto it = running_.find(id);
  Running running = std::move(it->second);
  running_.erase(it);
  sequence_of_.erase(running.submission.id);
  running.pending.finish = GenerationEvent::Finish{reason, std::move(message)};
  if (options_.on_end) options_.on_end(running.submission.id);
  running.submission.mailbox->push(std::move(running.pending));
}

FinishReason StepLoop::finish_reason(EndReason reason) const {
  switch (reason) {
    case EndReason::stop:
      return FinishReason::stop;
    case EndReason::length:
      return FinishReason::length;
    case EndReason::cancelled:
      return FinishReason::cancelled;
    case EndReason::expired:
    case EndReason::failed:
      return FinishReason::error;
  }
  YOKE_CHECK(false, "unknown end reason");
}

std::string StepLoop::finish_message(EndReason reason) const {
  switch (reason) {
    case EndReason::expired:
      return "the request took longer than the limit of " +
             std::to_string(
                 std::chrono::duration_cast<std::chrono::seconds>(options_.time_limit).count()) +
             " s";
    case EndReason::failed:
      return "the model computed a value that is not finite; see the server's log";
    default:
      return {};
  }
}

void StepLoop::end_all(const std::string& message) {
  while (!running_.empty()) finish(running_.begin()->first, FinishReason::error, message);
}

void StepLoop::report(ServiceStatus& status) const {
  const SchedulerCounts counts = scheduler_.counts();
  status.running = counts.running;
  status.prefilling = counts.prefilling;
  status.waiting = counts.waiting;
  status.steps = counters_.steps;
  status.prompt_tokens_computed = counters_.prompt_tokens_computed;
  status.prompt_tokens_cached = counters_.prompt_tokens_cached;
  status.generated_tokens = counters_.generated_tokens;
  status.nonfinite_rows = counters_.nonfinite_rows;
  const BlockPool& blocks = scheduler_.blocks();
  const int32_t live = blocks.used_blocks() - blocks.idle_blocks();
  status.cache_usage = blocks.size() == 0 ? 0 : static_cast<double>(live) / blocks.size();
  const PrefixCache& prefixes = scheduler_.prefixes();
  status.snapshots = prefixes.snapshots();
  status.max_snapshots = prefixes.max_snapshots();
  status.snapshot_evictions = prefixes.evictions();
  status.idle_tokens = int64_t{blocks.idle_blocks()} * scheduler_.limits().block_tokens;
}

}  // namespace yoke::engine
