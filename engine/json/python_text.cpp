// Python's repr and str of JSON-like values, as far as the chat template shows them.
#include <charconv>
#include <cmath>

#include "engine/json/json.h"

namespace yoke::engine {
namespace {

/// repr of a string; false when it has non-ASCII text.
bool append_string_repr(std::string& out, const std::string& text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  out += quote;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x80) return false;
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += quote;
  return true;
}

bool append_repr(std::string& out, const Json& value) {
  switch (value.kind()) {
    case Json::Kind::null:
      out += "None";
      return true;
    case Json::Kind::boolean:
      out += value.as_boolean() ? "True" : "False";
      return true;
    case Json::Kind::number:
      if (value.is_integer_text()) {
        append_python_json(out, value);
      } else {
        out += python_float_repr(*value.to_double());
      }
      return true;
    case Json::Kind::string:
      return append_string_repr(out, value.as_string());
    case Json::Kind::array: {
      out += '[';
      bool first = true;
      for (const Json& item : value.items()) {
        if (!first) out += ", ";
        first = false;
        if (!append_repr(out, item)) return false;
      }
      out += ']';
      return true;
    }
    case Json::Kind::object: {
      out += '{';
      bool first = true;
      for (const auto& [key, member] : value.members()) {
        if (!first) out += ", ";
        first = false;
        if (!append_string_repr(out, key)) return false;
        out += ": ";
        if (!append_repr(out, member)) return false;
      }
      out += '}';
      return true;
    }
  }
  return false;
}

}  // namespace

config::Result<std::string> to_python_str(const Json& value) {
  if (value.is_string()) return value.as_string();
  std::string out;
  if (append_repr(out, value)) return out;
  return config::Error{config::ErrorKind::unsupported,
                       "a string inside an array or object has non-ASCII text, which cannot be "
                       "printed as Python would; send the value as a string"};
}

std::string python_float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Shortest scientific form: [-]d[.ddd]e±dd. Its digits are what Python prints; only the layout
  // differs.
  char buffer[32];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  YOKE_CHECK(error == std::errc{}, "a double needs at most 24 characters");
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string out;
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  std::string_view exponent_text = text.substr(e + 1);
  if (exponent_text.front() == '+') exponent_text.remove_prefix(1);
  int exponent = 0;
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    out += text;
    return out;  // to_chars writes the sign and at least two digits, as Python does
  }
  if (exponent < 0) {
    out += "0.";
    out.append(static_cast<size_t>(-exponent - 1), '0');
    return out + digits;
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    digits.append(whole - digits.size(), '0');
    return out + digits + ".0";
  }
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

}  // namespace yoke::engine
