// From a row of logits to a token: penalties, bias, truncation, keyed noise
// (spec/speculative.md 6.3). A pure function of (logits, params, history, seed, position): the same
// bits however the row was computed or batched. Defined in float64 with our own exp and log.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "config/result.h"

namespace yoke::engine {

struct SamplingParams {
  double temperature = 1.0;                            ///< ≥ 0; 0 = greedy
  double top_p = 1.0;                                  ///< in (0, 1]; 0 means the smallest set
  int32_t top_k = 0;                                   ///< 0 or -1: off
  double min_p = 0.0;                                  ///< in [0, 1]; 0 = off
  double presence_penalty = 0.0;                       ///< any finite number; OpenAI allows -2 to 2
  double frequency_penalty = 0.0;                      ///< as presence_penalty
  double repetition_penalty = 1.0;                     ///< > 0; 1 = off
  std::vector<std::pair<int32_t, double>> logit_bias;  ///< (id, bias); repeated ids add up
  uint64_t seed = 0;

  /// True when a penalty looks at the history, so that counts must be kept.
  bool uses_counts() const noexcept {
    return presence_penalty != 0.0 || frequency_penalty != 0.0 || repetition_penalty != 1.0;
  }
};

/// What would make sample_token meaningless: NaN, infinities, values out of the ranges above, bias
/// for an id that is no token. invalid_input, naming the field.
config::Result<void> check_sampling_params(const SamplingParams& params, int32_t defined_vocab);

/// How often each token occurred, for penalties: repetition counts prompt and output, presence and
/// frequency output only.
class TokenCounts {
 public:
  TokenCounts() = default;
  /// All tokens of a prompt at once, in O(n log n): long prompts are counted off the engine thread.
  explicit TokenCounts(std::span<const int32_t> prompt);

  void add_prompt(int32_t token);
  void add_output(int32_t token);
  void remove_output(int32_t token);  ///< undo, for rejected drafts
  struct Count {
    int32_t token;
    int32_t output;
    bool in_prompt;
    friend bool operator==(const Count&, const Count&) = default;
  };
  /// Sorted by token; tokens that never occurred are absent.
  std::span<const Count> counts() const noexcept { return counts_; }

 private:
  Count& entry(int32_t token);

  std::vector<Count> counts_;
};

/// U in (0,1) of (seed, position, token); golden numbers in spec/speculative.md 6.3.
double keyed_uniform(uint64_t seed, uint64_t position, uint64_t token) noexcept;

/// One token of the vocabulary that may be chosen. The total order of candidates is logit
/// descending, then id ascending.
struct Candidate {
  double logit;  ///< after penalties and bias
  int32_t id;
};
constexpr bool precedes(const Candidate& a, const Candidate& b) noexcept {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/// Memory that sample_token reuses, so that a step allocates nothing once it has grown. Holds no
/// state between calls. Thread: one at a time.
struct SamplingScratch {
  std::vector<Candidate> candidates;
};

/// The token for a row, or nullopt when a logit of an allowed token is not finite (design.md 10:
/// never becomes a token).
///   logits   [vocab] float; ids at or above `defined_vocab` are padding rows and never sampled
///   position absolute position of the token being sampled
/// In this order, all in float64:
///   1. repetition penalty θ (Keskar et al. 2019, CTRL, 4.1; with the sign rule that every server
///      uses): l / θ for l > 0, else l · θ, for tokens of prompt and output
///   2. frequency and presence penalty (OpenAI's API reference): l − c·α_f − [c > 0]·α_p with c the
///      occurrences in the output
///   3. logit bias: l + b
///   4. temperature 0: the first candidate. Otherwise
///   5. top-k: the first k candidates
///   6. top-p: with w = exp((l − l_max) / T), candidates in order up to and including the one whose
///      cumulative w reaches p · Σw. Σw runs over the candidates left by top-k, in their order, or
///      in id order when top-k is off
///   7. min-p: candidates with (l − l_max) / T ≥ ln(min_p), that is p_i ≥ min_p · p_max
///   8. argmax of l / T − ln(−ln U(seed, position, id)); ties go to the earlier candidate
/// Precondition: check_sampling_params(params, defined_vocab) is ok and defined_vocab ≥ 1.
std::optional<int32_t> sample_token(std::span<const float> logits, const SamplingParams& params,
                                    const TokenCounts& counts, int32_t defined_vocab,
                                    uint64_t position, SamplingScratch& scratch);

/// The same with memory of its own.
std::optional<int32_t> sample_token(std::span<const float> logits, const SamplingParams& params,
                                    const TokenCounts& counts, int32_t defined_vocab,
                                    uint64_t position);

}  // namespace yoke::engine
