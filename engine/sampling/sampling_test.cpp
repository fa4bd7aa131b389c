#include "engine/sampling/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace yoke::engine {
namespace {

const TokenCounts kNoHistory;

SamplingParams with_temperature(double temperature) {
  SamplingParams params;
  params.temperature = temperature;
  return params;
}

std::optional<int32_t> sample(const std::vector<float>& logits, const SamplingParams& params,
                              uint64_t position = 0, const TokenCounts& counts = kNoHistory) {
  return sample_token(logits, params, counts, static_cast<int32_t>(logits.size()), position);
}

/// Upper 0.1 % point of chi-square (Wilson and Hilferty 1931).
double chi_square_limit(size_t degrees) {
  const double k = static_cast<double>(degrees);
  const double root = 1 - 2 / (9 * k) + 3.0902 * std::sqrt(2 / (9 * k));
  return k * root * root * root;
}

/// Sum over tokens of (seen - expected)²/expected for `draws` rows that differ by position only.
double chi_square(const std::vector<float>& logits, const SamplingParams& params,
                  const std::vector<double>& probabilities, int draws) {
  std::vector<int> seen(logits.size());
  for (int i = 0; i < draws; ++i)
    ++seen[static_cast<size_t>(*sample(logits, params, static_cast<uint64_t>(i)))];
  double sum = 0;
  for (size_t id = 0; id < logits.size(); ++id) {
    const double expected = draws * probabilities[id];
    if (expected == 0) {
      EXPECT_EQ(seen[id], 0) << "token " << id << " was cut off";
      continue;
    }
    sum += (seen[id] - expected) * (seen[id] - expected) / expected;
  }
  return sum;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> p;
  for (const float l : logits) p.push_back(std::exp(l / temperature));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

/// The definition in the header, written again without any shortcut.
int32_t sample_plainly(const std::vector<float>& logits, const SamplingParams& params,
                       uint64_t position) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size())
    order.resize(static_cast<size_t>(params.top_k));
  const double top = logits[static_cast<size_t>(order[0])];
  const auto p = [&](int32_t id) {
    return std::exp((logits[static_cast<size_t>(id)] - top) / params.temperature);
  };
  double total = 0;
  for (const int32_t id : order) total += p(id);
  double before = 0;
  size_t kept = 0;
  while (kept < order.size() && (kept == 0 || before < params.top_p * total))
    before += p(order[kept++]);
  order.resize(kept);
  std::erase_if(order, [&](int32_t id) { return p(id) < params.min_p; });
  int32_t best = -1;
  double best_score = -std::numeric_limits<double>::infinity();
  for (const int32_t id : order) {
    const double u = keyed_uniform(params.seed, position, static_cast<uint64_t>(id));
    const double score =
        logits[static_cast<size_t>(id)] / params.temperature - std::log(-std::log(u));
    if (score > best_score) {
      best = id;
      best_score = score;
    }
  }
  return best;
}

TEST(KeyedUniform, golden_numbers_of_the_specification) {
  EXPECT_EQ(keyed_uniform(1234, 10, 64), 0.24761079589589802);
  EXPECT_EQ(keyed_uniform(1234, 10, 19), 0.18504182657158424);
  EXPECT_EQ(keyed_uniform(1234, 11, 64), 0.7888105591436856);
  EXPECT_EQ(keyed_uniform(0, 0, 0), 0.20310281705476102);
}

TEST(KeyedUniform, is_flat_over_tokens_positions_and_seeds) {
  constexpr int kBins = 64, kDraws = 64000;
  for (int axis = 0; axis < 3; ++axis) {
    std::vector<int> bins(kBins);
    for (uint64_t i = 0; i < kDraws; ++i) {
      const double u = keyed_uniform(axis == 0 ? i : 7, axis == 1 ? i : 8, axis == 2 ? i : 9);
      ASSERT_GT(u, 0);
      ASSERT_LT(u, 1);
      ++bins[static_cast<size_t>(u * kBins)];
    }
    double sum = 0;
    for (const int n : bins) sum += (n - 1000.0) * (n - 1000.0) / 1000.0;
    EXPECT_LT(sum, chi_square_limit(kBins - 1)) << "axis " << axis;
  }
}

