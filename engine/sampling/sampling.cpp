#include "engine/sampling/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "config/check.h"
#include "kernels/core/math.h"

namespace yoke::engine {
namespace {

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014).
constexpr uint64_t mix(uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// The part of the key that a whole row shares.
constexpr uint64_t row_key(uint64_t seed, uint64_t position) noexcept {
  return mix(mix(seed + 0x9E3779B97F4A7C15ull) ^ (position * 0xD1B54A32D192ED03ull));
}

double uniform(uint64_t key, uint64_t token) noexcept {
  const double u = static_cast<double>(mix(key ^ token) >> 11) * 0x1p-53 + 0x1p-54;
  // The largest of the 2^53 values would round to 1, whose noise is infinite.
  return std::min(u, 1.0 - 0x1p-53);
}

double gumbel(double u) noexcept {
  return -kernels::log64(-kernels::log64(u));
}

/// At least gumbel(u), without a logarithm: −ln u ≥ 1 − u, hence gumbel(u) ≤ −ln(1 − u) ≤ −e·ln 2
/// for 1 − u ≥ 2^e. The slack covers the rounding of log64 many times over.
double gumbel_bound(double u) noexcept {
  const auto exponent = static_cast<int>(std::bit_cast<uint64_t>(1.0 - u) >> 52) - 1023;
  return -exponent * 0.6931471805599454 + 1e-9;
}

/// argmax of l / T + noise over candidates in any order; the best so far is kept between calls.
class NoisyArgmax {
 public:
  NoisyArgmax(const SamplingParams& params, uint64_t position) noexcept
      : key_(row_key(params.seed, position)), temperature_(params.temperature) {}

  void offer(const Candidate& candidate) noexcept {
    const double scaled = candidate.logit / temperature_;
    const double u = uniform(key_, static_cast<uint64_t>(candidate.id));
    // Rounded addition is monotone: a bound that loses proves that the score itself loses.
    if (found_ && scaled + gumbel_bound(u) < score_) return;
    const double score = scaled + gumbel(u);
    if (found_ && (score < score_ || (score == score_ && precedes(best_, candidate)))) return;
    found_ = true;
    score_ = score;
    best_ = candidate;
  }

  int32_t id() const noexcept { return best_.id; }

 private:
  uint64_t key_;
  double temperature_;
  bool found_ = false;
  double score_ = 0;
  Candidate best_{};
};

/// Keeps the processed logits in a range in which differences do not overflow.
double bounded(double logit) noexcept {
  return std::clamp(logit, -1e300, 1e300);
}

void apply_penalties(std::vector<Candidate>& by_id, const SamplingParams& params,
                     const TokenCounts& counts) {
  if (params.uses_counts()) {
    for (const TokenCounts::Count& count : counts.counts()) {
      if (count.token < 0 || static_cast<size_t>(count.token) >= by_id.size()) continue;
      double& logit = by_id[static_cast<size_t>(count.token)].logit;
      logit = bounded(logit > 0 ? logit / params.repetition_penalty
                                : logit * params.repetition_penalty);
      if (count.output > 0) {
        logit -= count.output * params.frequency_penalty;
        logit -= params.presence_penalty;
      }
    }
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id >= 0 && static_cast<size_t>(id) < by_id.size())
      by_id[static_cast<size_t>(id)].logit += bias;
  }
}

/// A list of candidates of which a prefix is in order; the prefix grows on demand, because most
/// rows need only a few of 150,000.
class OrderedPrefix {
 public:
  explicit OrderedPrefix(std::span<Candidate> candidates) : candidates_(candidates) {}

  const Candidate& operator[](size_t i) {
    while (i >= ordered_) extend();
    return candidates_[i];
  }
  /// Orders at least the first `count`.
  void order(size_t count) {
    if (count <= ordered_) return;
    const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(ordered_);
    const auto middle = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
    if (count < candidates_.size()) std::nth_element(begin, middle, candidates_.end(), precedes);
    std::sort(begin, middle, precedes);
    ordered_ = count;
  }

 private:
  void extend() { order(std::min(candidates_.size(), std::max<size_t>(64, ordered_ * 8))); }

  std::span<Candidate> candidates_;
  size_t ordered_ = 0;
};

/// How many candidates top-p keeps of `candidates`, whose order starts as OrderedPrefix left it.
size_t top_p_count(std::span<const Candidate> candidates, OrderedPrefix& ordered, double max_logit,
                   const SamplingParams& params) {
  const auto weight = [&](const Candidate& c) {
    return kernels::exp64((c.logit - max_logit) / params.temperature);
  };
  double total = 0;
  for (const Candidate& c : candidates) total += weight(c);
  const double enough = params.top_p * total;
  double cumulative = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    cumulative += weight(ordered[i]);
    if (cumulative >= enough) return i + 1;
  }
  return candidates.size();
}

}  // namespace

