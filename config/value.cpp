#include "config/value.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace yoke::config {

namespace {

std::string number_text(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> previous(b.size() + 1);
  std::vector<int> current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    current[0] = static_cast<int>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const int replaced = previous[j] + (a[i] == b[j] ? 0 : 1);
      current[j + 1] = std::min({replaced, previous[j + 1] + 1, current[j] + 1});
    }
    std::swap(previous, current);
  }
  return previous.back();
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      constexpr char kHex[] = "0123456789ABCDEF";
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

template <class T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> boolean_word(std::string_view text) {
  // A flag without a value means yes.
  for (const std::string_view yes : {"", "true", "1", "yes", "on"})
    if (text == yes) return true;
  for (const std::string_view no : {"false", "0", "no", "off"})
    if (text == no) return false;
  return std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// `["a", "b"]`: a JSON list of texts without escapes other than \" and \\.
Result<Value> parse_bracketed_list(std::string_view text) {
  const auto wrong = [&] {
    return invalid_input("want a list such as [\"a\",\"b\"] or a,b, found " + quoted(text));
  };
  std::vector<std::string> items;
  std::string_view rest = trimmed(text.substr(1));
  while (!rest.empty() && rest.front() == '"') {
    std::string item;
    size_t i = 1;
    for (; i < rest.size() && rest[i] != '"'; ++i) {
      if (rest[i] == '\\') {
        ++i;
        if (i == rest.size() || (rest[i] != '"' && rest[i] != '\\')) return wrong();
      }
      item += rest[i];
    }
    if (i >= rest.size()) return wrong();
    items.push_back(std::move(item));
    rest = trimmed(rest.substr(i + 1));
    if (rest.empty() || rest.front() != ',') break;
    rest = trimmed(rest.substr(1));
    if (rest.empty() || rest.front() != '"') return wrong();
  }
  if (rest != "]") return wrong();
  return Value(std::move(items));
}

Result<Value> parse_list(std::string_view text) {
  text = trimmed(text);
  if (!text.empty() && text.front() == '[') return parse_bracketed_list(text);
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    items.emplace_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return Value(std::move(items));
}

}  // namespace

Error want(std::string_view what, const Value& found) {
  std::string message = "want " + std::string(what) + ", found ";
  message += std::holds_alternative<std::monostate>(found) ? "nothing" : format_value(found);
  return invalid_input(std::move(message));
}

std::string normalised_name(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
  const std::string wanted_name = normalised_name(name);
  std::string_view best;
  int best_distance = std::max(2, static_cast<int>(wanted_name.size()) / 3) + 1;
  for (const std::string_view candidate : known) {
    const int distance = edit_distance(wanted_name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Result<Value> parse_value(ValueKind kind, std::string_view text) {
  switch (kind) {
    case ValueKind::boolean:
      if (const auto yes = boolean_word(text)) return Value(*yes);
      return want("true or false", Value(std::string(text)));
    case ValueKind::integer:
      if (const auto i = whole_number<int64_t>(text)) return Value(*i);
      return want("an integer", Value(std::string(text)));
    case ValueKind::number:
      if (const auto d = whole_number<double>(text)) return Value(*d);
      return want("a number", Value(std::string(text)));
    case ValueKind::text:
      return Value(std::string(text));
    case ValueKind::list:
      return parse_list(text);
  }
  return want("a known type", Value(std::string(text)));
}

std::string format_value(const Value& value) {
  struct Writer {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const { return number_text(d); }
    std::string operator()(const std::string& s) const { return quoted(s); }
    std::string operator()(const std::vector<std::string>& items) const {
      std::string out = "[";
      for (const std::string& item : items)
        out += (&item == &items.front() ? "" : ", ") + quoted(item);
      return out + "]";
    }
  };
  return std::visit(Writer{}, value);
}

}  // namespace yoke::config
