#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <array>

#include "config/check.h"

namespace yoke::engine {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

/// Order of a min-heap; counts the comparisons.
struct Later {
  uint64_t& operations;
  template <class T>
  bool operator()(T a, T b) const {
    ++operations;
    return a > b;
  }
};

}  // namespace

Merger::Merger(const Vocabulary& vocabulary, const MergeTable& table)
    : vocabulary_(vocabulary), table_(table), free_entry_(kNone) {}

void Merger::merge(std::string_view piece, std::vector<int32_t>& ids) {
  YOKE_CHECK(!piece.empty() && piece.size() <= kPieceBytesMax, "piece size");
  if (piece.size() <= kShortPieceBytes) {
    merge_short(piece, ids);
  } else {
    merge_linked(piece, piece.size() > kMiddlePieceBytes, ids);
  }
}

void Merger::merge_short(std::string_view piece, std::vector<int32_t>& ids) {
  std::array<int32_t, kShortPieceBytes> tokens;
  std::array<uint32_t, kShortPieceBytes> ranks;  // [i] of tokens i and i + 1
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i)
    tokens[i] = vocabulary_.byte_token(static_cast<uint8_t>(piece[i]));
  for (size_t i = 0; i + 1 < count; ++i) ranks[i] = rank_of(tokens[i], tokens[i + 1]);

  while (count > 1) {
    operations_ += count - 1;
    const auto lowest = std::min_element(ranks.begin(), ranks.begin() + (count - 1));
    if (*lowest == MergeTable::kNoRank) break;
    const auto at = static_cast<size_t>(lowest - ranks.begin());
    tokens[at] = table_.result(*lowest);
    operations_ += count - at;
    std::copy(tokens.begin() + at + 2, tokens.begin() + count, tokens.begin() + at + 1);
    std::copy(ranks.begin() + at + 1, ranks.begin() + (count - 1), ranks.begin() + at);
    --count;
    if (at > 0) ranks[at - 1] = rank_of(tokens[at - 1], tokens[at]);
    if (at + 1 < count) ranks[at] = rank_of(tokens[at], tokens[at + 1]);
  }
  ids.insert(ids.end(), tokens.begin(), tokens.begin() + count);
}

void Merger::merge_linked(std::string_view piece, bool in_buckets, std::vector<int32_t>& ids) {
  if (in_buckets) {
    if (buckets_.empty()) buckets_.assign(table_.size(), kNone);
    lay_out(piece, 0);
    while (!open_ranks_.empty()) work_off(take_lowest_bucket());
    entries_.clear();
    free_entry_ = kNone;
  } else {
    // Below the highest rank of all: everything goes through the heap.
    lay_out(piece, MergeTable::kNoRank);
    drain_heap(MergeTable::kNoRank);
  }
  for (uint32_t at = 0; at != kNone; at = nodes_[at].next) ids.push_back(nodes_[at].id);
}

// One node per byte, and every pair with a rule queued.
void Merger::lay_out(std::string_view piece, uint32_t current_rank) {
  const auto count = static_cast<uint32_t>(piece.size());
  nodes_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    nodes_[i] = {vocabulary_.byte_token(static_cast<uint8_t>(piece[i])), i == 0 ? kNone : i - 1,
                 i + 1 == count ? kNone : i + 1, MergeTable::kNoRank};
  }
  for (uint32_t i = 0; i + 1 < count; ++i) set_pair(i, current_rank);
}

// Moves the positions of the lowest rank to positions_ and returns the rank.
uint32_t Merger::take_lowest_bucket() {
  std::pop_heap(open_ranks_.begin(), open_ranks_.end(), Later{operations_});
  const uint32_t rank = open_ranks_.back();
  open_ranks_.pop_back();

  positions_.clear();
  for (uint32_t entry = buckets_[rank]; entry != kNone;) {
    ++operations_;
    positions_.push_back(entries_[entry].position);
    const uint32_t next = entries_[entry].next;
    entries_[entry].next = free_entry_;
    free_entry_ = entry;
    entry = next;
  }
  buckets_[rank] = kNone;
  // The list has the last entry first; mostly positions came in ascending order.
  std::reverse(positions_.begin(), positions_.end());
  const auto earlier = [this](uint32_t a, uint32_t b) { return Later{operations_}(b, a); };
  if (!std::is_sorted(positions_.begin(), positions_.end(), earlier))
    std::sort(positions_.begin(), positions_.end(), earlier);
  return rank;
}

void Merger::work_off(uint32_t rank) {
  for (const uint32_t position : positions_) {
    // A pair that has changed since has another rank, and an entry of its own.
    if (nodes_[position].pair_rank != rank) continue;
    merge_at(position, rank);
    drain_heap(rank);
  }
}

// Merges what has a lower rank than `current_rank`, lowest first.
void Merger::drain_heap(uint32_t current_rank) {
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), Later{operations_});
    const auto rank = static_cast<uint32_t>(heap_.back() >> 32);
    const auto position = static_cast<uint32_t>(heap_.back());
    heap_.pop_back();
    if (nodes_[position].pair_rank == rank) merge_at(position, current_rank);
  }
}

void Merger::merge_at(uint32_t position, uint32_t current_rank) {
  Node& node = nodes_[position];
  Node& gone = nodes_[node.next];
  node.id = table_.result(node.pair_rank);
  node.next = gone.next;
  if (gone.next != kNone) nodes_[gone.next].previous = position;
  gone.pair_rank = MergeTable::kNoRank;
  if (node.previous != kNone) set_pair(node.previous, current_rank);
  set_pair(position, current_rank);
}

// Looks up the pair that `left` now begins and queues it.
void Merger::set_pair(uint32_t left, uint32_t current_rank) {
  Node& node = nodes_[left];
  node.pair_rank = MergeTable::kNoRank;
  if (node.next == kNone) return;
  node.pair_rank = rank_of(node.id, nodes_[node.next].id);
  if (node.pair_rank == MergeTable::kNoRank) return;
  if (node.pair_rank < current_rank) {
    heap_.push_back(static_cast<uint64_t>(node.pair_rank) << 32 | left);
    std::push_heap(heap_.begin(), heap_.end(), Later{operations_});
  } else {
    push_bucket(node.pair_rank, left);
  }
}

void Merger::push_bucket(uint32_t rank, uint32_t position) {
  ++operations_;
  if (buckets_[rank] == kNone) {
    open_ranks_.push_back(rank);
    std::push_heap(open_ranks_.begin(), open_ranks_.end(), Later{operations_});
  }
  uint32_t entry = free_entry_;
  if (entry == kNone) {
    entry = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    free_entry_ = entries_[entry].next;
  }
  entries_[entry] = {position, buckets_[rank]};
  buckets_[rank] = entry;
}

}  // namespace yoke::engine
