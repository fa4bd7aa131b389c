// Which sequences run in the next step, with how many rows: continuous batching as a pure state
// machine. It knows lengths, blocks and slots, but no token; it has no clock and does no I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/clock.h"
#include "config/result.h"
#include "engine/kv_cache/block_pool.h"
#include "engine/kv_cache/prefix_cache.h"

namespace yoke::engine {

/// One token stream. Ids ascend in the order of submit(): a lower id is an older sequence.
enum class SequenceId : uint64_t {};

struct SchedulerLimits {
  int32_t max_sequences = 4;         ///< cache slots: sequences with state at the same time
  int32_t max_batched_tokens = 512;  ///< rows of one step, ≥ 2 · max_sequences
  int32_t max_waiting = 64;          ///< sequences beyond max_sequences; more are refused
  int32_t max_model_len = 8192;      ///< tokens of one sequence, prompt and output
  int32_t block_tokens = 64;
  int32_t num_blocks = 512;       ///< together at least max_model_len tokens
  config::Duration time_limit{};  ///< from submit() to the end of a sequence; 0 = no limit
  int32_t max_snapshots = 0;      ///< kept for later sequences; 0 = prefixes are not reused
  int32_t max_window = 0;         ///< rows that may follow a snapshot within one step
};

/// The first limit that contradicts another, by name.
config::Result<void> check_limits(const SchedulerLimits& limits);

struct SequenceSpec {
  int32_t prompt_tokens = 0;  ///< ≥ 1 and < max_model_len
  int32_t max_tokens = 0;     ///< ≥ 1; cut to what max_model_len leaves
  std::string key_label;      ///< fairness class
  /// Token counts after which a snapshot is wanted, ascending, below prompt_tokens.
  std::vector<int32_t> snapshot_at{};
};

/// Rows of one sequence in a step: the tokens at positions start … start + rows - 1.
struct PlannedRows {
  SequenceId id;
  int32_t slot;
  int32_t start;
  int32_t rows;
  bool samples;                     ///< the last row's logits give the next token
  std::span<const BlockId> blocks;  ///< those that hold positions 0 … start + rows - 1
  int32_t commit;                   ///< the first so many rows; the others are a window, all right
  int32_t replay;                   ///< window rows of the last step, applied first
  std::optional<SnapshotId> restore;  ///< holds positions 0 … start - 1, beside the blocks
  std::optional<SnapshotId> save;     ///< to be filled with positions 0 … start + commit - 1
};

/// What the engine found for a planned sequence that samples.
enum class SampleOutcome {
  token,       ///< one more token, generation goes on
  stop_token,  ///< one more token, and it ends the sequence
  failed,      ///< no token: the sequence ends, or is computed again without kept prefixes
};

enum class EndReason { stop, length, cancelled, expired, failed };

struct SchedulerEvent {
  enum class Kind {
    started,    ///< its first row ran; once per sequence
    preempted,  ///< gave its slot and blocks back; what it had is computed again later
    ended,      ///< `reason` says why; exactly once per sequence
  };
  SequenceId id;
  Kind kind;
  EndReason reason = EndReason::stop;
  int32_t cached_tokens = 0;  ///< of `started`: of the prompt, those that were not computed
};

struct SchedulerCounts {
  int32_t running = 0;     ///< hold a slot
  int32_t prefilling = 0;  ///< of these: more than one known token is not computed yet
  int32_t waiting = 0;     ///< hold no slot
};

/// Use: submit() and cancel() at any time between steps; then plan(); if it has rows, run them and
/// call commit(). Thread: engine only.
///
/// Every step holds all sequences that decode, one row each. What is left of the row budget, at
/// least half of it, goes to prompts in chunks: half of that to the oldest, so that it gets a
/// quarter of all rows at least; then to the others, fewest missing tokens first; then again to the
/// oldest. Free slots go to preempted sequences, oldest first, then to waiting ones, round robin
/// over key labels and first come first served within one. Nobody overtakes a sequence that waits
/// for blocks. A sequence takes the blocks of all its known tokens when it gets a slot, and one
/// more whenever it grows over a border; when none is free, kept prefixes are dropped, and then the
/// newest sequence is preempted.
///
/// A sequence that gets a slot starts behind the longest kept prefix of its known tokens. Its
/// chunks end where it wants snapshots; when all that follows fits into a window, that runs in the
/// same step. Should a sequence fail that stood on a kept prefix, all prefixes of its tokens are
/// dropped and it is computed again from its first token, once.
class Scheduler {
 public:
  /// The known tokens of a sequence, prompt and output; asked for in plan() and commit().
  using KnownTokens = std::function<std::span<const int32_t>(SequenceId)>;