TEST(SampleToken, greedy_takes_the_largest_and_the_lower_id_of_a_tie) {
  EXPECT_EQ(sample({1, 5, 3}, with_temperature(0)), 1);
  EXPECT_EQ(sample({1, 5, 3, 5, 5}, with_temperature(0)), 1);
  EXPECT_EQ(sample({-0.0f, 0.0f}, with_temperature(0)), 0) << "zeros of both signs are equal";
}

TEST(SampleToken, padding_ids_are_never_sampled_and_may_hold_anything) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> logits = {1, 2, 99, nan};
  EXPECT_EQ(sample_token(logits, with_temperature(0), kNoHistory, 2, 0), 1);
  for (uint64_t position = 0; position < 200; ++position) {
    const auto token = sample_token(logits, with_temperature(2), kNoHistory, 2, position);
    ASSERT_TRUE(token.has_value());
    EXPECT_LT(*token, 2);
  }
}

TEST(SampleToken, a_logit_that_is_not_finite_gives_no_token) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bad : {inf, -inf, nan}) {
    for (size_t at = 0; at < 3; ++at) {
      std::vector<float> logits = {1, 2, 3};
      logits[at] = bad;
      EXPECT_EQ(sample(logits, with_temperature(0)), std::nullopt) << bad << " at " << at;
      EXPECT_EQ(sample(logits, with_temperature(1)), std::nullopt) << bad << " at " << at;
    }
  }
}

TEST(SampleToken, follows_softmax_at_every_temperature) {
  const std::vector<float> logits = {0.5f, -1, 2, 1.5f, 0, 0, -2, 1};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    SamplingParams params = with_temperature(temperature);
    params.seed = 42;
    EXPECT_LT(chi_square(logits, params, softmax(logits, temperature), 100000),
              chi_square_limit(logits.size() - 1))
        << "temperature " << temperature;
  }
}

TEST(SampleToken, truncated_rows_follow_the_renormalised_softmax) {
  const std::vector<float> logits = {0.5f, -1, 2, 1.5f, 0, 0, -2, 1};
  SamplingParams params = with_temperature(1);
  params.seed = 43;
  params.top_k = 5;
  params.top_p = 0.9;
  params.min_p = 0.1;
  std::vector<double> p = softmax(logits, 1);
  for (const size_t cut : {1, 5, 6}) p[cut] = 0;  // top-k keeps 2, 3, 7, 0, 4
  // Shares of these five: .447 .271 .164 .100 .060 of .942 in all; 0.9 of it is crossed at token 0.
  p[4] = 0;
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  EXPECT_LT(chi_square(logits, params, p, 50000), chi_square_limit(3));
}

TEST(SampleToken, different_seeds_draw_independently) {
  const std::vector<float> logits(16, 0.0f);
  int equal = 0;
  for (uint64_t position = 0; position < 16000; ++position) {
    SamplingParams a = with_temperature(1), b = with_temperature(1);
    b.seed = 1;
    equal += sample(logits, a, position) == sample(logits, b, position);
  }
  EXPECT_NEAR(equal, 1000, 4 * std::sqrt(1000.0));
}

