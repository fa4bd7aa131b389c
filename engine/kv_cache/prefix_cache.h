// Which token prefixes can be resumed, and what is given up first. Pure accounting over tokens,
// blocks and numbered snapshots; the memory of both belongs to the model.
//
// A prefix of P tokens is resumable where a snapshot was taken: the state after P tokens and the
// rows of the block that holds token P - 1, which its owner may go on to write. The blocks before
// that one are full, never written again, and shared by reference.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/kv_cache/block_pool.h"

namespace yoke::engine {

/// A place of the model for one snapshot, 0 … max_snapshots - 1.
enum class SnapshotId : int32_t {};

/// Deterministic: time is the number of uses. Thread: one at a time.
class PrefixCache {
 public:
  /// Borrows the pool. Without snapshots nothing is ever found or kept.
  PrefixCache(BlockPool& blocks, int32_t block_tokens, int32_t max_snapshots);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Match {
    SnapshotId snapshot{};
    int32_t position = 0;       ///< tokens that need not be computed
    int32_t shared_blocks = 0;  ///< full blocks of these; the next one is filled by restoring
    int32_t idle_blocks = 0;    ///< of the shared blocks, those that only the cache holds now
  };
  /// The longest kept prefix of `tokens` that leaves a token to compute. Tokens are compared one by
  /// one.
  std::optional<Match> find(std::span<const int32_t> tokens) const;
  /// Takes what find() has just found: appends the shared blocks, with one reference each for the
  /// caller, to `out`; the snapshot stays until unpin() is called.
  void acquire(const Match& match, std::vector<BlockId>& out);
  void unpin(SnapshotId snapshot);

  /// A place for the state after `tokens`, taken from the least useful snapshot when none is free.
  /// nullopt: that prefix is kept already (and counts as used), or every place is in use.
  std::optional<SnapshotId> reserve(std::span<const int32_t> tokens);
  /// The reserved place is filled: find() finds it from now on. `blocks` are those of the sequence
  /// that computed `tokens`; the cache takes references of its own.
  void publish(SnapshotId snapshot, std::span<const int32_t> tokens,
               std::span<const BlockId> blocks);
  /// The reserved place was not filled.
  void abandon(SnapshotId snapshot);

  /// Drops every prefix of `tokens`: something that was computed from them is wrong.
  void forget(std::span<const int32_t> tokens);

  /// Drops the least useful prefixes until `count` blocks of the pool are free. False, and nothing
  /// is dropped, when the idle blocks would not do.
  bool make_free(int32_t count);

  /// Places that are filled or being filled.
  int32_t snapshots() const noexcept;
  int32_t max_snapshots() const noexcept { return static_cast<int32_t>(entries_.size()); }
  /// Snapshots that were dropped for another one or for blocks.
  uint64_t evictions() const noexcept { return evictions_; }

 private:
  struct Node;
  struct Before {  // lexicographic; looks vectors up by span
    using is_transparent = void;
    bool operator()(std::span<const int32_t> a, std::span<const int32_t> b) const;
  };
  /// One full block in the tree of prefixes. Its key is the block's tokens and the one after them:
  /// the MTP layer's last row of a block depends on that one too.
  struct Node {
    Node* parent = nullptr;
    BlockId block{};
    int32_t depth = 0;  // blocks from the root, this one included
    std::map<std::vector<int32_t>, std::unique_ptr<Node>, Before> children;
    std::vector<SnapshotId> snapshots;  // positions in (depth, depth + 1] · block_tokens
  };
  struct Entry {
    enum class State { free, reserved, kept, detached };  // detached: pinned, found no more
    State state = State::free;
    Node* node = nullptr;
    std::vector<int32_t> tail;  // the tokens after the node's blocks, 1 … block_tokens
    int32_t position = 0;
    int32_t pins = 0;
    uint64_t last_use = 0;
  };

  Entry& entry(SnapshotId id) { return entries_[static_cast<size_t>(id)]; }
  const Entry& entry(SnapshotId id) const { return entries_[static_cast<size_t>(id)]; }
  bool may_go(const Entry& entry) const noexcept;
  /// Blocks and tail of a prefix of so many tokens.
  int32_t full_blocks(size_t tokens) const noexcept;
  std::span<const int32_t> tail_of(std::span<const int32_t> tokens) const;
  std::span<const int32_t> key_of(std::span<const int32_t> tokens, int32_t depth) const;
  /// Calls `visit` for every kept prefix of `tokens`, shortest node first.
  template <class Visit>
  void each_prefix(std::span<const int32_t> tokens, Visit&& visit) const;
  int32_t tokens_lost_without(SnapshotId id) const;
  int32_t blocks_freed_without(SnapshotId id) const;
  double usefulness(SnapshotId id) const;
  /// The least useful that may go; with `freeing`, of those whose blocks become free, if any does.
  std::optional<SnapshotId> least_useful(bool freeing) const;
  void evict(SnapshotId id);
  void remove(SnapshotId id);
  void prune(Node* node);

  BlockPool& blocks_;
  const int32_t block_tokens_;
  Node root_;
  std::vector<Entry> entries_;  // by SnapshotId
  uint64_t uses_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace yoke::engine
