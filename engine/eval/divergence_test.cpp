#include "engine/eval/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace yoke::engine {
namespace {

using Row = std::vector<float>;

TEST(CompareRows, equal_distributions_have_no_divergence) {
  const Row row = {1.0f, -2.0f, 0.5f, 30.0f};
  const auto same = compare_rows(row, row, 2);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->kl, 0.0);
  EXPECT_TRUE(same->same_top);
  EXPECT_EQ(same->nll, same->reference_nll);
  // A constant added to all logits changes nothing; here it is exact in binary.
  Row shifted = row;
  for (float& logit : shifted) logit += 64.0f;
  EXPECT_EQ(compare_rows(row, shifted, std::nullopt)->kl, 0.0);
}

TEST(CompareRows, figures_of_two_coins) {
  // p = (1/2, 1/2), q = (3/4, 1/4): KL = ln 2 − ln 3 / 2.
  const auto d = compare_rows(Row{0.0f, 0.0f}, Row{std::log(3.0f), 0.0f}, 1);
  ASSERT_TRUE(d);
  EXPECT_NEAR(d->kl, std::log(2.0) - std::log(3.0) / 2, 1e-7);
  EXPECT_NEAR(d->reference_nll, std::log(2.0), 1e-12);
  EXPECT_NEAR(d->nll, std::log(4.0), 1e-7);
  EXPECT_TRUE(d->same_top) << "of a tie the lower id";
  EXPECT_FALSE(compare_rows(Row{0.0f, 1.0f}, Row{1.0f, 0.0f}, std::nullopt)->same_top);
}

TEST(CompareRows, large_logits_neither_overflow_nor_lose_the_rest) {
  const auto d = compare_rows(Row{3e38f, -3e38f}, Row{-3e38f, 3e38f}, std::nullopt);
  ASSERT_TRUE(d);
  EXPECT_TRUE(std::isfinite(d->kl));
  EXPECT_GT(d->kl, 1e38);
}

TEST(CompareRows, rows_that_are_not_finite_have_no_distribution) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {std::nanf(""), inf, -inf}) {
    EXPECT_FALSE(compare_rows(Row{0.0f, bad}, Row{0.0f, 0.0f}, std::nullopt));
    EXPECT_FALSE(compare_rows(Row{0.0f, 0.0f}, Row{bad, 0.0f}, std::nullopt));
  }
}

TEST(DivergenceSums, texts_add_up_by_rows) {
  Divergence a;
  a.add({.kl = 0.1, .same_top = true, .reference_nll = 1, .nll = 2}, true);
  a.add({.kl = 0.3, .same_top = false}, false);
  Divergence sum;
  sum.add(a);
  sum.add({.kl = 0.2, .same_top = true, .reference_nll = 1, .nll = 2}, true);
  EXPECT_EQ(sum.rows, 3u);
  EXPECT_NEAR(sum.mean_kl(), 0.2, 1e-15);
  EXPECT_EQ(sum.kl_max, 0.3);
  EXPECT_NEAR(sum.top1(), 2.0 / 3, 1e-15);
  EXPECT_NEAR(sum.perplexity(), std::exp(2.0), 1e-12);
  EXPECT_NEAR(sum.reference_perplexity(), std::exp(1.0), 1e-12);
  EXPECT_EQ(Divergence{}.top1(), 1.0);
}

}  // namespace
}  // namespace yoke::engine