TEST(SampleToken, top_p_keeps_up_to_and_including_the_token_that_crosses) {
  // Probabilities 0.5, 0.25, 0.125, 0.125 up to the rounding of the logits.
  const std::vector<float> logits = {std::log(4.0f), std::log(2.0f), 0, 0};
  const auto kept = [&](double top_p) {
    SamplingParams params = with_temperature(1);
    params.top_p = top_p;
    std::set<int32_t> seen;
    for (uint64_t position = 0; position < 500; ++position)
      seen.insert(*sample(logits, params, position));
    return seen;
  };
  EXPECT_EQ(kept(0), (std::set<int32_t>{0})) << "0 means the smallest set";
  EXPECT_EQ(kept(0.4), (std::set<int32_t>{0}));
  EXPECT_EQ(kept(0.6), (std::set<int32_t>{0, 1})) << "token 1 crosses and stays";
  EXPECT_EQ(kept(0.8), (std::set<int32_t>{0, 1, 2})) << "of equal logits the lower id comes first";
  EXPECT_EQ(kept(0.9), (std::set<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(kept(1), (std::set<int32_t>{0, 1, 2, 3}));
}

TEST(SampleToken, top_p_that_is_reached_exactly_needs_no_further_token) {
  SamplingParams params = with_temperature(1);
  params.top_p = 0.5;
  std::set<int32_t> seen;
  for (uint64_t position = 0; position < 300; ++position)
    seen.insert(*sample({1, 1, 1, 1}, params, position));
  EXPECT_EQ(seen, (std::set<int32_t>{0, 1}));
}

TEST(SampleToken, top_k_resolves_ties_at_its_border_by_id) {
  SamplingParams params = with_temperature(1);
  params.top_k = 2;
  for (uint64_t position = 0; position < 300; ++position) {
    const int32_t token = *sample({1, 1, 2, 1}, params, position);
    EXPECT_TRUE(token == 2 || token == 0) << token;
  }
}

TEST(SampleToken, top_k_and_minus_one_and_zero) {
  std::set<int32_t> seen_off, seen_one;
  for (const int32_t off : {0, -1}) {
    SamplingParams params = with_temperature(1);
    params.top_k = off;
    for (uint64_t position = 0; position < 300; ++position)
      seen_off.insert(*sample({1, 1.2f, 1.1f}, params, position));
  }
  SamplingParams one = with_temperature(2);
  one.top_k = 1;
  for (uint64_t position = 0; position < 300; ++position)
    seen_one.insert(*sample({1, 1.2f, 1.1f}, one, position));
  EXPECT_EQ(seen_off.size(), 3u);
  EXPECT_EQ(seen_one, (std::set<int32_t>{1}));
}

TEST(SampleToken, min_p_is_relative_to_the_top) {
  SamplingParams params = with_temperature(1);
  params.min_p = 0.3;
  std::set<int32_t> seen;
  for (uint64_t position = 0; position < 1000; ++position)
    seen.insert(*sample({0, std::log(0.31f), std::log(0.29f)}, params, position));
  EXPECT_EQ(seen, (std::set<int32_t>{0, 1}));
}

TEST(SampleToken, min_p_one_keeps_the_ties_of_the_top) {
  SamplingParams params = with_temperature(1);
  params.min_p = 1;
  std::set<int32_t> seen;
  for (uint64_t position = 0; position < 300; ++position)
    seen.insert(*sample({3, 2.999f, 3}, params, position));
  EXPECT_EQ(seen, (std::set<int32_t>{0, 2}));
}

TEST(SampleToken, equals_the_plain_definition_on_random_rows) {
  constexpr uint64_t kSeed = 20240817;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    const size_t vocab = 1 + random() % 2000;
    std::normal_distribution<float> normal(0, 0.5f + static_cast<float>(random() % 8));
    std::vector<float> logits(vocab);
    // Coarse values on every third row, so that ties are common.
    for (float& l : logits) l = round % 3 == 0 ? std::round(normal(random)) : normal(random);
    SamplingParams params = with_temperature(0.1 + static_cast<double>(random() % 20) / 10);
    params.seed = random();
    if (random() % 2 == 0) params.top_k = static_cast<int32_t>(random() % 100);
    if (random() % 2 == 0) params.top_p = static_cast<double>(random() % 1000) / 1000;
    if (random() % 2 == 0) params.min_p = static_cast<double>(random() % 100) / 200;
    const uint64_t position = random() % 100000;
    EXPECT_EQ(*sample(logits, params, position), sample_plainly(logits, params, position))
        << "seed " << kSeed << " round " << round;
  }
}

TEST(SampleToken, scratch_of_another_row_changes_nothing) {
  SamplingScratch scratch;
  SamplingParams params = with_temperature(1);
  params.top_p = 0.8;
  const std::vector<float> large(5000, 1.0f), small = {1, 2, 3};
  for (uint64_t position = 0; position < 50; ++position) {
    static_cast<void>(sample_token(large, params, kNoHistory, 5000, position, scratch));
    EXPECT_EQ(sample_token(small, params, kNoHistory, 3, position, scratch),
              sample(small, params, position));
  }
}

TEST(SampleToken, tiny_temperatures_tend_to_greedy) {
  for (const double temperature : {1e-6, 1e-300, 5e-324}) {
    for (const float shift : {-10.0f, 0.0f, 10.0f}) {
      SamplingParams params = with_temperature(temperature);
      params.top_p = 0.99;
      params.min_p = 0.01;
      EXPECT_EQ(sample({shift + 1, shift + 3, shift + 2}, params), 1)
          << temperature << " " << shift;
    }
  }
}

TEST(Penalties, repetition_divides_positive_and_multiplies_negative_logits) {
  TokenCounts counts(std::vector<int32_t>{0});
  counts.add_output(1);
  SamplingParams params = with_temperature(0);
  params.repetition_penalty = 2;
  // 4 / 2 = 2 of the prompt, 6 / 2 = 3 of the output: both below the unseen 3.5.
  EXPECT_EQ(sample({4, 6, 3.5f}, params, 0, counts), 2);
  EXPECT_EQ(sample({4, 7.5f, 3.5f}, params, 0, counts), 1);
  // -1 · 2 = -2, -1.5 · 2 = -3 against an unseen -1.9.
  EXPECT_EQ(sample({-1, -1.5f, -1.9f}, params, 0, counts), 2);
  EXPECT_EQ(sample({-1, -1.5f, -2.1f}, params, 0, counts), 0);
}

TEST(Penalties, presence_counts_output_once_and_frequency_each_time) {
  TokenCounts counts(std::vector<int32_t>{2});
  for (int i = 0; i < 3; ++i) counts.add_output(0);
  counts.add_output(1);
  SamplingParams presence = with_temperature(0);
  presence.presence_penalty = 1;
  EXPECT_EQ(sample({5.5f, 5, 4.6f}, presence, 0, counts), 2) << "the prompt does not count";
  EXPECT_EQ(sample({5.7f, 5, 4.6f}, presence, 0, counts), 0);
  SamplingParams frequency = with_temperature(0);
  frequency.frequency_penalty = 1;
  EXPECT_EQ(sample({7.5f, 5.7f, 4.6f}, frequency, 0, counts), 1) << "4.5, 4.7, 4.6";
  EXPECT_EQ(sample({7.8f, 5.7f, 4.6f}, frequency, 0, counts), 0) << "4.8, 4.7, 4.6";
}

TEST(Penalties, repetition_comes_before_presence_and_frequency_and_bias) {
  TokenCounts counts;
  counts.add_output(0);
  SamplingParams params = with_temperature(0);
  params.repetition_penalty = 2;
  params.presence_penalty = 0.5;
  params.frequency_penalty = 0.25;
  params.logit_bias = {{0, 0.125}};
  // 8 / 2 - 0.25 - 0.5 + 0.125 = 3.375
  EXPECT_EQ(sample({8, 3.374f}, params, 0, counts), 0);
  EXPECT_EQ(sample({8, 3.376f}, params, 0, counts), 1);
}

TEST(Penalties, extreme_values_stay_ordered) {
  TokenCounts counts;
  counts.add_output(0);
  SamplingParams params = with_temperature(1);
  params.top_p = 0.9;
  params.repetition_penalty = 5e-324;
  EXPECT_EQ(sample({8, 3}, params, 0, counts), 0);
  EXPECT_EQ(sample({3e38f, -3e38f}, params, 0, counts), 0);
}

TEST(LogitBias, hundred_forces_and_minus_hundred_bans) {
  SamplingParams params = with_temperature(1);
  params.logit_bias = {{2, 100}};
  for (uint64_t position = 0; position < 200; ++position)
    EXPECT_EQ(sample({10, 20, -10, 5}, params, position), 2);
  params.logit_bias = {{1, -100}};
  for (uint64_t position = 0; position < 200; ++position)
    EXPECT_NE(sample({10, 20, -10, 5}, params, position), 1);
}

TEST(LogitBias, order_of_entries_is_irrelevant_and_repeated_ids_add_up) {
  SamplingParams a = with_temperature(0), b = with_temperature(0);
  a.logit_bias = {{0, 1}, {2, 3}, {0, 1.5}};
  b.logit_bias = {{2, 3}, {0, 1.5}, {0, 1}};
  const std::vector<float> logits = {2, 4.25f, 1.375f};
  EXPECT_EQ(sample(logits, a), 0);
  EXPECT_EQ(sample(logits, b), 0);
}

TEST(TokenCounts, order_of_additions_is_irrelevant) {
  TokenCounts a(std::vector<int32_t>{5, 3, 5, 9}), b;
  for (const int32_t token : {9, 5, 3}) b.add_prompt(token);
  for (const int32_t token : {3, 7, 3}) a.add_output(token);
  for (const int32_t token : {7, 3, 3}) b.add_output(token);
  EXPECT_TRUE(std::ranges::equal(a.counts(), b.counts()));
  const std::vector<TokenCounts::Count> want = {
      {3, 2, true}, {5, 0, true}, {7, 1, false}, {9, 0, true}};
  EXPECT_TRUE(std::ranges::equal(a.counts(), want));
}

TEST(TokenCounts, removing_undoes_adding) {
  TokenCounts counts(std::vector<int32_t>{5});
  counts.add_output(5);
  counts.add_output(6);
  counts.remove_output(6);
  counts.remove_output(5);
  EXPECT_TRUE(std::ranges::equal(counts.counts(), TokenCounts(std::vector<int32_t>{5}).counts()));
}

TEST(CheckSamplingParams, accepts_the_defaults_and_the_corners) {
  EXPECT_TRUE(check_sampling_params({}, 10).ok());
  SamplingParams corners;
  corners.temperature = 0;
  corners.top_p = 0;
  corners.top_k = -1;
  corners.min_p = 1;
  corners.presence_penalty = -2;
  corners.logit_bias = {{0, -100}, {9, 100}};
  EXPECT_TRUE(check_sampling_params(corners, 10).ok());
}

TEST(CheckSamplingParams, refuses_by_name) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto refused = [](auto change) {
    SamplingParams params;
    change(params);
    const auto result = check_sampling_params(params, 10);
    return result.ok() ? std::string() : result.error().message;
  };
  EXPECT_EQ(refused([&](auto& p) { p.temperature = nan; }).rfind("temperature:", 0), 0u);
  EXPECT_EQ(refused([](auto& p) { p.temperature = -1; }).rfind("temperature:", 0), 0u);
  EXPECT_EQ(refused([](auto& p) { p.top_p = 1.5; }).rfind("top_p:", 0), 0u);
  EXPECT_EQ(refused([](auto& p) { p.top_k = -2; }).rfind("top_k:", 0), 0u);
  EXPECT_EQ(refused([&](auto& p) { p.min_p = nan; }).rfind("min_p:", 0), 0u);
  EXPECT_EQ(refused([&](auto& p) { p.presence_penalty = nan; }).rfind("presence_penalty:", 0), 0u);
  EXPECT_EQ(refused([](auto& p) { p.frequency_penalty = 1e9; }).rfind("frequency_penalty:", 0), 0u);
  EXPECT_EQ(refused([](auto& p) { p.repetition_penalty = 0; }).rfind("repetition_penalty:", 0), 0u);
  EXPECT_EQ(refused([](auto& p) { p.logit_bias = {{10, 0}}; }).rfind("logit_bias:", 0), 0u);
  EXPECT_EQ(refused([&](auto& p) { p.logit_bias = {{1, nan}}; }).rfind("logit_bias:", 0), 0u);
}

}  // namespace
}  // namespace yoke::engine
