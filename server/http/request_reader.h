// Bytes of one HTTP request → RequestHead and body. A pure state machine over Beast's parser: the
// same result however the bytes are cut.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/message.h"

namespace yoke::server {

struct ReaderLimits {
  size_t header_bytes = 64 << 10;
  size_t body_bytes = 64 << 20;
};

/// Why a request cannot be read; the connection cannot go on after any of them.
enum class HttpProblem {
  malformed,         ///< not HTTP as we speak it: 400
  header_too_large,  ///< 431
  body_too_large,    ///< 413
  timeout,           ///< header or body did not arrive in time: 408
  overloaded,        ///< no room for another body now: 503
};

class RequestReader {
 public:
  enum class State { header, body, done, failed };

  explicit RequestReader(ReaderLimits limits);
  RequestReader(RequestReader&&) noexcept;
  RequestReader& operator=(RequestReader&&) noexcept;
  ~RequestReader();

  /// Reads from `bytes` and returns how many it took. Stops after the header (state body or done)
  /// and after the request (state done). Bytes not taken must be offered again, with more behind
  /// them. The state can change although nothing was taken.
  size_t feed(std::string_view bytes);

  State state() const noexcept;
  HttpProblem problem() const noexcept;  ///< when failed
  std::string problem_text() const;      ///< when failed
  /// Complete once the state is body or done.
  RequestHead& head() noexcept;
  /// Body bytes read so far; with discard_body() they are counted, not kept.
  size_t body_bytes() const noexcept;
  void discard_body() noexcept;
  /// When done.
  Request take();

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace yoke::server
