// Tokens by id and by bytes. Built once, then immutable: any thread may read it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::engine {

class Vocabulary {
 public:
  enum class Kind : uint8_t {
    undefined,    ///< no token has this id
    ordinary,     ///< what encoding makes of text
    decode_only,  ///< in the vocabulary, but spelled outside the byte alphabet: text never gives it
    added,        ///< a control token that is not marked special
    special,      ///< a control token marked special
  };

  /// Ids are rows of the embedding; a file may not ask for a larger table.
  static constexpr int32_t kIdsMax = 1 << 21;

  Vocabulary();

  /// False if the id is taken; it must lie in [0, kIdsMax). Bytes must not be empty, those of
  /// ordinary tokens distinct, all together below 4 GiB.
  bool add(int32_t id, std::string_view bytes, Kind kind);

  /// Largest defined id + 1.
  int32_t size() const noexcept { return static_cast<int32_t>(tokens_.size()); }
  Kind kind(int32_t id) const noexcept;
  /// Raw bytes; empty for undefined ids. Valid until the next add().
  std::string_view bytes(int32_t id) const noexcept;
  size_t longest_bytes() const noexcept { return longest_bytes_; }

  /// The ordinary token of exactly these bytes.
  std::optional<int32_t> find(std::string_view bytes) const noexcept;
  /// The ordinary token of one byte; −1 if there is none.
  int32_t byte_token(uint8_t byte) const noexcept { return byte_tokens_[byte]; }

 private:
  struct Token {
    uint32_t begin = 0;  ///< in bytes_
    uint32_t length = 0;
    Kind kind = Kind::undefined;
  };
  struct Slot {
    uint32_t hash = 0;
    int32_t id = -1;  ///< −1: the slot is empty
  };

  void insert(Slot slot);

  std::vector<char> bytes_;  // of all tokens
  std::vector<Token> tokens_;
  std::vector<Slot> slots_;  // of ordinary tokens: open addressing, at most half full
  size_t ordinary_ = 0;
  size_t longest_bytes_ = 0;
  std::array<int32_t, 256> byte_tokens_;
};

}  // namespace yoke::engine
