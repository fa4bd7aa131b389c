#include "engine/kv_cache/prefix_cache.h"

#include <algorithm>

#include "config/check.h"

namespace yoke::engine {

bool PrefixCache::Before::operator()(std::span<const int32_t> a, std::span<const int32_t> b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

PrefixCache::PrefixCache(BlockPool& blocks, int32_t block_tokens, int32_t max_snapshots)
    : blocks_(blocks),
      block_tokens_(block_tokens),
      entries_(static_cast<size_t>(std::max(0, max_snapshots))) {
  YOKE_CHECK(block_tokens >= 1 && max_snapshots >= 0, "a prefix cache of negative size");
}

PrefixCache::~PrefixCache() = default;

int32_t PrefixCache::full_blocks(size_t tokens) const noexcept {
  return static_cast<int32_t>((tokens - 1) / static_cast<size_t>(block_tokens_));
}

std::span<const int32_t> PrefixCache::tail_of(std::span<const int32_t> tokens) const {
  return tokens.subspan(static_cast<size_t>(full_blocks(tokens.size())) *
                        static_cast<size_t>(block_tokens_));
}

std::span<const int32_t> PrefixCache::key_of(std::span<const int32_t> tokens, int32_t depth) const {
  const auto block = static_cast<size_t>(block_tokens_);
  return tokens.subspan(static_cast<size_t>(depth) * block, block + 1);
}

template <class Visit>
void PrefixCache::each_prefix(std::span<const int32_t> tokens, Visit&& visit) const {
  if (tokens.empty()) return;
  const Node* node = &root_;
  for (int32_t depth = 0;; ++depth) {
    const auto rest = tokens.subspan(static_cast<size_t>(depth * block_tokens_));
    for (const SnapshotId id : node->snapshots) {
      const std::vector<int32_t>& tail = entry(id).tail;
      if (tail.size() <= rest.size() && std::equal(tail.begin(), tail.end(), rest.begin()))
        visit(id);
    }
    if (depth == full_blocks(tokens.size())) return;
    const auto child = node->children.find(key_of(tokens, depth));
    if (child == node->children.end()) return;
    node = child->second.get();
  }
}

std::optional<PrefixCache::Match> PrefixCache::find(std::span<const int32_t> tokens) const {
  if (tokens.size() < 2) return std::nullopt;
  std::optional<SnapshotId> best;
  each_prefix(tokens.first(tokens.size() - 1), [&](SnapshotId id) {
    if (!best || entry(id).position > entry(*best).position) best = id;
  });
  if (!best) return std::nullopt;
  const Entry& found = entry(*best);
  Match match{*best, found.position, found.node->depth, 0};
  for (const Node* node = found.node; node->parent != nullptr; node = node->parent)
    match.idle_blocks += blocks_.references(node->block) == 1;
  return match;
}

void PrefixCache::acquire(const Match& match, std::vector<BlockId>& out) {
  Entry& found = entry(match.snapshot);
  YOKE_CHECK(found.state == Entry::State::kept && found.position == match.position,
             "acquiring a prefix that is not there any more");
  ++found.pins;
  found.last_use = ++uses_;
  const size_t first = out.size();
  out.resize(first + static_cast<size_t>(match.shared_blocks));
  for (const Node* node = found.node; node->parent != nullptr; node = node->parent) {
    blocks_.retain(node->block);
    out[first + static_cast<size_t>(node->depth) - 1] = node->block;
  }
}

void PrefixCache::unpin(SnapshotId id) {
  Entry& pinned = entry(id);
  YOKE_CHECK(pinned.pins > 0, "unpinning a snapshot that is not pinned");
  if (--pinned.pins == 0 && pinned.state == Entry::State::detached) pinned = {};
}

std::optional<SnapshotId> PrefixCache::reserve(std::span<const int32_t> tokens) {
  YOKE_CHECK(!tokens.empty(), "a snapshot of no tokens");
  bool kept = false;
  each_prefix(tokens, [&](SnapshotId id) {
    if (entry(id).position != static_cast<int32_t>(tokens.size())) return;
    entry(id).last_use = ++uses_;
    kept = true;
  });
  if (kept) return std::nullopt;
  const auto is_free = [](const Entry& e) { return e.state == Entry::State::free; };
  auto place = std::find_if(entries_.begin(), entries_.end(), is_free);
  if (place == entries_.end()) {
    const auto victim = least_useful(false);
    if (!victim) return std::nullopt;
    evict(*victim);
    place = entries_.begin() + static_cast<std::ptrdiff_t>(*victim);
  }
  place->state = Entry::State::reserved;
  return SnapshotId{static_cast<int32_t>(place - entries_.begin())};
}

void PrefixCache::publish(SnapshotId id, std::span<const int32_t> tokens,
                          std::span<const BlockId> blocks) {
  Entry& filled = entry(id);
  YOKE_CHECK(filled.state == Entry::State::reserved, "publishing a snapshot that is not reserved");
  const int32_t depth = full_blocks(tokens.size());
  YOKE_CHECK(blocks.size() >= static_cast<size_t>(depth), "publishing tokens without their blocks");
  Node* node = &root_;
  for (int32_t i = 0; i < depth; ++i) {
    const auto key = key_of(tokens, i);
    auto child = node->children.find(key);
    if (child == node->children.end()) {
      auto made = std::make_unique<Node>();
      made->parent = node;
      made->block = blocks[static_cast<size_t>(i)];
      made->depth = i + 1;
      blocks_.keep(made->block);
      child = node->children.emplace(std::vector<int32_t>(key.begin(), key.end()), std::move(made))
                  .first;
    }
    node = child->second.get();
  }
  const auto tail = tail_of(tokens);
  filled.state = Entry::State::kept;
  filled.node = node;
  filled.tail.assign(tail.begin(), tail.end());
  filled.position = static_cast<int32_t>(tokens.size());
  filled.last_use = ++uses_;
  node->snapshots.push_back(id);
}

void PrefixCache::abandon(SnapshotId id) {
  YOKE_CHECK(entry(id).state == Entry::State::reserved, "abandoning what is not reserved");
  entry(id) = {};
}

void PrefixCache::forget(std::span<const int32_t> tokens) {
  std::vector<SnapshotId> wrong;
  each_prefix(tokens, [&](SnapshotId id) { wrong.push_back(id); });
  for (const SnapshotId id : wrong) remove(id);
}

bool PrefixCache::make_free(int32_t count) {
  if (blocks_.free_blocks() >= count) return true;
  if (blocks_.free_blocks() + blocks_.idle_blocks() < count) return false;
  while (blocks_.free_blocks() < count) {
    const auto victim = least_useful(true);
    YOKE_CHECK(victim.has_value(), "idle blocks that no snapshot leads to");
    evict(*victim);
  }
  return true;
}

int32_t PrefixCache::snapshots() const noexcept {
  return static_cast<int32_t>(std::count_if(entries_.begin(), entries_.end(), [](const Entry& e) {
    return e.state != Entry::State::free;
  }));
}

bool PrefixCache::may_go(const Entry& e) const noexcept {
  return e.state == Entry::State::kept && e.pins == 0;
}

/// From the next shorter kept prefix on, its tokens would have to be computed again.
int32_t PrefixCache::tokens_lost_without(SnapshotId id) const {
  const Entry& e = entry(id);
  int32_t before = 0;
  for (const SnapshotId other : e.node->snapshots) {
    const std::vector<int32_t>& tail = entry(other).tail;
    if (tail.size() < e.tail.size() && std::equal(tail.begin(), tail.end(), e.tail.begin()))
      before = std::max(before, entry(other).position);
  }
  // A shorter one in a node above ends within the key of the node below it, so it may belong to
  // another branch; the tail decides.
  const auto key_above = [](const Node& node) -> std::span<const int32_t> {
    for (const auto& [key, child] : node.parent->children) {
      if (child.get() == &node) return key;
    }
    return {};
  };
  for (const Node* node = e.node; before == 0 && node->parent != nullptr; node = node->parent) {
    if (node->parent->snapshots.empty()) continue;
    const auto key = key_above(*node);
    for (const SnapshotId other : node->parent->snapshots) {
      const std::vector<int32_t>& tail = entry(other).tail;
      if (std::equal(tail.begin(), tail.end(), key.begin()))
        before = std::max(before, entry(other).position);
    }
  }
  return e.position - before;
}

int32_t PrefixCache::blocks_freed_without(SnapshotId id) const {
  int32_t freed = 0;
  size_t snapshots = 1, children = 0;  // of a node that would go
  for (const Node* node = entry(id).node; node->parent != nullptr; node = node->parent) {
    if (node->snapshots.size() != snapshots || node->children.size() != children) break;
    freed += blocks_.references(node->block) == 1;
    snapshots = 0;
    children = 1;
  }
  return freed;
}

double PrefixCache::usefulness(SnapshotId id) const {
  const Entry& e = entry(id);
  return static_cast<double>(tokens_lost_without(id)) / static_cast<double>(uses_ - e.last_use + 1);
}

std::optional<SnapshotId> PrefixCache::least_useful(bool freeing) const {
  struct Candidate {
    bool frees;
    double usefulness;
    SnapshotId id;
  };
  std::optional<Candidate> worst;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!may_go(entries_[i])) continue;
    const SnapshotId id{static_cast<int32_t>(i)};
    const Candidate c{freeing && blocks_freed_without(id) > 0, usefulness(id), id};
    if (!worst || (c.frees != worst->frees ? c.frees : c.usefulness < worst->usefulness)) worst = c;
  }
  if (!worst) return std::nullopt;
  return worst->id;
}

void PrefixCache::evict(SnapshotId id) {
  ++evictions_;
  remove(id);
}

void PrefixCache::remove(SnapshotId id) {
  Entry& e = entry(id);
  Node* node = e.node;
  std::erase(node->snapshots, id);
  const int32_t pins = e.pins;
  e = {};
  if (pins > 0) {
    e.state = Entry::State::detached;
    e.pins = pins;
  }
  prune(node);
}

/// Nodes that lead to no snapshot any more give their blocks back.
void PrefixCache::prune(Node* node) {
  while (node->parent != nullptr && node->snapshots.empty() && node->children.empty()) {
    Node* parent = node->parent;
    blocks_.drop(node->block);
    const auto self = std::find_if(parent->children.begin(), parent->children.end(),
                                   [&](const auto& child) { return child.second.get() == node; });
    parent->children.erase(self);
    node = parent;
  }
}

}  // namespace yoke::engine
