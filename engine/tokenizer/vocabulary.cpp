#include "engine/tokenizer/vocabulary.h"

#include <algorithm>
#include <functional>

#include "config/check.h"

namespace yoke::engine {
namespace {

uint32_t hash_of(std::string_view bytes) {
  return static_cast<uint32_t>(std::hash<std::string_view>{}(bytes));
}

}  // namespace

Vocabulary::Vocabulary() : slots_(1024) {
  byte_tokens_.fill(-1);
}

bool Vocabulary::add(int32_t id, std::string_view bytes, Kind kind) {
  YOKE_CHECK(id >= 0 && id < kIdsMax, "token id out of range");
  YOKE_CHECK(kind != Kind::undefined && !bytes.empty(), "a token needs a kind and bytes");
  YOKE_CHECK(bytes_.size() + bytes.size() <= UINT32_MAX, "4 GiB of tokens");
  if (this->kind(id) != Kind::undefined) return false;
  if (kind == Kind::ordinary) {
    YOKE_CHECK(!find(bytes), "two ordinary tokens of the same bytes");
    if (2 * ++ordinary_ > slots_.size()) {
      std::vector<Slot> old(2 * slots_.size());
      old.swap(slots_);
      for (const Slot& slot : old)
        if (slot.id >= 0) insert(slot);
    }
    insert({hash_of(bytes), id});
    if (bytes.size() == 1) byte_tokens_[static_cast<uint8_t>(bytes[0])] = id;
  }
  if (id >= size()) tokens_.resize(static_cast<size_t>(id) + 1);
  tokens_[static_cast<size_t>(id)] = {static_cast<uint32_t>(bytes_.size()),
                                      static_cast<uint32_t>(bytes.size()), kind};
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  longest_bytes_ = std::max(longest_bytes_, bytes.size());
  return true;
}

void Vocabulary::insert(Slot slot) {
  const size_t mask = slots_.size() - 1;
  size_t at = slot.hash & mask;
  while (slots_[at].id >= 0) at = (at + 1) & mask;
  slots_[at] = slot;
}

Vocabulary::Kind Vocabulary::kind(int32_t id) const noexcept {
  return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)].kind : Kind::undefined;
}

std::string_view Vocabulary::bytes(int32_t id) const noexcept {
  if (id < 0 || id >= size()) return {};
  const Token& token = tokens_[static_cast<size_t>(id)];
  return {bytes_.data() + token.begin, token.length};
}

std::optional<int32_t> Vocabulary::find(std::string_view bytes) const noexcept {
  if (bytes.size() > longest_bytes_) return std::nullopt;
  const uint32_t hash = hash_of(bytes);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].id >= 0; at = (at + 1) & mask)
    if (slots_[at].hash == hash && this->bytes(slots_[at].id) == bytes) return slots_[at].id;
  return std::nullopt;
}

}  // namespace yoke::engine
