// Where a bench sends its requests: an OpenAI-style base URL, taken apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/result.h"

namespace yoke::server {

struct Endpoint {
  bool tls = false;
  std::string host;  ///< without brackets
  uint16_t port = 80;
  std::string base;  ///< path before `/chat/completions`, for example "/v1"

  /// As a Host header wants it.
  std::string authority() const;
  /// `http://host:port/v1`, for people.
  std::string url() const;
};

/// Accepts what people paste: with or without path, trailing slash, or `/chat/completions` behind
/// it. Without a path it is `/v1`. Errors say what a URL looks like.
config::Result<Endpoint> parse_endpoint(std::string_view url);

}  // namespace yoke::server
