#include "engine/tokenizer/split_pattern.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <span>

#include "engine/tokenizer/utf8.h"

namespace yoke::engine {
namespace {

using config::Error;
using config::ErrorKind;
using config::Result;

struct CodePoints {
  char32_t first, last;
};

// White_Space of the Unicode character database.
constexpr CodePoints kWhiteSpace[] = {
    {0x0009, 0x000D}, {0x0020, 0x0020}, {0x0085, 0x0085}, {0x00A0, 0x00A0}, {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

// Letters and numbers that Unicode 15.0, 15.1 and 16.0 added; the reference knows 16.0. Characters
// keep these categories, so adding them is harmless where PCRE2 is newer.
constexpr CodePoints kNewLetters[] = {
    {0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
    {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x1123F, 0x11240},
    {0x11380, 0x11389}, {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5},
    {0x113B7, 0x113B7}, {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0},
    {0x11F02, 0x11F02}, {0x11F04, 0x11F10}, {0x11F12, 0x11F33}, {0x1342F, 0x1342F},
    {0x13441, 0x13446}, {0x13460, 0x143FA}, {0x16100, 0x1611D}, {0x16D40, 0x16D6C},
    {0x18CFF, 0x18CFF}, {0x1B132, 0x1B132}, {0x1B155, 0x1B155}, {0x1DF25, 0x1DF2A},
    {0x1E030, 0x1E06D}, {0x1E4D0, 0x1E4EB}, {0x1E5D0, 0x1E5ED}, {0x1E5F0, 0x1E5F0},
    {0x2B739, 0x2B739}, {0x2EBF0, 0x2EE5D}, {0x31350, 0x323AF},
};
constexpr CodePoints kNewNumbers[] = {
    {0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x11F50, 0x11F59},
    {0x16130, 0x16139}, {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1D2C0, 0x1D2D3},
    {0x1E4F0, 0x1E4F9}, {0x1E5F1, 0x1E5FA},
};

// Inside [...]: the ranges as \x{…}-\x{…}.
std::string set_items(std::span<const CodePoints> ranges) {
  std::string items;
  for (const CodePoints& range : ranges) {
    items += fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(range.first));
    if (range.last != range.first)
      items += fmt::format("-\\x{{{:X}}}", static_cast<uint32_t>(range.last));
  }
  return items;
}

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}
bool is_ascii_punctuation(char c) {
  return is_ascii(c) && c > ' ' && c != 0x7F && !is_ascii_letter(c) && !is_digit(c);
}
bool contains(std::string_view set, char c) {
  return set.find(c) != std::string_view::npos;
}

// Oniguruma lets one character (ß, ﬁ, ﬆ, …) match two letters without regard to case; PCRE2 folds
// single characters only.
bool folds_to_one_character(char first, char second) {
  constexpr std::array<std::string_view, 5> kPairs = {"ss", "ff", "fi", "fl", "st"};
  const char pair[] = {static_cast<char>(first | 0x20), static_cast<char>(second | 0x20)};
  for (const auto known : kPairs)
    if (known == std::string_view(pair, 2)) return true;
  return false;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<std::string> run() {
    while (at_ < in_.size() && refused_.empty()) translate_one();
    if (refused_.empty()) return std::move(out_);
    return Error{ErrorKind::unsupported,
                 fmt::format("offset {}: {} is not supported", refused_at_, refused_)};
  }

 private:
  bool next_is(std::string_view text) const {
    return at_ < in_.size() && in_.substr(at_).starts_with(text);
  }
  void refuse(size_t at, std::string what) {
    if (!refused_.empty()) return;
    refused_ = std::move(what);
    refused_at_ = at;
  }
  void copy(size_t bytes) {
    out_ += in_.substr(at_, bytes);
    at_ += bytes;
  }

  void translate_one() {
    const char c = in_[at_];
    if (c == '\\') return translate_escape();
    if (c == '[') return translate_set();
    if (c == '(') return translate_group();
    if (c == '{') return translate_interval();
    if (contains("?*+", c)) return translate_repeat();
    if (c == '|' || c == ')') return copy(1);
    if (contains(".^$]}", c)) return refuse(at_, fmt::format("'{}'", c));
    copy(1);  // a literal, or a part of one
  }

  void translate_escape() {
    const std::string item = escape_item();
    const bool plain = item.size() == 2;  // a backslash and one character
    out_ += plain || item.empty() ? item : "[" + item + "]";
  }

  // Reads an escape: what to write for it inside [...], with a leading ^ for the negated ones;
  // empty when refused.
  std::string escape_item() {
    const size_t begin = at_;
    const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    at_ += 2;
    if (contains("rntfae", c) || is_ascii_punctuation(c)) return {'\\', c};
    if (c == 's') return set_items(kWhiteSpace);
    if (c == 'S') return "^" + set_items(kWhiteSpace);
    const bool property = c == 'p' || c == 'P';
    if (property && (next_is("{L}") || next_is("{N}"))) {
      const bool letters = next_is("{L}");
      at_ += 3;
      const std::string items =
          letters ? "\\p{L}" + set_items(kNewLetters) : "\\p{N}" + set_items(kNewNumbers);
      return c == 'P' ? "^" + items : items;
    }
    refuse(begin, property ? "a property other than \\p{L} and \\p{N}"
                           : "escape " + std::string(in_.substr(begin, 2)));
    return {};
  }

  void translate_set() {
    const size_t begin = at_;
    copy(1);
    if (next_is("^")) copy(1);
    if (next_is("]")) return refuse(at_, "']' as the first of a set");
    bool after_character = false;  // so that '-' may begin a range
    while (at_ < in_.size() && in_[at_] != ']') {
      const char c = in_[at_];
      if (c == '[' || next_is("&&")) return refuse(at_, "a set inside a set");
      if (c == '-') {
        const char following = at_ + 1 < in_.size() ? in_[at_ + 1] : ']';
        if (!after_character || contains("\\]-[", following) || next_is("-&&"))
          return refuse(at_, "'-' that is not between two characters");
        copy(1);
        copy_character();
        after_character = false;
      } else if (c == '\\') {
        const std::string item = escape_item();
        if (item.starts_with("^")) refuse(begin, "a negated class inside a set");
        if (!refused_.empty()) return;
        out_ += item;
        after_character = false;
      } else {
        copy_character();
        after_character = true;
      }
    }
    if (at_ == in_.size()) return refuse(begin, "a set without end");
    copy(1);
  }

  void copy_character() { copy(utf8_step(in_.substr(at_)).bytes); }

  void translate_group() {
    if (next_is("(?i:")) return translate_caseless();
    for (const std::string_view opening : {"(?:", "(?=", "(?!"})
      if (next_is(opening)) return copy(opening.size());
    if (next_is("(?") || next_is("(*")) return refuse(at_, "this kind of group");
    copy(1);
  }

  void translate_caseless() {
    copy(4);
    for (char previous = '|'; at_ < in_.size(); copy(1)) {
      const char c = in_[at_];
      if (c == ')') return copy(1);
      const bool literal = is_ascii_letter(c) || is_digit(c) || contains(" '\"-_,:;|", c);
      if (!literal) return refuse(at_, "in (?i:…) anything but plain ASCII text");
      if (folds_to_one_character(previous, c))
        return refuse(at_, "in (?i:…) a letter pair that folds to one character");
      previous = c;
    }
    refuse(in_.size(), "a group without end");
  }

  void translate_repeat() {
    copy(1);
    if (next_is("?") || next_is("+")) copy(1);
    refuse_another_repeat();
  }

  void translate_interval() {
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < in_.size() && is_digit(in_[end])) ++end;
      return end > begin && end - begin <= 4;
    };
    bool known = digits();
    if (known && end < in_.size() && in_[end] == ',') {
      ++end;
      if (end < in_.size() && in_[end] != '}') known = digits();
    }
    if (!known || end == in_.size() || in_[end] != '}')
      return refuse(at_, "'{' that is not a repeat count");
    copy(end + 1 - at_);
    refuse_another_repeat();
  }

  // x{2}+, x+*, … mean different things in the two syntaxes.
  void refuse_another_repeat() {
    if (at_ < in_.size() && contains("?*+{", in_[at_])) refuse(at_, "a repeat of a repeat");
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  std::string refused_;
  size_t refused_at_ = 0;
};

}  // namespace

Result<std::string> pcre2_pattern(std::string_view oniguruma) {
  const size_t valid = utf8_valid_prefix(oniguruma);
  if (valid < oniguruma.size())
    return Error{ErrorKind::invalid_input, fmt::format("offset {}: invalid UTF-8", valid)};
  return Translator(oniguruma).run();
}

}  // namespace yoke::engine
