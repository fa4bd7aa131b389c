// From a row of logits to a token: penalties, bias, truncation, keyed noise
// (spec/speculative.md 6.3). A pure function of (logits, params, history, seed, position): the same
// bits however the row was computed or batched.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace yoke::engine {

struct SamplingParams {
  double temperature = 1.0;  ///< 0 = greedy
  double top_p = 1.0;        ///< in (0, 1]; 0 means the smallest set
  int32_t top_k = 0;         ///< 0 or -1: off
  double min_p = 0.0;
  double presence_penalty = 0.0;
  double frequency_penalty = 0.0;
  double repetition_penalty = 1.0;
  std::vector<std::pair<int32_t, double>> logit_bias;
  uint64_t seed = 0;
};

/// How often each token occurred, for penalties: repetition counts prompt and output, presence and
/// frequency output only.
class TokenCounts {
 public:
  void add_prompt(int32_t token);
  void add_output(int32_t token);
  void remove_output(int32_t token);  ///< undo, for rejected drafts
  struct Count {
    int32_t token;
    int32_t output;
    bool in_prompt;
  };
  std::span<const Count> counts() const noexcept { return counts_; }

 private:
  std::vector<Count> counts_;  // sorted by token
};

/// U in (0,1) of (seed, position, token); golden numbers in spec/speculative.md 6.3.
double keyed_uniform(uint64_t seed, uint64_t position, uint64_t token) noexcept;

/// The token for a row, or nullopt when a logit of an allowed token is not finite (design.md 10:
/// never becomes a token).
///   logits [vocab] float; ids at or above `defined_vocab` are padding rows and never sampled
///   position: absolute position of the token being sampled
/// Order of candidates: logit descending, id ascending. Defined in float64.
std::optional<int32_t> sample_token(std::span<const float> logits, const SamplingParams& params,
                                    const TokenCounts& counts, int32_t defined_vocab,
                                    uint64_t position);

}  // namespace yoke::engine