  /// `limits` must pass check_limits(). `tokens` is not called without snapshots.
  explicit Scheduler(const SchedulerLimits& limits, KnownTokens tokens = {});

  /// Errors: exhausted (too many sequences), invalid_input (lengths).
  config::Result<SequenceId> submit(const SequenceSpec& spec, config::TimePoint now);
  /// Ends a sequence at once, whatever it was doing. False when the id is unknown or has ended.
  bool cancel(SequenceId id);

  /// The rows of the next step; empty only if there is no sequence at all. The answer and its block
  /// spans stay valid until commit() (or the next plan() when empty).
  std::span<const PlannedRows> plan(config::TimePoint now);
  /// The planned step ran. `outcomes`: one for each planned entry that samples, in plan order.
  void commit(std::span<const SampleOutcome> outcomes);

  /// What happened since the last call, in order.
  std::vector<SchedulerEvent> take_events();

  SchedulerCounts counts() const noexcept;
  bool idle() const noexcept { return sequences_.empty(); }
  const BlockPool& blocks() const noexcept { return blocks_; }
  const PrefixCache& prefixes() const noexcept { return prefixes_; }
  const SchedulerLimits& limits() const noexcept { return limits_; }

 private:
  struct Sequence {
    std::string key_label;
    int32_t tokens = 0;      // known: prompt and what was generated
    int32_t tokens_max = 0;  // ends with `length` when it has so many
    int32_t computed = 0;    // of the known tokens, those in the caches
    int32_t slot = -1;       // -1: waiting
    int32_t planned = 0;     // rows in the step that is planned
    int32_t window = 0;      // of the computed, those that are to be replayed
    int32_t cached = 0;      // of the computed, those that were found in the cache
    bool started = false;
    bool trusts_cache = true;  // false: it failed once on a kept prefix
    std::vector<int32_t> snapshot_at;
    std::optional<SnapshotId> restore;  // pinned until its first rows ran
    config::TimePoint deadline;
    std::vector<BlockId> blocks;

    int32_t missing() const noexcept { return tokens - computed; }
    bool has_slot() const noexcept { return slot >= 0; }
  };
  using Sequences = std::map<SequenceId, Sequence>;  // oldest first

  int32_t blocks_for(int32_t tokens) const noexcept;
  void expire(config::TimePoint now);
  bool grow_decoding();
  void make_room_for_next_row(Sequence& sequence);
  void admit();
  Sequences::iterator next_to_admit();
  std::optional<PrefixCache::Match> find_prefix(SequenceId id, const Sequence& sequence) const;
  bool fits(const Sequence& sequence, const std::optional<PrefixCache::Match>& match) const;
  void start_behind(Sequence& sequence, const PrefixCache::Match& match);
  void preempt(Sequences::iterator sequence);
  void give_back(Sequence& sequence);
  void leave_queues(SequenceId id, const std::string& key_label);
  Sequences::iterator end(Sequences::iterator sequence, EndReason reason);
  void share_rows();
  int32_t rows_up_to_snapshot(const Sequence& sequence, int32_t rows) const;
  PlannedRows planned_rows(SequenceId id, const Sequence& sequence);
  /// Whether the sequence goes on: it is computed again, without kept prefixes.
  bool retry_without_cache(Sequences::iterator sequence);

  SchedulerLimits limits_;
  KnownTokens tokens_;
  BlockPool blocks_;
  PrefixCache prefixes_;  // after the pool
  Sequences sequences_;
  std::map<std::string, std::deque<SequenceId>> waiting_;  // by key label; no empty queues
  std::string last_label_;             // admitted last: round robin goes on after it
  std::vector<SequenceId> preempted_;  // oldest first
  std::vector<int32_t> free_slots_;    // a stack
  std::vector<PlannedRows> plan_;      // in age order
  std::vector<SchedulerEvent> events_;
  uint64_t next_id_ = 0;
};

}  // namespace yoke::engine