config::Result<void> check_sampling_params(const SamplingParams& params, int32_t defined_vocab) {
  const auto refuse = [](const char* field, const char* wanted, double found) {
    return config::invalid_input(std::string(field) + ": want " + wanted + ", got " +
                                 std::to_string(found));
  };
  const auto in = [](double x, double low, double high) { return x >= low && x <= high; };
  constexpr double kMax = std::numeric_limits<double>::max();
  if (!in(params.temperature, 0, kMax))
    return refuse("temperature", "a finite number from 0", params.temperature);
  if (!in(params.top_p, 0, 1)) return refuse("top_p", "0 to 1", params.top_p);
  if (params.top_k < -1) return refuse("top_k", "-1 or more", params.top_k);
  if (!in(params.min_p, 0, 1)) return refuse("min_p", "0 to 1", params.min_p);
  // OpenAI's range is narrower; this one only keeps sums far from overflow.
  if (!in(params.presence_penalty, -1e6, 1e6))
    return refuse("presence_penalty", "-1e6 to 1e6", params.presence_penalty);
  if (!in(params.frequency_penalty, -1e6, 1e6))
    return refuse("frequency_penalty", "-1e6 to 1e6", params.frequency_penalty);
  if (!(params.repetition_penalty > 0) || params.repetition_penalty > kMax)
    return refuse("repetition_penalty", "a finite number above 0", params.repetition_penalty);
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= defined_vocab)
      return config::invalid_input("logit_bias: want token ids from 0 to " +
                                   std::to_string(defined_vocab - 1) + ", got " +
                                   std::to_string(id));
    if (!in(bias, -1e6, 1e6)) return refuse("logit_bias", "biases of -1e6 to 1e6", bias);
  }
  return {};
}

TokenCounts::TokenCounts(std::span<const int32_t> prompt) {
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  counts_.reserve(tokens.size());
  for (const int32_t token : tokens) counts_.push_back({token, 0, true});
}

TokenCounts::Count& TokenCounts::entry(int32_t token) {
  const auto at = std::lower_bound(counts_.begin(), counts_.end(), token,
                                   [](const Count& c, int32_t t) { return c.token < t; });
  if (at != counts_.end() && at->token == token) return *at;
  return *counts_.insert(at, {token, 0, false});
}

void TokenCounts::add_prompt(int32_t token) {
  entry(token).in_prompt = true;
}

void TokenCounts::add_output(int32_t token) {
  ++entry(token).output;
}

void TokenCounts::remove_output(int32_t token) {
  Count& count = entry(token);
  YOKE_CHECK(count.output > 0, "removing a token that was not counted");
  --count.output;
  if (count.output == 0 && !count.in_prompt)
    counts_.erase(counts_.begin() + (&count - counts_.data()));
}

double keyed_uniform(uint64_t seed, uint64_t position, uint64_t token) noexcept {
  return uniform(row_key(seed, position), token);
}

std::optional<int32_t> sample_token(std::span<const float> logits, const SamplingParams& params,
                                    const TokenCounts& counts, int32_t defined_vocab,
                                    uint64_t position, SamplingScratch& scratch) {
  YOKE_CHECK(defined_vocab >= 1 && !logits.empty(), "no token to sample from");
  const size_t allowed = std::min(logits.size(), static_cast<size_t>(defined_vocab));

  // From here to the truncation, candidate i is token i.
  std::vector<Candidate>& candidates = scratch.candidates;
  candidates.resize(allowed);
  for (size_t i = 0; i < allowed; ++i) {
    if (!std::isfinite(logits[i])) return std::nullopt;
    candidates[i] = {static_cast<double>(logits[i]), static_cast<int32_t>(i)};
  }
  apply_penalties(candidates, params, counts);

  Candidate top = candidates[0];
  for (const Candidate& c : candidates) {
    if (precedes(c, top)) top = c;
  }
  if (params.temperature == 0) return top.id;

  std::span<Candidate> kept(candidates);
  OrderedPrefix ordered(kept);
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < kept.size()) {
    ordered.order(static_cast<size_t>(params.top_k));
    kept = kept.first(static_cast<size_t>(params.top_k));
  }
  if (params.top_p < 1) kept = kept.first(top_p_count(kept, ordered, top.logit, params));

  const double log_min_p = kernels::log64(params.min_p);
  NoisyArgmax argmax(params, position);
  argmax.offer(top);  // a high score at the start lets the bound dismiss most of the others
  for (const Candidate& c : kept) {
    if (params.min_p > 0 && (c.logit - top.logit) / params.temperature < log_min_p) continue;
    argmax.offer(c);
  }
  return argmax.id();
}

std::optional<int32_t> sample_token(std::span<const float> logits, const SamplingParams& params,
                                    const TokenCounts& counts, int32_t defined_vocab,
                                    uint64_t position) {
  SamplingScratch scratch;
  return sample_token(logits, params, counts, defined_vocab, position, scratch);
}

}  // namespace yoke::engine
