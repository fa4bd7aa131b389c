// An order-preserving JSON tree that keeps each number's text (design.md 2): for tool schemas,
// arguments and the chat grammar, where `1.0` and `1`, big integers and key order must survive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/result.h"

namespace yoke::engine {

/// A JSON value. Objects keep insertion order; a repeated key keeps its first place and its last
/// value.
class Json {
 public:
  enum class Kind : uint8_t { null, boolean, number, string, array, object };
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  static Json boolean(bool value);
  /// `text` must be a JSON number; it is kept as spelled.
  static Json number(std::string text);
  static Json integer(int64_t value);
  static Json string(std::string value);
  static Json array(Array items = {});
  static Json object(Object members = {});

  Kind kind() const noexcept { return kind_; }
  bool is_null() const noexcept { return kind_ == Kind::null; }
  bool is_boolean() const noexcept { return kind_ == Kind::boolean; }
  bool is_number() const noexcept { return kind_ == Kind::number; }
  bool is_string() const noexcept { return kind_ == Kind::string; }
  bool is_array() const noexcept { return kind_ == Kind::array; }
  bool is_object() const noexcept { return kind_ == Kind::object; }

  // Each aborts when the kind is another one.
  bool as_boolean() const;
  const std::string& as_string() const;  ///< UTF-8, may hold NUL
  const std::string& number_text() const;
  const Array& items() const;
  Array& items();
  const Object& members() const;
  Object& members();

  /// Member of an object, or nullptr (also when this is no object).
  const Json* find(std::string_view key) const noexcept;
  Json* find(std::string_view key) noexcept;
  /// Sets or replaces a member of an object.
  void set(std::string_view key, Json value);

  /// A number without '.', 'e', 'E'.
  bool is_integer_text() const noexcept;
  /// The number as int64 if its value is integral and in range (`1e3` and `5.0` are); nullopt
  /// otherwise or for other kinds.
  std::optional<int64_t> to_int64() const noexcept;
  /// The number rounded to double (may be infinite); nullopt for other kinds.
  std::optional<double> to_double() const noexcept;

  /// Python's notion of truth (spec/tokenizer_chat.md 2.1).
  bool truthy() const noexcept;

  friend bool operator==(const Json& a, const Json& b);

 private:
  Kind kind_ = Kind::null;
  bool boolean_ = false;
  std::string text_;  // string value or number text
  Array items_;
  Object members_;
};

struct JsonLimits {
  int max_depth = 256;
};

/// Parses one JSON text (UTF-8, optional BOM). Lone surrogate escapes become U+FFFD; invalid UTF-8
/// is an error. The message has the byte offset and what stands there. `name` says what was parsed
/// ("request body").
config::Result<Json> parse_json(std::string_view text, std::string_view name,
                                JsonLimits limits = {});

/// Compact JSON (`,` and `:` without blanks), numbers as spelled, non-ASCII verbatim: for API
/// bodies.
std::string to_json(const Json& value);
void append_json(std::string& out, const Json& value);
/// `"…"` with JSON escapes; the text must be UTF-8.
void append_json_string(std::string& out, std::string_view text);

/// Python's json.dumps(value, ensure_ascii=False): `, ` and `: `, floats by repr, escapes as in
/// spec/tokenizer_chat.md 2.3.
std::string to_python_json(const Json& value);
void append_python_json(std::string& out, const Json& value);

/// Python's str() of a value (`None`, `True`, `{'a': 1}`): the corner cases of
/// spec/tokenizer_chat.md 2.4.
std::string to_python_str(const Json& value);

/// Shortest decimal that reads back to the same double, in Python's repr form.
std::string python_float_repr(double value);

}  // namespace yoke::engine
