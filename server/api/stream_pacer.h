// Decides when deltas become events of a stream (spec/api.md 0 rule 11, 1.5.12). A pure state
// machine: time comes in as an argument.
//
// Deltas that wait together are joined, and an event goes out at most every `interval`. Copilot
// drops an answer whose last content events repeat: while the next one would look repetitive by
// stricter rules than Copilot's, it is held back and grows.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "config/clock.h"
#include "server/api/delta.h"

namespace yoke::server {

/// One rule: the last `count` events are a repetition with a period of at most `max_period`.
struct RepetitionRule {
  size_t count;
  size_t max_period;
};
/// Whether `hashes` (one per event, newest last) end in a repetition by any of the rules.
bool looks_repetitive(std::span<const uint64_t> hashes, std::span<const RepetitionRule> rules);

class StreamPacer {
 public:
  StreamPacer(config::Duration interval, config::Duration longest_hold);

  void add(Delta delta);
  /// What to send now, in order.
  std::vector<Delta> take(config::TimePoint now);
  /// Everything that is left: the answer is over.
  std::vector<Delta> take_all();
  /// When take() will have something, or nullopt while nothing waits.
  std::optional<config::TimePoint> next() const;

 private:
  std::vector<Delta> take_until_held(config::TimePoint now);
  bool would_repeat(std::string_view content) const;
  size_t releasable(std::string_view content, config::TimePoint now);
  void remember(std::string_view content);

  config::Duration interval_;
  config::Duration longest_hold_;
  std::deque<Delta> waiting_;
  config::TimePoint earliest_{};                 ///< of the next event
  std::optional<config::TimePoint> held_since_;  ///< the waiting content looks repetitive
  std::deque<uint64_t> sent_;                    ///< hashes of content events, newest last
  std::deque<uint64_t> sent_not_blank_;
};

}  // namespace yoke::server
