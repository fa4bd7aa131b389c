#include "engine/eval/divergence.h"

#include <algorithm>
#include <cmath>

#include "config/check.h"
#include "kernels/core/math.h"

namespace yoke::engine {
namespace {

/// The likeliest id and ln Σ exp(l − l_max).
struct Normaliser {
  int32_t top = 0;
  double max = 0;
  double log_sum = 0;
  double log_probability(float logit) const { return static_cast<double>(logit) - max - log_sum; }
};

std::optional<Normaliser> normaliser(std::span<const float> row) {
  Normaliser out;
  for (size_t id = 0; id < row.size(); ++id) {
    if (!std::isfinite(row[id])) return std::nullopt;
    if (row[id] > row[static_cast<size_t>(out.top)]) out.top = static_cast<int32_t>(id);
  }
  out.max = static_cast<double>(row[static_cast<size_t>(out.top)]);
  double sum = 0;
  for (const float logit : row) sum += kernels::exp64(static_cast<double>(logit) - out.max);
  out.log_sum = kernels::log64(sum);
  return out;
}

}  // namespace

std::optional<RowDivergence> compare_rows(std::span<const float> reference,
                                          std::span<const float> tested,
                                          std::optional<int32_t> next) {
  YOKE_CHECK(reference.size() == tested.size() && !reference.empty(),
             "rows of different vocabularies");
  const auto p = normaliser(reference);
  const auto q = normaliser(tested);
  if (!p || !q) return std::nullopt;
  RowDivergence out;
  for (size_t id = 0; id < reference.size(); ++id) {
    const double log_p = p->log_probability(reference[id]);
    out.kl += kernels::exp64(log_p) * (log_p - q->log_probability(tested[id]));
  }
  out.kl = std::max(out.kl, 0.0);  // what rounding leaves of equal rows
  out.same_top = p->top == q->top;
  if (next) {
    const auto id = static_cast<size_t>(*next);
    YOKE_CHECK(id < reference.size(), "the next id is beyond the row");
    out.reference_nll = -p->log_probability(reference[id]);
    out.nll = -q->log_probability(tested[id]);
  }
  return out;
}

void Divergence::add(const RowDivergence& row, bool has_next) {
  ++rows;
  same_top += row.same_top ? 1 : 0;
  kl_sum += row.kl;
  kl_max = std::max(kl_max, row.kl);
  if (!has_next) return;
  ++predicted;
  reference_nll_sum += row.reference_nll;
  nll_sum += row.nll;
}

void Divergence::add(const Divergence& other) {
  rows += other.rows;
  same_top += other.same_top;
  kl_sum += other.kl_sum;
  kl_max = std::max(kl_max, other.kl_max);
  predicted += other.predicted;
  reference_nll_sum += other.reference_nll_sum;
  nll_sum += other.nll_sum;
}

double Divergence::reference_perplexity() const {
  return predicted == 0 ? 1.0 : kernels::exp64(reference_nll_sum / static_cast<double>(predicted));
}
double Divergence::perplexity() const {
  return predicted == 0 ? 1.0 : kernels::exp64(nll_sum / static_cast<double>(predicted));
}

}  // namespace yoke::engine
