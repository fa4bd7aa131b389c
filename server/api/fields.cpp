#include "server/api/fields.h"

#include <cmath>

namespace yoke::server {

namespace {

std::string number_text(double value) {
  std::string text = engine::python_float_repr(value);
  if (text.size() > 2 && text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace

void Problem::report(ApiCode code, std::string message, std::string param) {
  if (error_) return;
  error_ = ApiError{code, std::move(message), std::move(param)};
}

Fields::Fields(const Json& object, std::string path, Problem& problem)
    : path_(std::move(path)), problem_(problem) {
  const Json::Object& members = object.members();
  members_.reserve(members.size());
  for (const auto& [key, value] : members)
    if (!value.is_null()) members_.emplace(key, &value);
}

const Json* Fields::find(std::string_view key) const {
  const auto found = members_.find(key);
  return found == members_.end() ? nullptr : found->second;
}

void Fields::wrong_type(std::string_view key, std::string_view wanted, const Json& found) {
  problem_.report(ApiCode::invalid_type,
                  "'" + path_of(key) + "' must be " + std::string(wanted) + ", found " +
                      std::string(kind_name(found)),
                  path_of(key));
}

std::optional<bool> Fields::boolean(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->as_boolean();
  wrong_type(key, "a boolean", *value);
  return std::nullopt;
}

std::optional<int64_t> Fields::integer(std::string_view key, int64_t low, int64_t high) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(key, "an integer", *value);
    return std::nullopt;
  }
  const auto number = value->to_int64();
  if (number && *number >= low && *number <= high) return number;
  problem_.report(ApiCode::invalid_value,
                  "'" + path_of(key) + "' must be an integer from " + std::to_string(low) + " to " +
                      std::to_string(high) + ", found " + value->number_text().substr(0, 40),
                  path_of(key));
  return std::nullopt;
}

std::optional<double> Fields::number(std::string_view key, double low, double high) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(key, "a number", *value);
    return std::nullopt;
  }
  const auto number = value->to_double();
  if (number && *number >= low && *number <= high) return number;
  problem_.report(ApiCode::invalid_value,
                  "'" + path_of(key) + "' must be from " + number_text(low) + " to " +
                      number_text(high) + ", found " + value->number_text().substr(0, 40),
                  path_of(key));
  return std::nullopt;
}

const std::string* Fields::text(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return nullptr;
  if (value->is_string()) return &value->as_string();
  wrong_type(key, "a string", *value);
  return nullptr;
}

const Json* Fields::object(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_object()) return value;
  wrong_type(key, "an object", *value);
  return nullptr;
}

const Json* Fields::array(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_array()) return value;
  wrong_type(key, "an array", *value);
  return nullptr;
}

}  // namespace yoke::server
