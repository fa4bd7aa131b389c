// JSON text of a tree: compact for API bodies, and as Python's json.dumps prints it.
#include <cmath>

#include "engine/json/json.h"

namespace yoke::engine {
namespace {

/// What differs between the two forms.
struct Style {
  std::string_view item_separator;
  std::string_view key_separator;
  bool python_numbers;
};
constexpr Style kCompact{",", ":", false};
constexpr Style kPython{", ", ": ", true};

void append_python_number(std::string& out, const Json& value) {
  const std::string& text = value.number_text();
  if (value.is_integer_text()) {
    out += text == "-0" ? "0" : text;
    return;
  }
  const double number = *value.to_double();
  if (std::isinf(number)) {
    out += number < 0 ? "-Infinity" : "Infinity";
  } else {
    out += python_float_repr(number);
  }
}

void append(std::string& out, const Json& value, const Style& style) {
  switch (value.kind()) {
    case Json::Kind::null:
      out += "null";
      break;
    case Json::Kind::boolean:
      out += value.as_boolean() ? "true" : "false";
      break;
    case Json::Kind::number:
      if (style.python_numbers) {
        append_python_number(out, value);
      } else {
        out += value.number_text();
      }
      break;
    case Json::Kind::string:
      append_json_string(out, value.as_string());
      break;
    case Json::Kind::array: {
      out += '[';
      bool first = true;
      for (const Json& item : value.items()) {
        if (!first) out += style.item_separator;
        first = false;
        append(out, item, style);
      }
      out += ']';
      break;
    }
    case Json::Kind::object: {
      out += '{';
      bool first = true;
      for (const auto& [key, member] : value.members()) {
        if (!first) out += style.item_separator;
        first = false;
        append_json_string(out, key);
        out += style.key_separator;
        append(out, member, style);
      }
      out += '}';
      break;
    }
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_json_escaped(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  size_t done = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(text.substr(done, i - done));
    done = i + 1;
    out += '\\';
    constexpr std::string_view kMeanings = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    if (const size_t letter = kMeanings.find(text[i]); letter != kMeanings.npos) {
      out += kLetters[letter];
    } else {
      out += "u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out.append(text.substr(done));
}

void append_json(std::string& out, const Json& value) {
  append(out, value, kCompact);
}

std::string to_json(const Json& value) {
  std::string out;
  append_json(out, value);
  return out;
}

void append_python_json(std::string& out, const Json& value) {
  append(out, value, kPython);
}

std::string to_python_json(const Json& value) {
  std::string out;
  append_python_json(out, value);
  return out;
}

}  // namespace yoke::engine
