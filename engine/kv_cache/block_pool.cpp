#include "engine/kv_cache/block_pool.h"

#include "config/check.h"

namespace yoke::engine {

BlockPool::BlockPool(int32_t num_blocks) {
  YOKE_CHECK(num_blocks >= 0, "a pool cannot have fewer than no blocks");
  references_.resize(static_cast<size_t>(num_blocks), 0);
  free_.reserve(static_cast<size_t>(num_blocks));
  for (int32_t i = num_blocks; i-- > 0;) free_.push_back(BlockId{i});  // block 0 goes first
}

size_t BlockPool::index_of(BlockId block) const {
  const auto index = static_cast<size_t>(block);
  YOKE_CHECK(index < references_.size(), "no such block");
  return index;
}

int32_t BlockPool::references(BlockId block) const {
  return references_[index_of(block)];
}

bool BlockPool::allocate(int32_t count, std::vector<BlockId>& out) {
  YOKE_CHECK(count >= 0, "negative number of blocks");
  if (count > free_blocks()) return false;
  for (int32_t i = 0; i < count; ++i) {
    out.push_back(free_.back());
    references_[index_of(free_.back())] = 1;
    free_.pop_back();
  }
  return true;
}

void BlockPool::retain(BlockId block) {
  int32_t& count = references_[index_of(block)];
  YOKE_CHECK(count > 0, "retaining a free block");
  ++count;
}

void BlockPool::release(BlockId block) {
  int32_t& count = references_[index_of(block)];
  YOKE_CHECK(count > 0, "releasing a free block");
  if (--count == 0) free_.push_back(block);
}

}  // namespace yoke::engine
