#include "engine/tokenizer/tokenizer.h"

#include <spdlog/fmt/fmt.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/merge_table.h"
#include "engine/tokenizer/split_regex.h"
#include "engine/tokenizer/tokenizer_json.h"
#include "engine/tokenizer/utf8.h"
#include "engine/tokenizer/vocabulary.h"

namespace yoke::engine {
namespace {

using config::Error;
using config::ErrorKind;
using config::Result;

// Offsets are 32 bits wide, positions in the merger too.
constexpr size_t kTextBytesMax = size_t{1} << 31;
// Twenty times the largest file seen; it is read whole.
constexpr size_t kFileBytesMax = size_t{512} << 20;

Result<std::string> read_file(const std::filesystem::path& path) {
  const auto problem = [&](ErrorKind kind, std::string what) {
    return Error{kind, fmt::format("{}: {}", path.string(), what)};
  };
  std::error_code failed;
  const auto size = std::filesystem::file_size(path, failed);
  if (failed) {
    const bool missing = failed == std::errc::no_such_file_or_directory;
    return problem(missing ? ErrorKind::not_found : ErrorKind::io, failed.message());
  }
  if (size > kFileBytesMax) {
    return problem(ErrorKind::exhausted,
                   fmt::format("want at most {} bytes, found {}", kFileBytesMax, size));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(size)))
    return problem(ErrorKind::io, fmt::format("cannot read {} bytes", size));
  return text;
}

}  // namespace

struct Tokenizer::Impl {
  Vocabulary vocabulary;
  MergeTable merges;
  bool ignore_merges;
  std::vector<AddedToken> added_tokens;
  AddedTokenTrie added_trie;
  SplitRegex split;
};

namespace {

/// Encodes one text: the scratch space of a call.
class Encoder {
 public:
  Encoder(const Vocabulary& vocabulary, const MergeTable& merges, bool ignore_merges,
          const SplitRegex& split, std::string_view text)
      : vocabulary_(vocabulary),
        merger_(vocabulary, merges),
        ignore_merges_(ignore_merges),
        splitter_(split, text.size()),
        text_(text) {}

  void add_control(const AddedTokenTrie::Match& match) {
    out_.ids.push_back(match.id);
    out_.offsets.push_back(static_cast<uint32_t>(match.begin));
  }

  /// Text without control tokens.
  Result<void> add_run(size_t begin, size_t end) {
    const std::string_view run = text_.substr(begin, end - begin);
    for (size_t at = 0; at < run.size();) {
      const auto piece_end = splitter_.piece_end(run, at);
      if (!piece_end) return piece_end.error();
      add_piece(run.substr(at, *piece_end - at), begin + at);
      at = *piece_end;
    }
    return {};
  }

  Tokenizer::Encoded finish() { return std::move(out_); }

 private:
  void add_piece(std::string_view piece, size_t offset) {
    if (const auto whole = ignore_merges_ ? vocabulary_.find(piece) : std::nullopt) {
      out_.ids.push_back(*whole);
      out_.offsets.push_back(static_cast<uint32_t>(offset));
      return;
    }
    const size_t first = out_.ids.size();
    merger_.merge(piece, out_.ids);
    for (size_t i = first; i < out_.ids.size(); ++i) {
      out_.offsets.push_back(static_cast<uint32_t>(offset));
      offset += vocabulary_.bytes(out_.ids[i]).size();
    }
  }

  const Vocabulary& vocabulary_;
  Merger merger_;
  bool ignore_merges_;
  SplitScratch splitter_;
  std::string_view text_;
  Tokenizer::Encoded out_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& file) {
  auto text = read_file(file);
  if (!text) return text.error();
  return parse(*text, file.string());
}

Result<Tokenizer> Tokenizer::parse(std::string_view json, std::string_view origin) {
  auto file = read_tokenizer_json(json, origin);
  if (!file) return file.error();
  auto split = SplitRegex::compile(file->split_pattern);
  if (!split) {
    return Error{split.error().kind,
                 fmt::format("{}: pre_tokenizer.pretokenizers[0].pattern.Regex: {}", origin,
                             split.error().message)};
  }
  MergeTable merges(file->merges);
  AddedTokenTrie added_trie(file->added_tokens);
  return Tokenizer(std::unique_ptr<Impl>(
      new Impl{std::move(file->vocabulary), std::move(merges), file->ignore_merges,
               std::move(file->added_tokens), std::move(added_trie), std::move(*split)}));
}

Result<Tokenizer::Encoded> Tokenizer::encode(std::string_view text,
                                             std::span<const ByteRange> literal) const {
  if (text.size() > kTextBytesMax) {
    return Error{ErrorKind::exhausted, fmt::format("text of {} bytes is too long: at most {}",
                                                   text.size(), kTextBytesMax)};
  }
  if (const size_t valid = utf8_valid_prefix(text); valid < text.size())
    return config::invalid_input(fmt::format("text is not UTF-8 at byte {}", valid));

  Encoder encoder(impl_->vocabulary, impl_->merges, impl_->ignore_merges, impl_->split, text);
  AddedTokenScanner scanner(impl_->added_trie, text, literal);
  size_t done = 0;
  while (const auto match = scanner.next()) {
    if (auto run = encoder.add_run(done, match->begin); !run) return run.error();
    encoder.add_control(*match);
    done = match->end;
  }
  if (auto run = encoder.add_run(done, text.size()); !run) return run.error();
  return encoder.finish();
}

Result<std::vector<int32_t>> Tokenizer::encode_ids(std::string_view text) const {
  auto encoded = encode(text);
  if (!encoded) return encoded.error();
  return std::move(encoded->ids);
}

Result<std::vector<int32_t>> Tokenizer::encode_plain(std::string_view text) const {
  const ByteRange everything{0, text.size()};
  auto encoded = encode(text, {&everything, 1});
  if (!encoded) return encoded.error();
  return std::move(encoded->ids);
}

std::string_view Tokenizer::token_bytes(int32_t id) const noexcept {
  return impl_->vocabulary.bytes(id);
}

bool Tokenizer::is_defined(int32_t id) const noexcept {
  return impl_->vocabulary.kind(id) != Vocabulary::Kind::undefined;
}

bool Tokenizer::is_special(int32_t id) const noexcept {
  return impl_->vocabulary.kind(id) == Vocabulary::Kind::special;
}

bool Tokenizer::is_added(int32_t id) const noexcept {
  return is_special(id) || impl_->vocabulary.kind(id) == Vocabulary::Kind::added;
}

std::optional<int32_t> Tokenizer::added_id(std::string_view content) const noexcept {
  return impl_->added_trie.id(content);
}

std::span<const AddedToken> Tokenizer::added_tokens() const noexcept {
  return impl_->added_tokens;
}

int32_t Tokenizer::size() const noexcept {
  return impl_->vocabulary.size();
}

size_t Tokenizer::longest_token_bytes() const noexcept {
  return impl_->vocabulary.longest_bytes();
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string text;
  Utf8Assembler assembler;
  for (const int32_t id : ids)
    if (!skip_special || !is_special(id)) assembler.feed(token_bytes(id), text);
  assembler.finish(text);
  return text;
}

}  // namespace yoke::engine
