#include "engine/json/json.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace yoke::engine {
namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// A number's value as 0.d₁d₂d₃… × 10^point with d₁ ≠ 0; no digits at all for zero.
struct Decimal {
  bool negative = false;
  std::string_view before_dot;  // without leading zeros unless nothing else is left
  std::string_view after_dot;
  int64_t point = 0;        // power of ten of the scale above
  int64_t digit_count = 0;  // significant ones: without leading and trailing zeros
  bool is_zero() const noexcept { return digit_count == 0; }
};

/// The exponent's value, saturated far beyond what any text length can offset.
int64_t read_exponent(std::string_view text) noexcept {
  constexpr int64_t kSaturated = 1'000'000'000'000'000;
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  int64_t value = 0;
  for (const char c : text) {
    value = value * 10 + (c - '0');
    if (value > kSaturated) value = kSaturated;
  }
  return negative ? -value : value;
}

Decimal read_decimal(std::string_view text) noexcept {
  Decimal d;
  d.negative = text.front() == '-';
  if (d.negative) text.remove_prefix(1);
  int64_t exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != text.npos) {
    exponent = read_exponent(text.substr(e + 1));
    text = text.substr(0, e);
  }
  const size_t dot = text.find('.');
  d.before_dot = text.substr(0, dot);
  if (dot != text.npos) d.after_dot = text.substr(dot + 1);
  if (d.before_dot == "0") d.before_dot = {};  // JSON has no other leading zero
  if (const size_t last = d.after_dot.find_last_not_of('0'); last != d.after_dot.npos) {
    d.after_dot = d.after_dot.substr(0, last + 1);
  } else {
    d.after_dot = {};
  }
  d.point = exponent + static_cast<int64_t>(d.before_dot.size());
  if (d.before_dot.empty()) {
    const size_t zeros = std::min(d.after_dot.find_first_not_of('0'), d.after_dot.size());
    d.after_dot.remove_prefix(zeros);
    d.point -= static_cast<int64_t>(zeros);
  } else if (d.after_dot.empty()) {
    d.before_dot = d.before_dot.substr(0, d.before_dot.find_last_not_of('0') + 1);
  }
  d.digit_count = static_cast<int64_t>(d.before_dot.size() + d.after_dot.size());
  return d;
}

}  // namespace

Json Json::boolean(bool value) {
  Json json;
  json.value_ = value;
  return json;
}

Json Json::number(std::string text) {
  YOKE_CHECK(is_number_text(text), "Json::number needs the text of a JSON number");
  Json json;
  json.value_ = Number{std::move(text)};
  return json;
}

Json Json::integer(int64_t value) {
  Json json;
  json.value_ = Number{std::to_string(value)};
  return json;
}

Json Json::string(std::string value) {
  Json json;
  json.value_ = std::move(value);
  return json;
}

Json Json::array(Array items) {
  Json json;
  json.value_ = std::move(items);
  return json;
}

Json Json::object(Object members) {
  Json json;
  json.value_ = std::move(members);
  return json;
}

bool Json::is_number_text(std::string_view text) noexcept {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at > begin;
  };
  const auto next_is = [&](char c) { return at < text.size() && text[at] == c; };
  if (next_is('-')) ++at;
  if (next_is('0')) {
    ++at;
  } else if (!digits()) {
    return false;
  }
  if (next_is('.')) {
    ++at;
    if (!digits()) return false;
  }
  if (next_is('e') || next_is('E')) {
    ++at;
    if (next_is('+') || next_is('-')) ++at;
    if (!digits()) return false;
  }
  return at == text.size();
}

bool Json::as_boolean() const {
  YOKE_CHECK(is_boolean(), "Json value is no boolean");
  return std::get<bool>(value_);
}

const std::string& Json::as_string() const {
  YOKE_CHECK(is_string(), "Json value is no string");
  return std::get<std::string>(value_);
}

