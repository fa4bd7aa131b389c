#include "engine/tokenizer/vocabulary.h"

#include <algorithm>

#include "config/check.h"

namespace yoke::engine {

bool Vocabulary::add(int32_t id, std::string bytes, Kind kind) {
  YOKE_CHECK(id >= 0 && id < kIdsMax, "token id out of range");
  YOKE_CHECK(kind != Kind::undefined && !bytes.empty(), "a token needs a kind and bytes");
  if (id < size() && this->kind(id) != Kind::undefined) return false;
  if (id >= size()) tokens_.resize(static_cast<size_t>(id) + 1);
  const std::string_view kept = storage_.emplace_back(std::move(bytes));
  tokens_[static_cast<size_t>(id)] = {kept, kind};
  longest_bytes_ = std::max(longest_bytes_, kept.size());
  if (kind == Kind::ordinary) {
    const bool fresh = ordinary_.emplace(kept, id).second;
    YOKE_CHECK(fresh, "two ordinary tokens of the same bytes");
    if (kept.size() == 1) byte_tokens_[static_cast<uint8_t>(kept[0])] = id;
  }
  return true;
}

Vocabulary::Kind Vocabulary::kind(int32_t id) const noexcept {
  return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)].kind : Kind::undefined;
}

std::string_view Vocabulary::bytes(int32_t id) const noexcept {
  return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)].bytes : std::string_view{};
}

std::optional<int32_t> Vocabulary::find(std::string_view bytes) const noexcept {
  if (bytes.size() > longest_bytes_) return std::nullopt;
  const auto found = ordinary_.find(bytes);
  if (found == ordinary_.end()) return std::nullopt;
  return found->second;
}

}  // namespace yoke::engine
