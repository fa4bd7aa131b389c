// Requests and responses as this server sees them: bytes and headers, no models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace yoke::server {

/// Header fields in the order of the wire; names compare without case.
class Headers {
 public:
  void add(std::string name, std::string value);
  /// The first value of `name`, or nullptr.
  const std::string* find(std::string_view name) const noexcept;
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }
  const std::vector<std::pair<std::string, std::string>>& fields() const noexcept {
    return fields_;
  }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct RequestHead {
  std::string method;  ///< as sent, case-sensitive
  std::string path;    ///< still percent-encoded; without scheme, authority and query
  std::string query;   ///< without `?`
  int version = 11;    ///< 10 or 11
  Headers headers;
  bool keep_alive = true;
  bool expects_continue = false;
  bool chunked = false;
  std::optional<uint64_t> content_length = std::nullopt;
  std::string request_id;  ///< the client's X-Request-Id if it is usable, else our own
  std::string peer;        ///< address:port of the client

  bool has_body() const noexcept { return chunked || content_length.value_or(0) > 0; }
};

struct Request {
  RequestHead head;
  std::string body;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;     ///< beside content-type, content-length, connection and x-request-id
  bool close = false;  ///< close the connection after this response
};

std::string_view reason_phrase(int status) noexcept;

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;

/// `%41` → `A`; malformed escapes stay as they are.
std::string percent_decoded(std::string_view text);

/// 1 to 128 visible ASCII characters.
bool is_usable_request_id(std::string_view id) noexcept;

/// The whole head of a response, ready to send. `chunked` instead of a length for streams.
struct ResponseHead {
  int status = 200;
  int version = 11;
  std::string_view content_type = {};
  std::string_view request_id = {};
  std::optional<uint64_t> content_length = std::nullopt;
  bool chunked = false;
  bool keep_alive = true;
};
std::string format_head(const ResponseHead& head, const Headers& headers);

/// One chunk of a chunked body; `data` must not be empty.
std::string format_chunk(std::string_view data);
constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace yoke::server
