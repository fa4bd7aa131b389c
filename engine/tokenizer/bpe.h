// Byte-pair encoding of one piece: of all adjacent pairs with a rule, the one of lowest rank merges
// first (leftmost on ties), until none is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/tokenizer/merge_table.h"
#include "engine/tokenizer/vocabulary.h"

namespace yoke::engine {

/// Scratch space of one thread; reuse it for the pieces of a text. Borrows vocabulary and table.
///
/// Short pieces: scan for the lowest rank, merge, repeat (n²/2 steps of a few bytes each).
/// Middle pieces: a linked list of tokens, and a heap of (rank, position).
/// Long pieces: the same list, and one bucket of positions per rank; buckets are taken by ascending
/// rank, their positions in ascending order. While a bucket is worked off, pairs of lower rank can
/// appear only where it has just merged; these few go through the heap at once. So the order is
/// exactly that of the definition, and a piece of n bytes costs O(n log n) at worst (sorting a
/// bucket), O(n) when buckets fill in order. (A heap alone takes 50 n steps on 10 MB of one
/// letter.)
class Merger {
 public:
  static constexpr size_t kShortPieceBytes = 24;
  static constexpr size_t kMiddlePieceBytes = 2048;  ///< pays for a table with a word per rank
  /// Positions are 32 bits wide.
  static constexpr size_t kPieceBytesMax = UINT32_MAX - 1;

  /// Each byte needs a token in `vocabulary`.
  Merger(const Vocabulary& vocabulary, const MergeTable& table);

  /// Appends the tokens of `piece` (not empty) to `ids`.
  void merge(std::string_view piece, std::vector<int32_t>& ids);

  /// Steps so far: pairs looked up, ranks scanned, positions pushed, popped and compared.
  uint64_t operations() const noexcept { return operations_; }

 private:
  void merge_short(std::string_view piece, std::vector<int32_t>& ids);
  void merge_linked(std::string_view piece, bool in_buckets, std::vector<int32_t>& ids);

  void lay_out(std::string_view piece, uint32_t current_rank);
  uint32_t take_lowest_bucket();
  void work_off(uint32_t rank);
  void drain_heap(uint32_t current_rank);
  void merge_at(uint32_t position, uint32_t current_rank);
  void set_pair(uint32_t left, uint32_t current_rank);
  void push_bucket(uint32_t rank, uint32_t position);

  uint32_t rank_of(int32_t left, int32_t right) {
    ++operations_;
    return table_.rank(left, right);
  }

  const Vocabulary& vocabulary_;
  const MergeTable& table_;
  uint64_t operations_ = 0;

  // For all but short pieces. A node is one token, named by the position of its first byte.
  struct Node {
    int32_t id;
    uint32_t previous;
    uint32_t next;
    uint32_t pair_rank;  ///< of this token and the next; kNoRank also for nodes merged away
  };
  struct Entry {  ///< of a bucket's list
    uint32_t position;
    uint32_t next;
  };
  std::vector<Node> nodes_;           // [bytes of the piece]
  std::vector<uint32_t> buckets_;     // [ranks] last entry of each bucket's list
  std::vector<Entry> entries_;        // of all buckets
  uint32_t free_entry_;               // head of the list of entries to use again
  std::vector<uint32_t> open_ranks_;  // min-heap: ranks whose bucket is not empty
  std::vector<uint32_t> positions_;   // of the bucket being worked off, ascending
  std::vector<uint64_t> heap_;        // min-heap of rank << 32 | position, below the current rank
};

}  // namespace yoke::engine
