// Who may ask: keys, web origins and host names (spec/api.md 6.2). Pure, but for reading key files.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/result.h"
#include "server/http/message.h"

namespace yoke::server {

/// The keys of one moment. Immutable: a reload makes a new one.
class KeyRing {
 public:
  KeyRing() = default;
  /// Keys of the configuration (`KEY` or `label:KEY`) and of the key file. Errors: a file that
  /// cannot be read or that others may read (with the command that repairs it), a line without a
  /// key, a label twice.
  static config::Result<KeyRing> load(const config::AccessConfig& access);

  bool empty() const noexcept { return entries_.empty(); }
  size_t size() const noexcept { return entries_.size(); }
  /// The label of a key. Takes the same time for every key of a length, known or not.
  std::optional<std::string> label_of(std::string_view key) const;

 private:
  struct Entry {
    std::string label;
    std::array<uint8_t, 32> digest;  // SHA-256
  };
  config::Result<void> add(std::string label, std::string_view key, const std::string& place);
  config::Result<void> add_file(const std::string& file);

  std::vector<Entry> entries_;
};

/// What the client sent: `Authorization: Bearer K`, `x-api-key: K` or `api-key: K`; nullopt when
/// none or empty.
std::optional<std::string> presented_key(const Headers& headers);

/// Guards against pages in the user's own browser: DNS rebinding and requests across origins.
class OriginPolicy {
 public:
  explicit OriginPolicy(std::vector<std::string> allowed_origins);

  /// Loopback origins, and those that were allowed.
  bool allows_origin(std::string_view origin) const;
  /// Whether a Host header cannot be that of a rebound name: IP addresses, localhost, and hosts of
  /// allowed origins.
  bool allows_host(std::string_view host) const;

 private:
  std::vector<std::string> origins_;
  bool any_ = false;
};

/// Access-Control headers for a response to `origin`.
void add_cors_headers(std::string_view origin, Headers& headers);
/// The answer to a preflight request.
void add_preflight_headers(const Headers& request, Headers& headers);

}  // namespace yoke::server
