// How far one model's distributions are from another's, row by row. Pure; float64 with our own exp
// and log, so that a figure is the same on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace yoke::engine {

/// Two rows of logits over the same ids.
struct RowDivergence {
  double kl = 0;             ///< KL(reference ‖ tested) in nats, ≥ 0
  bool same_top = false;     ///< the likeliest id is the same (ties: the lower id)
  double reference_nll = 0;  ///< −ln p(next) in nats; 0 without `next`
  double nll = 0;            ///< the same for the tested row
};

/// nullopt when a logit is not finite: such a row has no distribution. `next` is the id that
/// follows in the text. Both rows have the same size, at least 1.
std::optional<RowDivergence> compare_rows(std::span<const float> reference,
                                          std::span<const float> tested,
                                          std::optional<int32_t> next);

/// Adds up rows of one or more texts.
struct Divergence {
  uint64_t rows = 0;
  uint64_t same_top = 0;
  double kl_sum = 0;
  double kl_max = 0;
  uint64_t predicted = 0;  ///< rows whose next id is known
  double reference_nll_sum = 0;
  double nll_sum = 0;

  void add(const RowDivergence& row, bool has_next);
  void add(const Divergence& other);

  double mean_kl() const { return rows == 0 ? 0.0 : kl_sum / static_cast<double>(rows); }
  /// Share of rows, 0 to 1; 1 without rows.
  double top1() const {
    return rows == 0 ? 1.0 : static_cast<double>(same_top) / static_cast<double>(rows);
  }
  double reference_perplexity() const;
  double perplexity() const;
};

}  // namespace yoke::engine
