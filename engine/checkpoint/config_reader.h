// Typed, bounded reading of one JSON object of a config file: the first thing that is wrong is kept
// as one sentence, later reads return defaults.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::engine {

/// Reads keys of `object`. A null value counts as absent. Readers of nested objects share one
/// `error`, so that the first fault of the whole file is reported.
class ConfigReader {
 public:
  /// `path` begins every message: "config.json: text_config". `object` and `error` must outlive the
  /// reader; `object` may be null: every key is absent.
  ConfigReader(const boost::json::object* object, std::string path, std::string& error)
      : object_(object), path_(std::move(path)), error_(error) {}

  bool failed() const { return !error_.empty(); }
  /// Records `message` unless an earlier one stands: "<path>: <message>".
  void fail(std::string_view message) const;

  bool has(std::string_view key) const { return value(key) != nullptr; }
  /// True also for a key that is null.
  bool names(std::string_view key) const { return object_ != nullptr && object_->contains(key); }

  /// An integer in [low, high]; `fallback` when absent, a fault when absent without a fallback.
  int32_t integer(std::string_view key, int64_t low, int64_t high,
                  std::optional<int32_t> fallback = {}) const;
  /// A finite number in [low, high].
  double number(std::string_view key, double low, double high,
                std::optional<double> fallback = {}) const;
  bool boolean(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  /// A list of strings, nullopt when absent.
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  /// An integer or a list of integers in [low, high]; empty when absent.
  std::vector<int32_t> integers(std::string_view key, int64_t low, int64_t high) const;
  /// The nested object, or an absent one.
  ConfigReader child(std::string_view key) const;

  /// A fault unless the key is absent or holds this value.
  void require_text(std::string_view key, std::string_view wanted, std::string_view why) const;
  void require_boolean(std::string_view key, bool wanted, std::string_view why) const;

 private:
  const boost::json::value* value(std::string_view key) const;  // nullptr when absent or null
  void wrong_kind(std::string_view key, std::string_view wanted,
                  const boost::json::value& found) const;
  std::optional<int64_t> whole(const boost::json::value& value) const;

  const boost::json::object* object_;
  std::string path_;
  std::string& error_;
};

}  // namespace yoke::engine
