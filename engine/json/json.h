// An order-preserving JSON tree that keeps each number's text (design.md 2): for tool schemas,
// arguments and the chat grammar, where `1.0` and `1`, big integers and key order must survive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/result.h"

namespace yoke::engine {

/// A JSON value. Objects keep insertion order; a repeated key keeps its first place and its last
/// value. Copying, comparing and destroying recurse once per level, which is safe because no parsed
/// tree is deeper than kJsonDepthCeiling. Plain data: const use from several threads is fine.
class Json {
 public:
  enum class Kind : uint8_t { null, boolean, number, string, array, object };
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  static Json boolean(bool value);
  /// `text` must be a JSON number (see is_number_text); it is kept as spelled.
  static Json number(std::string text);
  /// Whether `text` as a whole is a number of the JSON grammar.
  static bool is_number_text(std::string_view text) noexcept;
  static Json integer(int64_t value);
  static Json string(std::string value);
  static Json array(Array items = {});
  /// The keys must differ from each other.
  static Json object(Object members = {});

  Kind kind() const noexcept { return static_cast<Kind>(value_.index()); }
  bool is_null() const noexcept { return kind() == Kind::null; }
  bool is_boolean() const noexcept { return kind() == Kind::boolean; }
  bool is_number() const noexcept { return kind() == Kind::number; }
  bool is_string() const noexcept { return kind() == Kind::string; }
  bool is_array() const noexcept { return kind() == Kind::array; }
  bool is_object() const noexcept { return kind() == Kind::object; }

  // Each aborts when the kind is another one.
  bool as_boolean() const;
  const std::string& as_string() const;  ///< UTF-8, may hold NUL
  const std::string& number_text() const;
  const Array& items() const;
  Array& items();
  const Object& members() const;
  Object& members();

  /// Member of an object, or nullptr (also when this is no object). Linear in the members: who
  /// looks up many keys in a foreign object builds an index of its own.
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

  /// Same tree: kinds, spelling of numbers and order of members count.
  friend bool operator==(const Json& a, const Json& b);

 private:
  struct Number {
    std::string text;
    friend bool operator==(const Number&, const Number&) = default;
  };
  /// Alternatives in the order of Kind.
  using Value = std::variant<std::monostate, bool, Number, std::string, Array, Object>;

  Value value_;
};

/// For messages: "a string", "null", …
std::string_view kind_name(const Json& value) noexcept;

/// What recursion over a tree may rely on, whatever a caller asks for.
inline constexpr int kJsonDepthCeiling = 1024;

struct JsonLimits {
  /// Arrays and objects inside each other; at most kJsonDepthCeiling.
  int max_depth = 256;
  /// Values of the whole tree, each of which costs at least sizeof(Json) bytes: a body of `[0,0,…`
  /// must not grow twentyfold without a bound.
  size_t max_values = 8'000'000;
};

/// Parses one JSON text (RFC 8259, UTF-8, optional BOM). Lone surrogate escapes become U+FFFD;
/// invalid UTF-8 is an error. The message has the byte offset and what stands there. `name` says
/// what was parsed ("request body"). Errors: invalid_input; exhausted when a limit is passed.
config::Result<Json> parse_json(std::string_view text, std::string_view name,
                                JsonLimits limits = {});

/// Compact JSON (`,` and `:` without blanks), numbers as spelled, non-ASCII verbatim: for API
/// bodies.
std::string to_json(const Json& value);
void append_json(std::string& out, const Json& value);
/// `"…"` with JSON escapes; the text must be UTF-8.
void append_json_string(std::string& out, std::string_view text);
/// The same without the quotes: pieces of a string that is written bit by bit.
void append_json_escaped(std::string& out, std::string_view text);

/// Python's json.dumps(value, ensure_ascii=False): `, ` and `: `, floats by repr, escapes as in
/// spec/tokenizer_chat.md 2.3.
std::string to_python_json(const Json& value);
void append_python_json(std::string& out, const Json& value);

/// Python's str() of a value (`None`, `True`, `{'a': 1}`): the corner cases of
/// spec/tokenizer_chat.md 2.4. Error (unsupported): a string inside an array or object has
/// non-ASCII text, where Python's repr depends on its Unicode tables.
config::Result<std::string> to_python_str(const Json& value);

/// Shortest decimal that reads back to the same double, in Python's repr form (`1e-05`, `100.0`,
/// `inf`).
std::string python_float_repr(double value);

}  // namespace yoke::engine
