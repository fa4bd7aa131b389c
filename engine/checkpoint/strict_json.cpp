#include "engine/checkpoint/strict_json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/checkpoint/file.h"
#include "engine/json/utf8.h"

namespace yoke::engine {

namespace json = boost::json;
using config::invalid_input;
using config::Result;

namespace {

/// Builds the value and watches for repeated keys on the way.
class Builder {
 public:
  using error_code = json::error_code;
  using string_view = json::string_view;
  static constexpr std::size_t max_object_size = -1;
  static constexpr std::size_t max_array_size = -1;
  static constexpr std::size_t max_key_size = -1;
  static constexpr std::size_t max_string_size = -1;

  bool on_document_begin(error_code&) {
    stack_.reset();
    return true;
  }
  bool on_document_end(error_code&) { return true; }

  bool on_object_begin(error_code&) {
    keys_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t n, error_code&) {
    keys_.pop_back();
    stack_.push_object(n);
    return true;
  }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(std::size_t n, error_code&) {
    stack_.push_array(n);
    return true;
  }

  bool on_key_part(string_view s, std::size_t, error_code&) {
    key_.append(s.data(), s.size());
    stack_.push_chars(s);
    return true;
  }
  bool on_key(string_view s, std::size_t, error_code& ec) {
    key_.append(s.data(), s.size());
    stack_.push_key(s);
    if (!keys_.back().insert(key_).second) {
      duplicate_ = key_;
      ec = json::error::syntax;
      return false;
    }
    key_.clear();
    return true;
  }
  bool on_string_part(string_view s, std::size_t, error_code&) {
    stack_.push_chars(s);
    return true;
  }
  bool on_string(string_view s, std::size_t, error_code&) {
    stack_.push_string(s);
    return true;
  }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(int64_t i, string_view, error_code&) {
    stack_.push_int64(i);
    return true;
  }
  bool on_uint64(uint64_t u, string_view, error_code&) {
    stack_.push_uint64(u);
    return true;
  }
  bool on_double(double d, string_view, error_code&) {
    stack_.push_double(d);
    return true;
  }
  bool on_bool(bool b, error_code&) {
    stack_.push_bool(b);
    return true;
  }
  bool on_null(error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

  json::value release() { return stack_.release(); }
  const std::optional<std::string>& duplicate() const { return duplicate_; }

 private:
  json::value_stack stack_;
  std::vector<std::unordered_set<std::string>> keys_;  // one set per open object
  std::string key_;
  std::optional<std::string> duplicate_;
};

}  // namespace

Result<json::object> parse_strict_json_object(std::string_view text, std::string_view name) {
  json::basic_parser<Builder> parser(json::parse_options{});
  json::error_code ec;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), ec);
  const std::string where = std::string(name) + ": ";
  if (const auto& duplicate = parser.handler().duplicate())
    return invalid_input(where + "key " + quote(*duplicate) +
                         " appears twice in one object: remove one of them");
  if (!ec && used < text.size()) ec = json::error::extra_data;
  if (ec) return invalid_input(where + json_fault(text, used, ec.message()));
  json::value value = parser.handler().release();
  if (!value.is_object()) return invalid_input(where + "wanted a JSON object at the top");
  return std::move(value.get_object());
}

std::string json_fault(std::string_view text, size_t at, std::string_view reason) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    if (length == 0) {
      char byte[8];
      std::snprintf(byte, sizeof byte, "0x%02X", static_cast<unsigned char>(text[i]));
      return "not UTF-8: byte " + std::to_string(i) + " is " + byte;
    }
    i += length;
  }
  return "not valid JSON at byte " + std::to_string(at) + ": " + std::string(reason);
}

}  // namespace yoke::engine
