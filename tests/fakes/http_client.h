// A plain blocking HTTP client for tests: it shows the bytes as they are, and can misbehave. Every
// wait has a limit that only a hanging server reaches; then the test program aborts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/json/json.h"

namespace yoke::tests {

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
  std::string body;

  /// Empty when absent.
  std::string header(std::string_view name) const;
  engine::Json json() const;
};

class HttpClient {
 public:
  explicit HttpClient(uint16_t port);
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient& operator=(HttpClient&&) = delete;

  /// False when the peer has closed.
  bool send(std::string_view bytes);
  /// One request with a body (none for GET and HEAD).
  bool request(std::string_view method, std::string_view path, std::string_view body = "",
               std::string_view more_headers = "");

  /// The next response, whole. `head_only`: for HEAD.
  HttpReply read_reply(bool head_only = false);
  /// Status and headers only; then next_chunk() until it gives nothing.
  HttpReply read_head();
  std::optional<std::string> next_chunk();
  /// Reads chunks until their text, joined, contains `needle`; gives all of it so far.
  std::string read_until(std::string_view needle);

  /// Waits for the peer's end; true if nothing came before it.
  bool wait_for_end();
  /// The peer did not close: nothing to read, no end.
  bool is_open();
  void finish_sending();  ///< half-close
  void close();
  void reset();                            ///< RST instead of FIN
  int fd() const noexcept { return fd_; }  ///< still this client's

 private:
  bool fill();
  std::string take_line();

  int fd_ = -1;
  std::string in_;
  std::string joined_;
};

/// `request` and `read_reply` on a fresh connection.
HttpReply ask(uint16_t port, std::string_view method, std::string_view path,
              std::string_view body = "", std::string_view more_headers = "");

/// The `data:` payloads of an event stream; comments are left out.
std::vector<std::string> events_of(std::string_view stream);

}  // namespace yoke::tests