const std::string& Json::number_text() const {
  YOKE_CHECK(is_number(), "Json value is no number");
  return std::get<Number>(value_).text;
}

const Json::Array& Json::items() const {
  YOKE_CHECK(is_array(), "Json value is no array");
  return std::get<Array>(value_);
}

Json::Array& Json::items() {
  YOKE_CHECK(is_array(), "Json value is no array");
  return std::get<Array>(value_);
}

const Json::Object& Json::members() const {
  YOKE_CHECK(is_object(), "Json value is no object");
  return std::get<Object>(value_);
}

Json::Object& Json::members() {
  YOKE_CHECK(is_object(), "Json value is no object");
  return std::get<Object>(value_);
}

const Json* Json::find(std::string_view key) const noexcept {
  const Object* object = std::get_if<Object>(&value_);
  if (object == nullptr) return nullptr;
  for (const Member& member : *object) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

Json* Json::find(std::string_view key) noexcept {
  return const_cast<Json*>(std::as_const(*this).find(key));
}

void Json::set(std::string_view key, Json value) {
  Object& object = members();
  if (Json* present = find(key)) {
    *present = std::move(value);
  } else {
    object.emplace_back(std::string(key), std::move(value));
  }
}

bool Json::is_integer_text() const noexcept {
  const Number* number = std::get_if<Number>(&value_);
  return number != nullptr && number->text.find_first_of(".eE") == std::string::npos;
}

std::optional<int64_t> Json::to_int64() const noexcept {
  const Number* number = std::get_if<Number>(&value_);
  if (number == nullptr) return std::nullopt;
  const Decimal d = read_decimal(number->text);
  if (d.is_zero()) return 0;
  // Integral iff no significant digit lies behind the point; 19 digits always fit into uint64.
  if (d.point < d.digit_count || d.point > 19) return std::nullopt;
  uint64_t magnitude = 0;
  for (const char c : d.before_dot) magnitude = magnitude * 10 + static_cast<uint64_t>(c - '0');
  for (const char c : d.after_dot) magnitude = magnitude * 10 + static_cast<uint64_t>(c - '0');
  for (int64_t i = d.digit_count; i < d.point; ++i) magnitude *= 10;
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (magnitude > kMax + (d.negative ? 1 : 0)) return std::nullopt;
  return static_cast<int64_t>(d.negative ? 0 - magnitude : magnitude);
}

std::optional<double> Json::to_double() const noexcept {
  const Number* number = std::get_if<Number>(&value_);
  if (number == nullptr) return std::nullopt;
  const std::string& text = number->text;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{}) return value;
  // Out of range: from_chars does not say on which side.
  const Decimal d = read_decimal(text);
  value = d.is_zero() || d.point < 0 ? 0.0 : std::numeric_limits<double>::infinity();
  return d.negative ? -value : value;
}

bool Json::truthy() const noexcept {
  switch (kind()) {
    case Kind::null:
      return false;
    case Kind::boolean:
      return std::get<bool>(value_);
    case Kind::number:
      // A tiny float is zero to Python, an integer only when it is spelled so.
      return is_integer_text() ? !read_decimal(std::get<Number>(value_).text).is_zero()
                               : *to_double() != 0.0;
    case Kind::string:
      return !std::get<std::string>(value_).empty();
    case Kind::array:
      return !std::get<Array>(value_).empty();
    case Kind::object:
      return !std::get<Object>(value_).empty();
  }
  return false;
}

bool operator==(const Json& a, const Json& b) {
  return a.value_ == b.value_;
}

std::string_view kind_name(const Json& value) noexcept {
  switch (value.kind()) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return "a boolean";
    case Json::Kind::number:
      return "a number";
    case Json::Kind::string:
      return "a string";
    case Json::Kind::array:
      return "an array";
    case Json::Kind::object:
      return "an object";
  }
  return "nothing";
}

}  // namespace yoke::engine
