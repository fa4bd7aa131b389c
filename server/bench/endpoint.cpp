#include "server/bench/endpoint.h"

#include <charconv>

namespace yoke::server {
namespace {

constexpr uint16_t kHttpPort = 80;
constexpr uint16_t kHttpsPort = 443;

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::string Endpoint::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? kHttpsPort : kHttpPort) ? name : name + ":" + std::to_string(port);
}

std::string Endpoint::url() const {
  return (tls ? "https://" : "http://") + authority() + base;
}

config::Result<Endpoint> parse_endpoint(std::string_view url) {
  const auto wrong = [&](const std::string& what) {
    return config::invalid_input("\"" + std::string(url) + "\": " + what +
                                 "; wanted a URL like http://127.0.0.1:8080/v1");
  };
  std::string_view rest = url;
  Endpoint out;
  if (take_prefix(rest, "https://")) {
    out.tls = true;
    out.port = kHttpsPort;
  } else if (!take_prefix(rest, "http://")) {
    return wrong("no http:// or https:// at its beginning");
  }
  for (const char c : rest) {
    if (c <= ' ' || c > '~') return wrong("a character that no URL has");
  }
  const size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  std::string_view path = slash == std::string_view::npos ? "" : rest.substr(slash);
  path = path.substr(0, path.find_first_of("?#"));
  if (authority.find('@') != std::string_view::npos)
    return wrong("a user in the URL; give the key with --api-key");

  std::string_view port;
  bool has_port = false;
  if (take_prefix(authority, "[")) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return wrong("`[` without `]`");
    out.host = authority.substr(0, end);
    authority.remove_prefix(end + 1);
    has_port = take_prefix(authority, ":");
    if (!has_port && !authority.empty()) return wrong("something behind `]`");
    port = authority;
  } else {
    const size_t colon = authority.find(':');
    out.host = authority.substr(0, colon);
    has_port = colon != std::string_view::npos;
    if (has_port) port = authority.substr(colon + 1);
  }
  if (out.host.empty()) return wrong("no host");
  if (has_port) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
    if (error != std::errc() || end != port.data() + port.size() || out.port == 0)
      return wrong("the port is no number from 1 to 65535");
  }

  const auto trim_slashes = [&] {
    while (path.ends_with('/')) path.remove_suffix(1);
  };
  trim_slashes();
  if (path.ends_with("/chat/completions")) {
    path.remove_suffix(std::string_view("/chat/completions").size());
    trim_slashes();
    out.base = path;
  } else {
    out.base = path.empty() ? "/v1" : path;
  }
  return out;
}

}  // namespace yoke::server
