#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "config/check.h"

namespace yoke::engine {

config::Result<void> check_limits(const SchedulerLimits& limits) {
  struct Bound {
    const char* name;
    int64_t value;
    int64_t least;
  };
  const Bound bounds[] = {{"max_num_seqs", limits.max_sequences, 1},
                          {"max_num_batched_tokens (for twice max_num_seqs)",
                           limits.max_batched_tokens, 2 * int64_t{limits.max_sequences}},
                          {"max_queue", limits.max_waiting, 0},
                          {"max_model_len", limits.max_model_len, 2},
                          {"block_tokens", limits.block_tokens, 1},
                          {"tokens of all cache blocks (for max_model_len)",
                           int64_t{limits.num_blocks} * limits.block_tokens, limits.max_model_len},
                          {"request time limit", limits.time_limit.count(), 0},
                          {"snapshots", limits.max_snapshots, 0},
                          {"window rows", limits.max_window, 0}};
  for (const Bound& bound : bounds) {
    if (bound.value < bound.least)
      return config::invalid_input(std::string(bound.name) + ": want at least " +
                                   std::to_string(bound.least) + ", got " +
                                   std::to_string(bound.value));
  }
  return {};
}

Scheduler::Scheduler(const SchedulerLimits& limits, KnownTokens tokens)
    : limits_(limits),
      tokens_(std::move(tokens)),
      blocks_(limits.num_blocks),
      prefixes_(blocks_, limits.block_tokens, limits.max_snapshots) {
  YOKE_CHECK(check_limits(limits).ok(), "contradictory scheduler limits");
  YOKE_CHECK(limits.max_snapshots == 0 || tokens_, "prefixes are reused, but tokens are not known");
  for (int32_t slot = limits.max_sequences; slot-- > 0;) free_slots_.push_back(slot);
}

config::Result<SequenceId> Scheduler::submit(const SequenceSpec& spec, config::TimePoint now) {
  if (spec.prompt_tokens < 1 || spec.max_tokens < 1)
    return config::invalid_input("a sequence needs a prompt token and room for an output token");
  if (spec.prompt_tokens >= limits_.max_model_len)
    return config::invalid_input("maximum context length is " +
                                 std::to_string(limits_.max_model_len) +
                                 " tokens, the prompt has " + std::to_string(spec.prompt_tokens));
  if (sequences_.size() >=
      static_cast<size_t>(limits_.max_sequences) + static_cast<size_t>(limits_.max_waiting))
    return config::Error{config::ErrorKind::exhausted,
                         "the queue is full: " + std::to_string(sequences_.size()) +
                             " requests are running or waiting"};
  Sequence sequence;
  sequence.key_label = spec.key_label;
  sequence.tokens = spec.prompt_tokens;
  sequence.tokens_max = static_cast<int32_t>(
      std::min<int64_t>(int64_t{spec.prompt_tokens} + spec.max_tokens, limits_.max_model_len));
  if (limits_.max_snapshots > 0) sequence.snapshot_at = spec.snapshot_at;
  sequence.deadline =
      limits_.time_limit.count() > 0 ? now + limits_.time_limit : config::TimePoint::max();
  const SequenceId id{next_id_++};
  waiting_[spec.key_label].push_back(id);
  sequences_.emplace(id, std::move(sequence));
  return id;
}

bool Scheduler::cancel(SequenceId id) {
  YOKE_CHECK(plan_.empty(), "cancel() between plan() and commit()");
  const auto sequence = sequences_.find(id);
  if (sequence == sequences_.end()) return false;
  end(sequence, EndReason::cancelled);
  return true;
}

std::span<const PlannedRows> Scheduler::plan(config::TimePoint now) {
  YOKE_CHECK(plan_.empty(), "plan() before the last plan was committed");
  expire(now);
  const bool preempted = grow_decoding();
  // What was just taken from one sequence is not given to another that waits.
  if (!preempted) admit();
  share_rows();
  for (auto& [id, sequence] : sequences_) {
    if (sequence.planned > 0) plan_.push_back(planned_rows(id, sequence));
  }
  YOKE_CHECK(plan_.empty() == sequences_.empty(), "sequences exist but none can run");
  return plan_;
}

void Scheduler::commit(std::span<const SampleOutcome> outcomes) {
  size_t next = 0;
  for (const PlannedRows& rows : std::exchange(plan_, {})) {
    const auto it = sequences_.find(rows.id);
    Sequence& sequence = it->second;
    sequence.computed += std::exchange(sequence.planned, 0);
    sequence.window = rows.rows - rows.commit;
    if (const auto restored = std::exchange(sequence.restore, std::nullopt))
      prefixes_.unpin(*restored);
    if (!std::exchange(sequence.started, true))
      events_.push_back({rows.id, SchedulerEvent::Kind::started, {}, sequence.cached});
    YOKE_CHECK(!rows.samples || next < outcomes.size(),
               "commit() without an outcome for a sampled row");
    const SampleOutcome outcome = rows.samples ? outcomes[next++] : SampleOutcome::token;
    if (outcome == SampleOutcome::failed) {
      if (rows.save) prefixes_.abandon(*rows.save);
      if (!retry_without_cache(it)) end(it, EndReason::failed);
      continue;
    }
    if (rows.save) {
      const auto known = tokens_(rows.id).first(static_cast<size_t>(rows.start + rows.commit));
      prefixes_.publish(*rows.save, known, sequence.blocks);
    }
    if (!rows.samples) continue;
    ++sequence.tokens;
    if (outcome == SampleOutcome::stop_token) {
      end(it, EndReason::stop);
    } else if (sequence.tokens == sequence.tokens_max) {
      end(it, EndReason::length);
    }
  }
  YOKE_CHECK(next == outcomes.size(), "commit() with outcomes for rows that were not sampled");
}

std::vector<SchedulerEvent> Scheduler::take_events() {
  return std::exchange(events_, {});
}

SchedulerCounts Scheduler::counts() const noexcept {
  SchedulerCounts counts;
  for (const auto& [id, sequence] : sequences_) {
    if (!sequence.has_slot()) {
      ++counts.waiting;
      continue;
    }
    ++counts.running;
    if (sequence.missing() > 1) ++counts.prefilling;
  }
  return counts;
}

int32_t Scheduler::blocks_for(int32_t tokens) const noexcept {
  return (tokens + limits_.block_tokens - 1) / limits_.block_tokens;
}

void Scheduler::expire(config::TimePoint now) {
  for (auto it = sequences_.begin(); it != sequences_.end();)
    it = it->second.deadline <= now ? end(it, EndReason::expired) : std::next(it);
}

/// Gives each decoding sequence the block of its next row, oldest first. True when that preempted
/// any.
bool Scheduler::grow_decoding() {
  const size_t preempted_before = preempted_.size();
  for (auto& [id, sequence] : sequences_) {
    if (sequence.has_slot()) make_room_for_next_row(sequence);
  }
  return preempted_.size() != preempted_before;
}

void Scheduler::make_room_for_next_row(Sequence& sequence) {
  const auto held = static_cast<int32_t>(sequence.blocks.size());
  const int32_t lacking = blocks_for(sequence.tokens) - held;
  while (sequence.has_slot() &&
         !(prefixes_.make_free(lacking) && blocks_.allocate(lacking, sequence.blocks))) {
    auto newest = std::prev(sequences_.end());
    while (!newest->second.has_slot()) --newest;
    preempt(newest);  // possibly this very sequence
  }
}

void Scheduler::admit() {
  while (!free_slots_.empty()) {
    const auto it = next_to_admit();
    if (it == sequences_.end()) return;
    const auto match = find_prefix(it->first, it->second);
    if (!fits(it->second, match)) return;
    const auto& [id, sequence] = *it;
    const bool was_preempted = std::erase(preempted_, id) > 0;
    if (!was_preempted) {
      last_label_ = sequence.key_label;
      leave_queues(id, sequence.key_label);
    }
    it->second.slot = free_slots_.back();
    free_slots_.pop_back();
    if (match) start_behind(it->second, *match);
    make_room_for_next_row(it->second);
  }
}

std::optional<PrefixCache::Match> Scheduler::find_prefix(SequenceId id,
                                                         const Sequence& sequence) const {
  if (prefixes_.max_snapshots() == 0 || !sequence.trusts_cache) return std::nullopt;
  return prefixes_.find(tokens_(id));
}

void Scheduler::start_behind(Sequence& sequence, const PrefixCache::Match& match) {
  prefixes_.acquire(match, sequence.blocks);
  sequence.restore = match.snapshot;
  sequence.computed = sequence.cached = match.position;
}

Scheduler::Sequences::iterator Scheduler::next_to_admit() {
  if (!preempted_.empty()) return sequences_.find(preempted_.front());
  if (waiting_.empty()) return sequences_.end();
  auto queue = waiting_.upper_bound(last_label_);
  if (queue == waiting_.end()) queue = waiting_.begin();
  return sequences_.find(queue->second.front());
}

/// Whether the blocks of all known tokens are free or can be, and one more for each running
/// sequence that may still grow: otherwise the newcomer would soon be preempted again.
bool Scheduler::fits(const Sequence& sequence,
                     const std::optional<PrefixCache::Match>& match) const {
  int32_t wanted = blocks_for(sequence.tokens) - (match ? match->shared_blocks : 0);
  for (const auto& [id, other] : sequences_) {
    if (other.has_slot() &&
        blocks_for(other.tokens_max - 1) > static_cast<int32_t>(other.blocks.size()))
      ++wanted;
  }
  if (wanted <= blocks_.free_blocks()) return true;
  const int32_t idle = blocks_.idle_blocks() - (match ? match->idle_blocks : 0);
  return wanted <= blocks_.free_blocks() + idle;
}

void Scheduler::preempt(Sequences::iterator it) {
  give_back(it->second);
  preempted_.insert(std::lower_bound(preempted_.begin(), preempted_.end(), it->first), it->first);
  events_.push_back({it->first, SchedulerEvent::Kind::preempted});
}

void Scheduler::give_back(Sequence& sequence) {
  for (const BlockId block : sequence.blocks) blocks_.release(block);
  sequence.blocks.clear();
  if (const auto restore = std::exchange(sequence.restore, std::nullopt)) prefixes_.unpin(*restore);
  sequence.computed = sequence.window = sequence.cached = 0;
  if (sequence.has_slot()) free_slots_.push_back(std::exchange(sequence.slot, -1));
}

void Scheduler::leave_queues(SequenceId id, const std::string& key_label) {
  std::erase(preempted_, id);
  const auto queue = waiting_.find(key_label);
  if (queue == waiting_.end()) return;
  std::erase(queue->second, id);
  if (queue->second.empty()) waiting_.erase(queue);
}

Scheduler::Sequences::iterator Scheduler::end(Sequences::iterator it, EndReason reason) {
  events_.push_back({it->first, SchedulerEvent::Kind::ended, reason});
  give_back(it->second);
  leave_queues(it->first, it->second.key_label);
  return sequences_.erase(it);
}

bool Scheduler::retry_without_cache(Sequences::iterator it) {
  Sequence& sequence = it->second;
  if (limits_.max_snapshots == 0) return false;
  prefixes_.forget(tokens_(it->first));
  if (sequence.cached == 0) return false;
  sequence.trusts_cache = false;
  preempt(it);
  return true;
}

PlannedRows Scheduler::planned_rows(SequenceId id, const Sequence& sequence) {
  const int32_t start = sequence.computed;
  const int32_t end = start + sequence.planned;
  PlannedRows rows{id,
                   sequence.slot,
                   start,
                   sequence.planned,
                   end == sequence.tokens,
                   std::span(sequence.blocks).first(static_cast<size_t>(blocks_for(end))),
                   sequence.planned,
                   sequence.window,
                   sequence.restore,
                   std::nullopt};
  const auto& wanted = sequence.snapshot_at;
  const auto next = std::upper_bound(wanted.begin(), wanted.end(), start);
  if (next == wanted.end() || *next > end) return rows;
  rows.save = prefixes_.reserve(tokens_(id).first(static_cast<size_t>(*next)));
  if (rows.save) rows.commit = *next - start;
  return rows;
}

/// Of `rows` more rows for a prompt, those that may run in one step: up to the next snapshot, or to
/// the prompt's end if that lies within a window behind it.
int32_t Scheduler::rows_up_to_snapshot(const Sequence& sequence, int32_t rows) const {
  const auto& wanted = sequence.snapshot_at;
  const auto next = std::upper_bound(wanted.begin(), wanted.end(), sequence.computed);
  const int32_t end = sequence.computed + sequence.planned + rows;
  if (next == wanted.end() || end <= *next) return rows;
  if (end == sequence.tokens && end - *next <= limits_.max_window) return rows;
  return *next - sequence.computed - sequence.planned;
}

/// Splits the row budget; the rule is in the header.
void Scheduler::share_rows() {
  int32_t budget = limits_.max_batched_tokens;
  const auto give = [this, &budget](Sequence& sequence, int32_t rows) {
    rows = std::min({rows, sequence.missing() - sequence.planned, budget});
    rows = rows_up_to_snapshot(sequence, rows);
    sequence.planned += rows;
    budget -= rows;
  };
  std::vector<Sequence*> prompts;
  for (auto& [id, sequence] : sequences_) {
    if (!sequence.has_slot()) continue;
    if (sequence.missing() == 1) {
      give(sequence, 1);
    } else {
      prompts.push_back(&sequence);
    }
  }
  if (prompts.empty()) return;
  Sequence& oldest = *prompts.front();
  give(oldest, (budget + 1) / 2);
  std::stable_sort(prompts.begin() + 1, prompts.end(), [](const Sequence* a, const Sequence* b) {
    return a->missing() < b->missing();
  });
  for (auto prompt = prompts.begin() + 1; prompt != prompts.end(); ++prompt) give(**prompt, budget);
  give(oldest, budget);
}

}  // namespace yoke::engine
