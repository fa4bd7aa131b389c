#include "server/api/access.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

namespace yoke::server {

namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::array<uint8_t, 32> digest_of(std::string_view key) {
  std::array<uint8_t, 32> out;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

/// `http://host:port` → `host`; brackets of IPv6 addresses are taken off.
std::string_view host_of(std::string_view origin) {
  if (const size_t scheme = origin.find("://"); scheme != std::string_view::npos)
    origin.remove_prefix(scheme + 3);
  if (origin.starts_with('[')) {
    const size_t end = origin.find(']');
    return end == std::string_view::npos ? std::string_view() : origin.substr(1, end - 1);
  }
  return origin.substr(0, origin.find_first_of(":/"));
}

bool is_address(std::string_view host, bool loopback_only) {
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1)
    return !loopback_only || (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1)
    return !loopback_only || IN6_IS_ADDR_LOOPBACK(&v6);
  return false;
}

bool is_localhost(std::string_view host) {
  constexpr std::string_view kName = "localhost";
  if (host.size() < kName.size()) return false;
  const std::string_view tail = host.substr(host.size() - kName.size());
  return equal_ignoring_case(tail, kName) &&
         (host.size() == kName.size() || host[host.size() - kName.size() - 1] == '.');
}

config::Error bad_file(const std::string& file, std::string_view what) {
  return {config::ErrorKind::io, "api_key_file " + file + ": " + std::string(what)};
}

}  // namespace

// --- keys
// ------------------------------------------------------------------------------------------

config::Result<void> KeyRing::add(std::string label, std::string_view key,
                                  const std::string& place) {
  if (key.empty()) return config::invalid_input(place + ": want `label: KEY`, found no key");
  const bool taken = std::any_of(entries_.begin(), entries_.end(),
                                 [&](const Entry& e) { return e.label == label; });
  if (taken) return config::invalid_input(place + ": the label \"" + label + "\" is used twice");
  entries_.push_back({std::move(label), digest_of(key)});
  return {};
}

config::Result<void> KeyRing::add_file(const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return bad_file(file, "cannot be read");
  if ((info.st_mode & 077) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(info.st_mode & 07777));
    return bad_file(file, "others may read or change it (mode " + std::string(mode) +
                              "); run: chmod 600 " + file);
  }
  std::ifstream stream(file);
  if (!stream) return bad_file(file, "cannot be read");
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    const std::string_view text = trimmed(line);
    if (text.empty() || text.front() == '#') continue;
    const std::string place = file + ":" + std::to_string(number);
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos || colon == 0)
      return config::invalid_input(place + ": want `label: KEY`");
    const std::string label(trimmed(text.substr(0, colon)));
    if (auto done = add(label, trimmed(text.substr(colon + 1)), place); !done) return done;
  }
  return {};
}

config::Result<KeyRing> KeyRing::load(const config::AccessConfig& access) {
  KeyRing out;
  size_t unnamed = 0;
  for (const std::string& entry : access.api_keys) {
    const size_t colon = entry.find(':');
    std::string label =
        colon == std::string::npos ? "key" + std::to_string(++unnamed) : entry.substr(0, colon);
    const std::string_view key = colon == std::string::npos
                                     ? std::string_view(entry)
                                     : trimmed(std::string_view(entry).substr(colon + 1));
    if (auto done = out.add(std::move(label), key, "api_keys"); !done) return done.error();
  }
  if (!access.api_key_file.empty()) {
    if (auto done = out.add_file(access.api_key_file); !done) return done.error();
    if (out.empty()) return bad_file(access.api_key_file, "holds no key");
  }
  return out;
}

std::optional<std::string> KeyRing::label_of(std::string_view key) const {
  const std::array<uint8_t, 32> digest = digest_of(key);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_)
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
  if (found == nullptr) return std::nullopt;
  return found->label;
}

std::optional<std::string> presented_key(const Headers& headers) {
  constexpr std::string_view kScheme = "bearer ";
  if (const std::string* value = headers.find("authorization")) {
    const std::string_view text = *value;
    if (text.size() > kScheme.size() &&
        equal_ignoring_case(text.substr(0, kScheme.size()), kScheme)) {
      const std::string_view key = trimmed(text.substr(kScheme.size()));
      if (!key.empty()) return std::string(key);
    }
  }
  for (const std::string_view name : {"x-api-key", "api-key"})
    if (const std::string* value = headers.find(name); value != nullptr && !value->empty())
      return *value;
  return std::nullopt;
}

// --- origins
// ---------------------------------------------------------------------------------------

OriginPolicy::OriginPolicy(std::vector<std::string> allowed_origins)
    : origins_(std::move(allowed_origins)),
      any_(std::find(origins_.begin(), origins_.end(), "*") != origins_.end()) {
  for (std::string& origin : origins_)
    if (origin.ends_with('/')) origin.pop_back();
}

bool OriginPolicy::allows_origin(std::string_view origin) const {
  if (any_) return true;
  for (const std::string& allowed : origins_)
    if (equal_ignoring_case(allowed, origin)) return true;
  if (!origin.starts_with("http://") && !origin.starts_with("https://")) return false;
  const std::string_view host = host_of(origin);
  return is_localhost(host) || is_address(host, true);
}

bool OriginPolicy::allows_host(std::string_view host) const {
  if (any_) return true;
  const std::string_view name = host_of(host);
  if (is_localhost(name) || is_address(name, false)) return true;
  return std::any_of(origins_.begin(), origins_.end(), [&](const std::string& origin) {
    return equal_ignoring_case(host_of(origin), name);
  });
}

void add_cors_headers(std::string_view origin, Headers& headers) {
  headers.add("access-control-allow-origin", std::string(origin));
  headers.add("vary", "Origin");
  headers.add("access-control-expose-headers", "x-request-id, retry-after");
}

void add_preflight_headers(const Headers& request, Headers& headers) {
  headers.add("access-control-allow-methods", "GET, POST, DELETE, OPTIONS");
  const std::string* asked = request.find("access-control-request-headers");
  headers.add("access-control-allow-headers",
              asked != nullptr
                  ? *asked
                  : "authorization, content-type, x-api-key, anthropic-version, anthropic-beta, "
                    "anthropic-dangerous-direct-browser-access, x-request-id");
  headers.add("access-control-max-age", "86400");
}

}  // namespace yoke::server
