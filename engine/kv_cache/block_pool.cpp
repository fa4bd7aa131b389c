#include "engine/kv_cache/block_pool.h"

#include "config/check.h"

namespace yoke::engine {

BlockPool::BlockPool(int32_t num_blocks) {
  YOKE_CHECK(num_blocks >= 0, "a pool cannot have fewer than no blocks");
  references_.resize(static_cast<size_t>(num_blocks), 0);
  kept_.resize(static_cast<size_t>(num_blocks), false);
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
  const size_t index = index_of(block);
  int32_t& count = references_[index];
  YOKE_CHECK(count > 0, "retaining a free block");
  idle_ -= kept_[index] && count == 1;
  ++count;
}

void BlockPool::release(BlockId block) {
  const size_t index = index_of(block);
  int32_t& count = references_[index];
  YOKE_CHECK(count > (kept_[index] ? 1 : 0), "releasing a free block");
  idle_ += kept_[index] && count == 2;
  if (--count == 0) free_.push_back(block);
}

void BlockPool::keep(BlockId block) {
  const size_t index = index_of(block);
  YOKE_CHECK(!kept_[index], "keeping a block twice");
  retain(block);
  kept_[index] = true;
}

void BlockPool::drop(BlockId block) {
  const size_t index = index_of(block);
  YOKE_CHECK(kept_[index], "dropping a block that is not kept");
  idle_ -= references_[index] == 1;
  kept_[index] = false;
  release(block);
}

}  // namespace yoke::engine
