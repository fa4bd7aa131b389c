// Byte-level BPE as tokenizer.json describes it (spec/tokenizer_chat.md 1). Immutable after load:
// any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace yoke::engine {

/// Half-open range of bytes in a rendered prompt.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;
};

class Tokenizer {
 public:
  /// Errors: unreadable file, a pipeline this reader does not know (named), inconsistent
  /// vocabulary, merges or ids.
  static config::Result<Tokenizer> load(const std::filesystem::path& file);
  static config::Result<Tokenizer> parse(std::string_view json, std::string_view origin);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  struct Encoded {
    std::vector<int32_t> ids;
    /// [ids] byte offset in the text where each token begins.
    std::vector<uint32_t> offsets;
  };

  /// `text` must be UTF-8. Added tokens are matched everywhere except where their match would touch
  /// a byte of `literal` (sorted, disjoint ranges: what came from the request, design.md 3). The
  /// split regex runs over each maximal run between matched tokens, across range borders. Errors:
  /// invalid UTF-8; a piece that exceeds the regex limits (exhausted).
  config::Result<Encoded> encode(std::string_view text,
                                 std::span<const ByteRange> literal = {}) const;
  /// The reference behaviour: added tokens match in any text.
  config::Result<std::vector<int32_t>> encode_ids(std::string_view text) const;
  /// No added-token matching at all.
  config::Result<std::vector<int32_t>> encode_plain(std::string_view text) const;

  /// Raw bytes of a token (added tokens: their literal text); empty for ids the tokenizer does not
  /// define.
  std::string_view token_bytes(int32_t id) const noexcept;
  bool is_defined(int32_t id) const noexcept;
  bool is_special(int32_t id) const noexcept;  ///< added and marked special
  bool is_added(int32_t id) const noexcept;
  std::optional<int32_t> added_id(std::string_view content) const noexcept;
  std::span<const AddedToken> added_tokens() const noexcept;
  /// Largest defined id + 1.
  int32_t size() const noexcept;
  /// Bytes of the longest token: a prompt of n bytes has at least n / this tokens.
  size_t longest_token_bytes() const noexcept;

  /// Whole text of ids; invalid UTF-8 becomes U+FFFD, one per maximal invalid part.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Turns bytes that arrive in pieces into valid UTF-8 pieces: the joined output equals lossy
/// decoding of the joined input.
class Utf8Assembler {
 public:
  /// Appends what is complete to `out`; keeps at most 3 bytes back.
  void feed(std::string_view bytes, std::string& out);
  /// An incomplete tail becomes one U+FFFD.
  void finish(std::string& out);
  size_t pending() const noexcept { return pending_.size(); }

 private:
  std::string pending_;
};

}  // namespace yoke::engine
