// Typed reading of a JSON object's members. The first problem is remembered, later ones are not
// looked at, so that a parser can read field after field and check once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/json/json.h"
#include "server/api/error.h"

namespace yoke::server {

using engine::Json;

/// Where the first problem of a request goes.
class Problem {
 public:
  /// Keeps the first one only.
  void report(ApiCode code, std::string message, std::string param);
  bool found() const noexcept { return error_.has_value(); }
  ApiError take() { return std::move(*error_); }

 private:
  std::optional<ApiError> error_;
};

class Fields {
 public:
  /// `object` must be an object and outlive this. `path` is put before keys in `param`:
  /// "" or "stream_options.".
  Fields(const Json& object, std::string path, Problem& problem);

  /// The member, or nullptr when absent or null (spec/api.md 0, rule 17).
  const Json* find(std::string_view key) const;

  // nullopt or nullptr: absent, null, or wrong (then reported).
  std::optional<bool> boolean(std::string_view key);
  std::optional<int64_t> integer(std::string_view key, int64_t low, int64_t high);
  std::optional<double> number(std::string_view key, double low, double high);
  const std::string* text(std::string_view key);
  const Json* object(std::string_view key);
  const Json* array(std::string_view key);

  std::string path_of(std::string_view key) const { return path_ + std::string(key); }
  Problem& problem() noexcept { return problem_; }

 private:
  void wrong_type(std::string_view key, std::string_view wanted, const Json& found);

  std::unordered_map<std::string_view, const Json*> members_;
  std::string path_;
  Problem& problem_;
};

}  // namespace yoke::server
