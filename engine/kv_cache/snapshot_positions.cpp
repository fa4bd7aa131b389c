#include "engine/kv_cache/snapshot_positions.h"

#include <algorithm>

namespace yoke::engine {

std::vector<int32_t> snapshot_positions(std::span<const int32_t> boundaries,
                                        int32_t prompt_tokens) {
  const auto first =
      std::find_if(boundaries.begin(), boundaries.end(), [](int32_t b) { return b >= 1; });
  const auto end =
      std::find_if(first, boundaries.end(), [&](int32_t b) { return b >= prompt_tokens; });
  if (first == end) {
    if (!boundaries.empty() || prompt_tokens < 2) return {};
    return {prompt_tokens - 1};
  }
  const int32_t last = *std::prev(end);
  if (*first >= kFirstMessageTokens && *first < last) return {*first, last};
  return {last};
}

}  // namespace yoke::engine
