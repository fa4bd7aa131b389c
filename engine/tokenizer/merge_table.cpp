#include "engine/tokenizer/merge_table.h"

#include <bit>

#include "config/check.h"

namespace yoke::engine {

MergeTable::MergeTable(std::span<const Merge> merges) {
  YOKE_CHECK(merges.size() <= kMergesMax, "too many merges");
  const size_t slots = std::bit_ceil(2 * merges.size() + 2);
  slots_.resize(slots);
  shift_ = 64 - std::countr_zero(slots);
  results_.reserve(merges.size());
  for (const Merge& merge : merges) {
    size_t at = home(merge.left, merge.right);
    while (slots_[at].rank != kNoRank &&
           (slots_[at].left != merge.left || slots_[at].right != merge.right))
      at = (at + 1) & (slots - 1);
    slots_[at] = {merge.left, merge.right, static_cast<uint32_t>(results_.size())};
    results_.push_back(merge.result);
  }
}

// Fibonacci hashing of the pair; an xor of the halves first, so that both reach the top bits.
size_t MergeTable::home(int32_t left, int32_t right) const noexcept {
  uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  key ^= key >> 29;
  return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> shift_);
}

uint32_t MergeTable::rank(int32_t left, int32_t right) const noexcept {
  const size_t mask = slots_.size() - 1;
  size_t at = home(left, right);
  while (slots_[at].rank != kNoRank) {
    if (slots_[at].left == left && slots_[at].right == right) return slots_[at].rank;
    at = (at + 1) & mask;
  }
  return kNoRank;
}

}  // namespace yoke::engine
