// Who owns which block of the paged caches. Pure accounting: the memory itself belongs to the
// model. Blocks are counted by reference, so that sequences with a common prefix can share them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace yoke::engine {

/// A physical block of the paged caches: row 0 of it is cache row id · block_tokens.
enum class BlockId : int32_t {};

/// Deterministic: the same calls hand out the same blocks. Thread: one at a time.
class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  int32_t size() const noexcept { return static_cast<int32_t>(references_.size()); }
  int32_t free_blocks() const noexcept { return static_cast<int32_t>(free_.size()); }
  int32_t used_blocks() const noexcept { return size() - free_blocks(); }
  /// Holders of a block; 0 = free.
  int32_t references(BlockId block) const;

  /// Appends `count` blocks with one reference each to `out`. All or nothing: false when fewer are
  /// free.
  [[nodiscard]] bool allocate(int32_t count, std::vector<BlockId>& out);
  /// One more holder of a block that is in use.
  void retain(BlockId block);
  /// One holder less; the last one frees the block. Releasing a free block is a bug.
  void release(BlockId block);

  /// One more holder, the prefix cache: the block is idle as long as that is the only one. A block
  /// is kept once at most.
  void keep(BlockId block);
  /// The prefix cache holds it no more.
  void drop(BlockId block);
  int32_t idle_blocks() const noexcept { return idle_; }

 private:
  size_t index_of(BlockId block) const;

  std::vector<int32_t> references_;  // [blocks]
  std::vector<bool> kept_;           // [blocks]
  int32_t idle_ = 0;                 // kept, with one reference
  std::vector<BlockId> free_;        // a stack: recently used blocks are still warm in the caches
};

}  // namespace yoke::engine
