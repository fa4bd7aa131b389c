// A strict reader by recursive descent. Recursion is bounded by JsonLimits::max_depth; time is
// O(n log n) at worst (repeated keys are found by sorting), memory O(n) and bounded by max_values.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>

#include "engine/json/json.h"
#include "engine/json/utf8.h"

namespace yoke::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool all_keys_differ(const Json::Object& members) {
  for (size_t i = 1; i < members.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (members[i].first == members[j].first) return false;
    }
  }
  return true;
}

/// A repeated key keeps its first place and its last value. Small objects are compared pairwise,
/// large ones sorted, so that no choice of keys makes this quadratic.
void drop_repeated_keys(Json::Object& members) {
  constexpr size_t kPairwise = 16;
  if (members.size() <= kPairwise && all_keys_differ(members)) return;
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return members[a].first < members[b].first; });
  std::vector<bool> dropped(members.size(), false);
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && members[order[end]].first == members[order[begin]].first) {
      dropped[order[end++]] = true;
    }
    if (end - begin > 1) {
      members[order[begin]].second = std::move(members[order[end - 1]].second);
    }
    begin = end;
  }
  size_t kept = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    if (dropped[i]) continue;
    if (kept != i) members[kept] = std::move(members[i]);
    ++kept;
  }
  members.resize(kept);
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view name, const JsonLimits& limits)
      : text_(text), name_(name), limits_(limits) {}

  config::Result<Json> document() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    Json value;
    if (!this->value(value, 0)) return std::move(error_);
    skip_blanks();
    if (at_ < text_.size()) {
      want("the end of the JSON text");
      return std::move(error_);
    }
    return value;
  }

 private:
  bool end() const noexcept { return at_ >= text_.size(); }
  char here() const noexcept { return end() ? '\0' : text_[at_]; }
  bool next_is(char c) const noexcept { return !end() && text_[at_] == c; }

  void skip_blanks() noexcept {
    while (!end() && (here() == ' ' || here() == '\n' || here() == '\t' || here() == '\r')) ++at_;
  }

  std::string found() const {
    if (end()) return "the end of the text";
    const auto byte = static_cast<uint8_t>(text_[at_]);
    if (byte > 0x20 && byte < 0x7F) return std::string("'") + text_[at_] + "'";
    constexpr std::string_view kHex = "0123456789abcdef";
    return std::string("byte 0x") + kHex[byte >> 4] + kHex[byte & 15];
  }

  bool fail(config::ErrorKind kind, const std::string& what) {
    error_ = {kind, std::string(name_) + ": byte " + std::to_string(at_) + ": " + what};
    return false;
  }
  bool want(const std::string& what) {
    return fail(config::ErrorKind::invalid_input, "want " + what + ", found " + found());
  }

  bool value(Json& out, int depth) {
    if (++values_ > limits_.max_values) {
      return fail(config::ErrorKind::exhausted,
                  "more than " + std::to_string(limits_.max_values) + " values");
    }
    skip_blanks();
    switch (here()) {
      case '{':
        return object(out, depth);
      case '[':
        return array(out, depth);
      case '"': {
        std::string text;
        if (!string(text)) return false;
        out = Json::string(std::move(text));
        return true;
      }
      case 't':
        out = Json::boolean(true);
        return literal("true");
      case 'f':
        out = Json::boolean(false);
        return literal("false");
      case 'n':
        out = Json();
        return literal("null");
      default:
        return number(out);
    }
  }

  bool literal(std::string_view word) {
    if (text_.substr(at_, word.size()) == word) {
      at_ += word.size();
      return true;
    }
    return want_value();
  }

  bool want_value() { return want("a JSON value"); }

  bool digits() {
    if (!is_digit(here())) return want("a digit");
    while (is_digit(here())) ++at_;
    return true;
  }

  bool number(Json& out) {
    const size_t begin = at_;
    if (!next_is('-') && !is_digit(here())) return want_value();
    if (next_is('-')) ++at_;
    if (next_is('0')) {
      ++at_;
    } else if (!digits()) {
      return false;
    }
    if (next_is('.')) {
      ++at_;
      if (!digits()) return false;
    }
    if (next_is('e') || next_is('E')) {
      ++at_;
      if (next_is('+') || next_is('-')) ++at_;
      if (!digits()) return false;
    }
    out = Json::number(std::string(text_.substr(begin, at_ - begin)));
    return true;
  }

  bool enter(int depth) {
    if (depth < limits_.max_depth) return true;
    return fail(config::ErrorKind::exhausted,
                "nested deeper than " + std::to_string(limits_.max_depth) + " levels");
  }

  bool array(Json& out, int depth) {
    if (!enter(depth)) return false;
    ++at_;
    Json::Array items;
    skip_blanks();
    while (!next_is(']')) {
      if (!value(items.emplace_back(), depth + 1)) return false;
      skip_blanks();
      if (next_is(']')) break;
      if (!next_is(',')) return want("',' or ']' after an array element");
      ++at_;
      skip_blanks();
      if (next_is(']')) return want_value();
    }
    ++at_;
    out = Json::array(std::move(items));
    return true;
  }

  bool object(Json& out, int depth) {
    if (!enter(depth)) return false;
    ++at_;
    Json::Object members;
    skip_blanks();
    while (!next_is('}')) {
      if (!next_is('"')) return want(members.empty() ? "a key or '}'" : "a key");
      Json::Member& member = members.emplace_back();
      if (!string(member.first)) return false;
      skip_blanks();
      if (!next_is(':')) return want("':' after a key");
      ++at_;
      if (!value(member.second, depth + 1)) return false;
      skip_blanks();
      if (next_is('}')) break;
      if (!next_is(',')) return want("',' or '}' after a member");
      ++at_;
      skip_blanks();
      if (next_is('}')) return want("a key");
    }
    ++at_;
    drop_repeated_keys(members);
    out = Json::object(std::move(members));
    return true;
  }

  bool string(std::string& out) {
    const size_t opened = at_++;
    for (;;) {
      const size_t begin = at_;
      while (!end() && here() != '"' && here() != '\\' && static_cast<uint8_t>(here()) >= 0x20) {
        const size_t length = utf8_length(text_, at_);
        if (length == 0) return want("UTF-8 inside a string");
        at_ += length;
      }
      out.append(text_.substr(begin, at_ - begin));
      if (end()) return want("'\"' for the string opened at byte " + std::to_string(opened));
      if (next_is('"')) {
        ++at_;
        return true;
      }
      if (!next_is('\\')) return want("an escape (control characters must be escaped)");
      if (!escape(out)) return false;
    }
  }

  bool escape(std::string& out) {
    ++at_;
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (end()) return want("an escape letter");
    if (const size_t i = kLetters.find(here()); i != kLetters.npos) {
      out += kMeanings[i];
      ++at_;
      return true;
    }
    if (!next_is('u')) return want("an escape letter");
    ++at_;
    uint32_t unit = 0;
    if (!hex4(unit)) return false;
    if (unit < 0xD800 || unit > 0xDFFF) {
      append_utf8(out, unit);
      return true;
    }
    // A pair is one character; anything else of that range stands alone and is replaced.
    if (unit < 0xDC00 && text_.substr(at_, 2) == "\\u") {
      const size_t second = at_;
      at_ += 2;
      uint32_t low = 0;
      if (!hex4(low)) return false;
      if (low >= 0xDC00 && low <= 0xDFFF) {
        append_utf8(out, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
        return true;
      }
      at_ = second;
    }
    out.append(kReplacement);
    return true;
  }

  bool hex4(uint32_t& out) {
    for (int i = 0; i < 4; ++i) {
      const char c = here();
      uint32_t digit = 0;
      if (is_digit(c)) {
        digit = static_cast<uint32_t>(c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        digit = static_cast<uint32_t>((c | 0x20) - 'a' + 10);
      } else {
        return want("four hexadecimal digits after \\u");
      }
      out = out << 4 | digit;
      ++at_;
    }
    return true;
  }

  std::string_view text_;
  std::string_view name_;
  JsonLimits limits_;
  size_t at_ = 0;
  size_t values_ = 0;
  config::Error error_;
};

}  // namespace

config::Result<Json> parse_json(std::string_view text, std::string_view name, JsonLimits limits) {
  YOKE_CHECK(limits.max_depth <= kJsonDepthCeiling, "max_depth is above kJsonDepthCeiling");
  return Parser(text, name, limits).document();
}

}  // namespace yoke::engine
