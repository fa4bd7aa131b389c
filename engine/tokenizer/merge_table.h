// The merge rules of byte-pair encoding, indexed by pair. Immutable: any thread may read it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace yoke::engine {

/// Two adjacent tokens that become one. Its place in the list is its rank: lower ranks go first.
struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
};

class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;
  /// Ranks and hash slots stay far from 32-bit limits.
  static constexpr size_t kMergesMax = size_t{1} << 24;

  /// At most kMergesMax merges. A pair that is listed twice has the later rank, as in the
  /// reference.
  explicit MergeTable(std::span<const Merge> merges);

  size_t size() const noexcept { return results_.size(); }
  /// Rank of the pair; kNoRank if it does not merge.
  uint32_t rank(int32_t left, int32_t right) const noexcept;
  int32_t result(uint32_t rank) const noexcept { return results_[rank]; }

 private:
  struct Slot {
    int32_t left = 0;
    int32_t right = 0;
    uint32_t rank = kNoRank;  ///< kNoRank: the slot is empty
  };

  size_t home(int32_t left, int32_t right) const noexcept;

  std::vector<Slot> slots_;  // open addressing, at most half full; a power of two
  std::vector<int32_t> results_;
  int shift_ = 0;  // keeps the top bits of the hash
};

}  // namespace yoke::engine
