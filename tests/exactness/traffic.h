// Random traffic over a model: sequences arrive, run in chunks, alone and together, draft and are
// rejected, are preempted, cancelled and asked again. Every true row of it must be, op by op, what
// serial decoding computes (design.md 5).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/exactness/op_watch.h"
#include "tests/exactness/serial.h"

namespace yoke::tests {

/// What the traffic is made of. All off: one client after the other, in one piece.
struct Knobs {
  const char* name = "";
  int32_t slots = 1;
  int32_t max_chunk = 1 << 20;  ///< rows of a sequence in a step
  int32_t max_drafts = 0;       ///< after the newest token
  double right_drafts = 0.6;    ///< share of drafts that serial decoding would produce
  bool mtp = false;             ///< run the MTP layer, and draft with it every other time
  int64_t stop_after = 0;       ///< steps; 0: at the clients' end
  bool random_arrival = false;
  bool preempt = false;
  bool cancel = false;
  bool pad = false;        ///< larger row buckets than needed
  bool snapshots = false;  ///< take them, and go on from them after a preemption or cancellation
};

inline constexpr Knobs kEverything = {.name = "everything",
                                      .slots = 5,
                                      .max_chunk = 24,
                                      .max_drafts = 6,
                                      .mtp = true,
                                      .random_arrival = true,
                                      .preempt = true,
                                      .cancel = true,
                                      .pad = true,
                                      .snapshots = true};

struct TrafficOutcome {
  std::string failure;  ///< empty: every true row had the bits of serial decoding
  // What happened, so that a test can insist on it.
  int64_t steps = 0;
  int64_t rows = 0;         ///< of the trunk, without padding
  int64_t mixed_steps = 0;  ///< prompt rows beside decoding ones
  int64_t right_drafts = 0, wrong_drafts = 0;
  int64_t preemptions = 0, cancellations = 0;
  int64_t resumed_tokens = 0;  ///< that snapshots saved
  int64_t padding_rows = 0;
  int64_t compared = 0;      ///< rows times ops
  uint64_t fingerprint = 0;  ///< of every row's place in every step, and of all tokens
};

struct TrafficHooks {
  /// As OpWatch::Fault.
  OpWatch::Fault op_fault;
  /// Called after each step, for faults in what the model keeps.
  std::function<void(engine::LoadedModel&, int64_t step)> after_step;
};

/// Runs all clients to their end, or to the first difference.
TrafficOutcome run_traffic(engine::LoadedModel& model, const std::vector<Client>& clients,
                           Truth& truth, const Knobs& knobs, uint64_t seed,
                           const TrafficHooks& hooks = {});

}  // namespace yoke::tests
