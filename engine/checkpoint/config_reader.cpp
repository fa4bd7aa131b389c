#include "engine/checkpoint/config_reader.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <cmath>

#include "engine/checkpoint/file.h"

namespace yoke::engine {

namespace json = boost::json;

namespace {

std::string shown(double x) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, x).ptr;
  return {digits, end};
}

std::string kind_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return value.get_bool() ? "true" : "false";
    case json::kind::string:
      return "the string " + quote(std::string_view(value.get_string()));
    case json::kind::array:
      return "a list";
    case json::kind::object:
      return "an object";
    case json::kind::int64:
      return std::to_string(value.get_int64());
    case json::kind::uint64:
      return std::to_string(value.get_uint64());
    case json::kind::double_:
      return shown(value.get_double());
  }
  return "something else";
}

}  // namespace

void ConfigReader::fail(std::string_view message) const {
  if (error_.empty()) error_ = path_ + ": " + std::string(message);
}

const json::value* ConfigReader::value(std::string_view key) const {
  if (object_ == nullptr) return nullptr;
  const json::value* found = object_->if_contains(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void ConfigReader::wrong_kind(std::string_view key, std::string_view wanted,
                              const json::value& found) const {
  fail(std::string(key) + ": wanted " + std::string(wanted) + ", found " + kind_of(found));
}

std::optional<int64_t> ConfigReader::whole(const json::value& value) const {
  if (value.is_int64()) return value.get_int64();
  // 4.0 is a whole number too; everything that fits our bounds is exact in a double.
  if (value.is_double() && std::floor(value.get_double()) == value.get_double() &&
      std::fabs(value.get_double()) < 9e15)
    return static_cast<int64_t>(value.get_double());
  return std::nullopt;
}

int32_t ConfigReader::integer(std::string_view key, int64_t low, int64_t high,
                              std::optional<int32_t> fallback) const {
  const std::string wanted =
      "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  const json::value* found = value(key);
  if (found == nullptr) {
    if (!fallback) fail(std::string(key) + " is missing: wanted " + wanted);
    return fallback.value_or(static_cast<int32_t>(low));
  }
  const std::optional<int64_t> number = whole(*found);
  if (number && *number >= low && *number <= high) return static_cast<int32_t>(*number);
  wrong_kind(key, wanted, *found);
  return static_cast<int32_t>(low);
}

double ConfigReader::number(std::string_view key, double low, double high,
                            std::optional<double> fallback) const {
  const std::string wanted = "a number from " + shown(low) + " to " + shown(high);
  const json::value* found = value(key);
  if (found == nullptr) {
    if (!fallback) fail(std::string(key) + " is missing: wanted " + wanted);
    return fallback.value_or(low);
  }
  json::error_code ec;
  const double number = found->is_number() ? found->to_number<double>(ec) : NAN;
  if (!ec && number >= low && number <= high) return number;
  wrong_kind(key, wanted, *found);
  return low;
}

bool ConfigReader::boolean(std::string_view key, bool fallback) const {
  const json::value* found = value(key);
  if (found == nullptr) return fallback;
  if (found->is_bool()) return found->get_bool();
  wrong_kind(key, "true or false", *found);
  return fallback;
}

std::string ConfigReader::text(std::string_view key, std::string_view fallback) const {
  const json::value* found = value(key);
  if (found == nullptr) return std::string(fallback);
  if (found->is_string()) return std::string(std::string_view(found->get_string()));
  wrong_kind(key, "a string", *found);
  return std::string(fallback);
}

std::optional<std::vector<std::string>> ConfigReader::texts(std::string_view key) const {
  const json::value* found = value(key);
  if (found == nullptr) return std::nullopt;
  std::vector<std::string> out;
  if (!found->is_array()) {
    wrong_kind(key, "a list of strings", *found);
    return out;
  }
  for (const json::value& item : found->get_array()) {
    if (!item.is_string()) {
      wrong_kind(key, "a list of strings", item);
      return out;
    }
    out.emplace_back(std::string_view(item.get_string()));
  }
  return out;
}

std::vector<int32_t> ConfigReader::integers(std::string_view key, int64_t low, int64_t high) const {
  const json::value* found = value(key);
  if (found == nullptr) return {};
  if (!found->is_array()) return {integer(key, low, high)};
  std::vector<int32_t> out;
  for (const json::value& item : found->get_array()) {
    const std::optional<int64_t> number = whole(item);
    if (!number || *number < low || *number > high) {
      wrong_kind(key, "whole numbers from " + std::to_string(low) + " to " + std::to_string(high),
                 item);
      return out;
    }
    out.push_back(static_cast<int32_t>(*number));
  }
  return out;
}

ConfigReader ConfigReader::child(std::string_view key) const {
  const std::string path = path_ + ": " + std::string(key);
  const json::value* found = value(key);
  if (found == nullptr) return {nullptr, path, error_};
  if (!found->is_object()) wrong_kind(key, "an object", *found);
  return {found->if_object(), path, error_};
}

void ConfigReader::require_text(std::string_view key, std::string_view wanted,
                                std::string_view why) const {
  const std::string found = text(key, wanted);
  if (found != wanted)
    fail(std::string(key) + " is " + quote(found) + ", wanted '" + std::string(wanted) +
         "': " + std::string(why));
}

void ConfigReader::require_boolean(std::string_view key, bool wanted, std::string_view why) const {
  if (boolean(key, wanted) != wanted)
    fail(std::string(key) + " is " + (wanted ? "false" : "true") + ": " + std::string(why));
}

}  // namespace yoke::engine
