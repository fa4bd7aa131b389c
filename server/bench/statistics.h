// From the times of single requests to the figures of a bench. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/clock.h"

namespace yoke::server {

/// One piece of an answer: when it came, and how many tokens the answer had by then (nullopt: the
/// endpoint does not say).
struct AnswerPiece {
  config::TimePoint at;
  std::optional<int64_t> tokens;
};

/// One request as its client saw it. The connection was open before `sent`: waiting for a client's
/// own resources is no time to first token (spec/performance.md 6.3).
struct RequestRecord {
  config::TimePoint sent;
  std::vector<AnswerPiece> pieces;  ///< those with text, reasoning or calls
  config::TimePoint ended;          ///< the last piece, or the failure
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;
  std::string finish_reason;
  std::string failure;  ///< empty: it worked
};

struct Percentiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};
/// By the nearest-rank definition; zeros for no sample. Sorts `samples`.
Percentiles percentiles(std::vector<double>& samples);

/// Requests that were sent together.
using Wave = std::vector<RequestRecord>;

/// One line of the report: all waves of one prompt at one concurrency.
struct BenchLine {
  int64_t requests = 0;
  int64_t failed = 0;
  std::string failure;       ///< of the first that failed
  double prompt_tokens = 0;  ///< mean of a request
  double output_tokens = 0;  ///< mean of a request
  Percentiles ttft_ms;
  Percentiles inter_token_ms;
  bool counted_tokens = true;  ///< false: pieces stand for tokens, in equal shares
  double stream_tps = 0;    ///< median of the streams' own rates: (tokens − 1) / (end − first)
  double wall_tps = 0;      ///< tokens of a wave / (last end − first send), mean over waves
  double active_tps = 0;    ///< sum of a wave's streams' own rates, mean over waves
  double cached_share = 0;  ///< of the prompt tokens
};

BenchLine summarise(std::span<const Wave> waves);

}  // namespace yoke::server
