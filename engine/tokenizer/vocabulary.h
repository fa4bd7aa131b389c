// Tokens by id and by bytes. Built once, then immutable: any thread may read it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace yoke::engine {

class Vocabulary {
 public:
  enum class Kind : uint8_t {
    undefined,    ///< no token has this id
    ordinary,     ///< what encoding makes of text
    decode_only,  ///< in the vocabulary, but spelled outside the byte alphabet: text never becomes
                  ///< it
    added,        ///< a control token that is not marked special
    special,      ///< a control token marked special
  };

  /// Ids are rows of the embedding; a file may not ask for a larger table.
  static constexpr int32_t kIdsMax = 1 << 21;

  Vocabulary() = default;
  Vocabulary(Vocabulary&&) noexcept = default;
  Vocabulary& operator=(Vocabulary&&) noexcept = default;
  Vocabulary(const Vocabulary&) = delete;  // the index views the tokens
  Vocabulary& operator=(const Vocabulary&) = delete;

  /// False if the id is taken; it must lie in [0, kIdsMax).
  bool add(int32_t id, std::string bytes, Kind kind);

  /// Largest defined id + 1.
  int32_t size() const noexcept { return static_cast<int32_t>(tokens_.size()); }
  Kind kind(int32_t id) const noexcept;
  /// Raw bytes; empty for undefined ids.
  std::string_view bytes(int32_t id) const noexcept;
  size_t longest_bytes() const noexcept { return longest_bytes_; }

  /// The ordinary token of exactly these bytes.
  std::optional<int32_t> find(std::string_view bytes) const noexcept;
  /// The ordinary token of one byte; −1 if there is none.
  int32_t byte_token(uint8_t byte) const noexcept { return byte_tokens_[byte]; }

 private:
  struct Token {
    std::string_view bytes;
    Kind kind = Kind::undefined;
  };

  std::deque<std::string> storage_;  // its elements never move
  std::vector<Token> tokens_;
  std::unordered_map<std::string_view, int32_t> ordinary_;
  std::array<int32_t, 256> byte_tokens_ = no_tokens();
  size_t longest_bytes_ = 0;

  static std::array<int32_t, 256> no_tokens() noexcept {
    std::array<int32_t, 256> none;
    none.fill(-1);
    return none;
  }
};

}  // namespace yoke::engine
