#include "engine/testing/reference_ties.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/index_select/index_select.h"

namespace yoke::engine {

namespace {

/// The set that torch.topk takes on a CPU: a partial sort of (score, index) pairs for a small k,
/// else nth_element, comparing scores alone.
std::vector<int32_t> torch_top_k(const std::vector<float>& scores, int64_t k) {
  std::vector<std::pair<float, int64_t>> queue;
  for (size_t i = 0; i < scores.size(); ++i) queue.emplace_back(scores[i], i);
  const auto greater = [](const auto& a, const auto& b) { return a.first > b.first; };
  if (k * 64 <= static_cast<int64_t>(queue.size())) {
    std::partial_sort(queue.begin(), queue.begin() + k, queue.end(), greater);
  } else {
    std::nth_element(queue.begin(), queue.begin() + k - 1, queue.end(), greater);
  }
  std::vector<int32_t> chosen;
  for (int64_t i = 0; i < k; ++i)
    chosen.push_back(static_cast<int32_t>(queue[static_cast<size_t>(i)].second));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace

void ReferenceTies::operator()(const Selection& selection) {
  for (int32_t row = 0; row < selection.rows.rows; ++row) {
    if (selection.rows.slot[row] >= 0) force_row(selection, row);
  }
}

void ReferenceTies::force_row(const Selection& s, int32_t row) {
  const int32_t m = config_.index_kpool;
  const int32_t top = config_.index_topk / m;
  const int32_t complete = (s.rows.position[row] + 1) / m;
  if (complete <= top) return;

  const kernels::SequenceRows& sequence = s.rows.sequences[s.rows.sequence[row]];
  const int32_t all = (sequence.start_position + sequence.rows) / m;
  std::vector<float> scores(static_cast<size_t>(all), -std::numeric_limits<float>::infinity());
  kernels::index_scores(scores.data(), complete, row, s.index_q, s.index_w, s.pools, m, s.rows);

  std::vector<float> sorted = scores;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  if (sorted[static_cast<size_t>(top) - 1] != sorted[static_cast<size_t>(top)]) return;

  ++forced_;
  int32_t* list = s.selected.as<int32_t>() + int64_t{row} * s.selected.dim(1);
  for (const int32_t pool : torch_top_k(scores, top)) {
    for (int32_t j = 0; j < m; ++j) *list++ = pool * m + j;
  }
}

}  // namespace yoke::engine
